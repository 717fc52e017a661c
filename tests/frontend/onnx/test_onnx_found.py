"""What the differential fuzzer found in reading and evaluating single nodes, as it shrank it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import make_model

import byocir
from byocir.evaluate.module import evaluate

NO_AXES = np.zeros(0, np.int64)


def through_all(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The first output at the graph level, at the tensor level and as C."""
    found = [evaluate(byocir.import_onnx(model), feeds)]
    found += [
        byocir.compile(model, targets=[], host=host).run(feeds) for host in ("reference", "c")
    ]
    return [next(iter(each.values())) for each in found]


def test_halves_are_quantised_in_the_arithmetic_of_halves():
    """2 / 0.031 is 64.504, in halves 64.5, and to even that is 64."""
    x = {"x": np.array([2], np.float16)}
    grid = {"scale": np.array(0.031, np.float16), "zero": np.array(0, np.uint8)}
    node = helper.make_node("QuantizeLinear", ["x", *grid], ["y"])
    for found in through_all(make_model([node], x, grid), x):
        assert found.tolist() == [64]


@pytest.mark.parametrize(
    ("operator", "expected"), [("Erf", 0.8427007929497149), ("Gelu", 0.8413447460685429)]
)
def test_doubles_are_computed_as_doubles(operator, expected):
    x = {"x": np.array([1.0])}
    node = helper.make_node(operator, ["x"], ["y"])
    for found in through_all(make_model([node], x), x):
        np.testing.assert_allclose(found, [expected], rtol=1e-15)


def test_a_spectrum_has_one_side_by_default():
    x = {"x": np.ones((1, 3, 1), np.float32)}
    weights = {"step": np.array(1), "window": np.ones(3, np.float32)}
    node = helper.make_node("STFT", ["x", *weights], ["y"])
    model = make_model([node], x, weights)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    for found in through_all(model, x):
        assert found.shape == (1, 1, 2, 2)


@pytest.mark.parametrize("number", [0, 3])
def test_a_scalar_has_no_index(number):
    x = {"x": np.array(number, np.float32)}
    model = make_model([helper.make_node("NonZero", ["x"], ["y"])], x)
    for found in through_all(model, x):
        assert found.shape == (0, int(number != 0))


def test_a_scalar_of_16_bits_is_written_in_place():
    x = {"x": np.array(-2, np.int32)}
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    for found in through_all(make_model([node], x), x):
        assert (found.shape, float(found)) == ((), -2)


def test_an_empty_batch_is_convolved_back():
    x = {"x": np.zeros((0, 1, 2), np.float32)}
    weights = {"w": np.ones((1, 1, 2), np.float32)}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"])
    for found in through_all(make_model([node], x, weights), x):
        assert found.shape == (0, 1, 3)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [0.25, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_first_element_is_left_of_several(mode, scale, dtype):
    x = {"x": np.array([[[[10, 20, 30, 40], [10, 20, 30, 40]]]], dtype)}
    weights = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, scale], np.float32)}
    how = "pytorch_half_pixel"
    node = helper.make_node(
        "Resize", ["x", *weights], ["y"], mode=mode, coordinate_transformation_mode=how
    )
    for found in through_all(make_model([node], x, weights), x):
        assert found.ravel().tolist() == [10, 10, 10, 10]


def test_the_nearest_element_is_copied_as_it_is():
    x = {"x": np.array([[[np.nan, 1, 2**24 + 1]]])}
    weights = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2], np.float32)}
    model = make_model([helper.make_node("Resize", ["x", *weights], ["y"])], x, weights)
    wide = {"x": np.array([[[2**63 - 1, 1, -(2**63)]]])}
    for feeds, kind in ((x, TensorProto.DOUBLE), (wide, TensorProto.INT64)):
        for port in (*model.graph.input, *model.graph.output):
            port.type.tensor_type.elem_type = kind
        for found in through_all(model, feeds):
            np.testing.assert_array_equal(found, feeds["x"].repeat(2, 2))


@pytest.mark.parametrize(("axis", "shape"), [(0, (1, 0)), (1, (0, 0)), (2, (0, 4)), (3, (0, 1))])
def test_nothing_is_flattened(axis, shape):
    x = {"x": np.zeros((0, 0, 4), np.float16)}
    node = helper.make_node("Flatten", ["x"], ["y"], axis=axis)
    for found in through_all(make_model([node], x), x):
        assert found.shape == shape


def test_a_constant_is_sliced_back_from_before_its_first_element():
    x = {"x": np.array([1], np.int64)}
    weights = {
        "data": np.array([5, 6]),
        "starts": np.array([-3]),
        "ends": np.array([-9]),
        "axes": np.array([0]),
        "steps": np.array([-1]),
    }
    nodes = [
        helper.make_node("Slice", [*weights], ["s"]),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    for found in through_all(make_model(nodes, x, weights), x):
        assert found.tolist() == [6]
    of_two = weights | {"data": np.array([2, 3])}
    x = {"x": np.arange(6)[:2]}
    nodes[1] = helper.make_node("Reshape", ["x", "s"], ["y"])
    for found in through_all(make_model(nodes, x, of_two), x):
        assert found.tolist() == [0, 1]

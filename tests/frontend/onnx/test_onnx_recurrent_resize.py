"""Random recurrent and resize operators: import, evaluation and export against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import check, make_model, one_node, run_byocir, run_ort

import byocir
from byocir.dialects.graph import ForeignOp
from byocir.frontend.onnx import import_onnx

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=max(settings.default.max_examples // 4, 1))

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 3, 2


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def recurrent(
    operator: str, seed: int, direction: str, present: int, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model with random operands; bit i of `present` says whether optional operand i is there."""
    count, many = GATES[operator], 2 if direction == "bidirectional" else 1
    feeds = {"x": floats(seed, STEPS, BATCH, INPUTS)}
    lengths = np.random.default_rng(seed).integers(1, STEPS, BATCH, endpoint=True)
    optional = {
        "b": floats(seed + 3, many, 2 * count * HIDDEN),
        "n": lengths.astype(np.int32),
        "h": floats(seed + 4, many, BATCH, HIDDEN),
        "c": floats(seed + 5, many, BATCH, HIDDEN),
        "p": floats(seed + 6, many, 3 * HIDDEN),
    }
    optional = dict(list(optional.items())[: 5 if operator == "LSTM" else 3])
    weights = {
        "w": floats(seed + 1, many, count * HIDDEN, INPUTS),
        "r": floats(seed + 2, many, count * HIDDEN, HIDDEN),
        **{name: a for i, (name, a) in enumerate(optional.items()) if present >> i & 1},
    }
    names = ["x", "w", "r", *(name if name in weights else "" for name in optional)]
    outputs = ["y", "yh", "yc"][: 3 if operator == "LSTM" else 2]
    node = helper.make_node(
        operator, names, outputs, hidden_size=HIDDEN, direction=direction, **attributes
    )
    return make_model([node], feeds, weights, outputs=outputs), feeds


@pytest.mark.parametrize("operator", GATES)
def test_recurrent(operator: str) -> None:
    @some
    @given(
        seeds,
        st.sampled_from(["forward", "reverse", "bidirectional"]),
        st.integers(0, 31),
        st.integers(0, 1),
    )
    def run(seed: int, direction: str, present: int, linear: int) -> None:
        attributes = {"linear_before_reset": linear} if operator == "GRU" else {}
        model, feeds = recurrent(operator, seed, direction, present, **attributes)
        check(model, feeds)

    run()


def test_batch_first() -> None:
    """ONNX Runtime knows layout 0 only."""
    plain, feeds = recurrent("GRU", 1, "bidirectional", 0)
    turned = onnx.ModelProto()
    turned.CopyFrom(plain)
    turned.graph.node[0].attribute.append(helper.make_attribute("layout", 1))
    dims = turned.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value, dims[1].dim_value = BATCH, STEPS
    shapes = [BATCH, STEPS, 2, HIDDEN], [BATCH, 2, HIDDEN]
    for output, shape in zip(turned.graph.output, shapes, strict=True):
        output.CopyFrom(helper.make_tensor_value_info(output.name, onnx.TensorProto.FLOAT, shape))
    y, last = run_byocir(import_onnx(plain), feeds)
    found = run_byocir(import_onnx(turned), {"x": np.ascontiguousarray(feeds["x"].swapaxes(0, 1))})
    np.testing.assert_array_equal(found[0], y.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(found[1], last.swapaxes(0, 1))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"clip": 1.0}, "expected no clip"),
        ({"activations": ["Relu", "Tanh", "Tanh"]}, "expected the activations"),
        ({"input_forget": 1}, "expected input_forget 0, found 1"),
    ],
)
def test_other_recurrences_stay_foreign(attributes: dict[str, Any], message: str) -> None:
    model, feeds = recurrent("LSTM", 1, "forward", 0, **attributes)
    module = import_onnx(model)
    (op,) = (op for op in module.walk() if isinstance(op, ForeignOp))
    assert op.reason is not None
    assert message in op.reason.data
    package = byocir.compile(model)
    found = package.run(feeds)
    for name, expected in zip(found, run_ort(model, feeds), strict=True):
        np.testing.assert_allclose(found[name], expected, 1e-5, 1e-6)
    assert set(package.report.ran_on.values()) == {"onnxruntime"}


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@given(
    seeds,
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(COORDINATES),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_resize_to_sizes(
    seed: int, mode: str, coordinates: str, nearest: str, sizes: tuple[int, int]
) -> None:
    feeds = {"x": floats(seed, 1, 2, 4, 5)}
    node = helper.make_node(
        "Resize",
        ["x", "", "", "s"],
        ["y"],
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode=nearest,
    )
    weights = {"s": np.array([1, 2, *sizes], np.int64)}
    check(make_model([node], feeds, weights), feeds)


@some
@given(
    seeds,
    st.sampled_from(["nearest", "linear"]),
    st.sampled_from([(2.0, 2.0), (0.5, 1.5), (1.0, 3.25)]),
    st.booleans(),
)
def test_resize_by_scales(
    seed: int, mode: str, scales: tuple[float, float], some_axes: bool
) -> None:
    feeds = {"x": floats(seed, 1, 2, 4, 5)}
    attributes = {"axes": [2, -1]} if some_axes else {}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, **attributes)
    weights = {"s": np.array(scales if some_axes else [1, 1, *scales], np.float32)}
    check(make_model([node], feeds, weights), feeds)


def test_crop_and_resize() -> None:
    feeds = {"x": floats(3, 1, 2, 4, 5)}
    weights = {
        "roi": np.array([0, 0, 0.2, 0.4, 1, 1, 0.7, 1.5], np.float32),
        "scales": np.array([], np.float32),
        "sizes": np.array([1, 2, 3, 3], np.int64),
    }
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    check(one_node("Resize", feeds, weights, extrapolation_value=7.0, **attributes), feeds)

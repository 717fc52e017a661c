"""What an imported module looks like: names, locations, nodes, normal forms."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import assert_equal, check, main_of, make_model, one_node, run_byocir, run_ort
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr

from byocir.dialects.byoc import Node, SourceOp
from byocir.dialects.graph import (
    AddOp,
    ClipOp,
    ConstantOp,
    ConvOp,
    DequantizeOp,
    MatmulOp,
    MaxPoolOp,
    QuantizeOp,
    TransposeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.locations import names
from byocir.frontend.onnx import export_onnx, import_onnx

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
X = np.linspace(-2, 2, 2 * 3 * 6 * 6, dtype=np.float32).reshape(2, 3, 6, 6)
W = np.linspace(-1, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)


def ops(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("graph.") for op in main_of(module).body.block.ops]


T = TypeVar("T")


def find(module: ModuleOp, kind: type[T]) -> T:
    return next(op for op in main_of(module).body.block.ops if isinstance(op, kind))


def test_names_locations_and_source() -> None:
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="first"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Relu", ["r"], ["out"], name="first"),
    ]
    module = import_onnx(make_model(nodes, {"image": X}, {"w": W}, outputs=["out"]))
    main = main_of(module)
    assert main.sym_name.data == "main"
    for attributes, name in ((main.arg_attrs, "image"), (main.res_attrs, "out")):
        assert attributes is not None
        assert list(attributes) == [DictionaryAttr({"byoc.name": StringAttr(name)})]
    located = [names(op.location) for op in main.body.block.ops if op.name != "func.return"]
    assert located == [("first",), ("first",), ("Relu_1",), ("first_2",)]
    source = module.body.block.last_op
    assert isinstance(source, SourceOp)
    macs = 2 * 4 * 4 * 4 * 3 * 3 * 3
    assert source.entries() == [
        Node("first", "Conv", macs),
        Node("Relu_1", "Relu", 0),
        Node("first_2", "Relu", 0),
    ]


def test_macs_count_groups_and_matrices() -> None:
    conv = one_node("Conv", {"x": X}, {"w": W[:3, :1]}, group=3)
    gemm = one_node("Gemm", {"x": X[0, 0, :2]}, {"w": X[0, 0]}, transB=1)
    for model, macs in ((conv, 2 * 3 * 4 * 4 * 9), (gemm, 2 * 6 * 6)):
        source = import_onnx(model).body.block.last_op
        assert isinstance(source, SourceOp)
        assert [entry.macs for entry in source.entries()] == [macs]


def test_conv_has_all_properties() -> None:
    model = one_node("Conv", {"x": X}, {"w": W}, auto_pad="SAME_LOWER", strides=[2, 1])
    conv = find(import_onnx(model), ConvOp)
    assert int_tuple(conv.pads) == (1, 1, 0, 1)
    assert (int_tuple(conv.strides), int_tuple(conv.dilations)) == ((2, 1), (1, 1))
    assert conv.group.value.data == 1


def test_dilated_same_keeps_the_size() -> None:
    """As the standard says; ONNX Runtime refuses it."""
    model = one_node("Conv", {"x": X}, {"w": W}, auto_pad="SAME_UPPER", dilations=[2, 2])
    found = run_byocir(import_onnx(model), {"x": X})
    assert found[0].shape == (2, 4, 6, 6)
    explicit = one_node("Conv", {"x": X}, {"w": W}, pads=[2, 2, 2, 2], dilations=[2, 2])
    assert_equal(found, run_ort(explicit, {"x": X}))


def test_ceil_mode_without_effect_is_zero() -> None:
    """5 elements in windows of 1 every 3: a third window would start outside."""
    x = {"x": X[:, :, :5, :5]}
    model = one_node("MaxPool", x, kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1)
    pool = find(check(model, x, exact=True), MaxPoolOp)
    assert pool.ceil_mode.value.data == 0


def test_gemm_of_constants_needs_no_transpose() -> None:
    weights = {"w": X[0, 0], "c": X[0, 0, 0]}
    module = check(
        one_node("Gemm", {"x": X[0, 0]}, weights, transB=1, alpha=0.5, beta=2.0), {"x": X[0, 0]}
    )
    assert ops(module) == [
        "constant",
        "matmul",
        "constant",
        "mul",
        "constant",
        "add",
        "func.return",
    ]


def test_gemm_of_dequantised_weights_transposes_them() -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("Gemm", ["x", "d", "b"], ["y"], transB=1),
    ]
    weights = {
        "w": np.arange(12, dtype=np.int8).reshape(2, 6),
        "s": np.array(0.5, np.float32),
        "b": np.ones(2, np.float32),
    }
    module = check(make_model(nodes, {"x": X[0, 0]}, weights), {"x": X[0, 0]})
    assert isinstance(find(module, TransposeOp).input.owner, DequantizeOp)
    assert isinstance(find(module, AddOp).lhs.owner, MatmulOp)


def test_gemm_of_integers() -> None:
    """ONNX Runtime has none; onnx's reference has."""
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    model = one_node("Gemm", {"x": a}, {"w": a, "c": a[:, :2]}, transB=1)
    expected = ReferenceEvaluator(model).run(None, {"x": a})
    assert_equal(run_byocir(import_onnx(model), {"x": a}), expected)


def test_quantisation_is_normalised() -> None:
    """A missing zero point is a constant, one scale is a scalar, an axis counts from the front."""
    scale = {"s": np.array([0.5], np.float32)}
    quantize = find(import_onnx(one_node("QuantizeLinear", {"x": X}, scale, axis=-1)), QuantizeOp)
    assert isinstance(quantize.zero_point.owner, ConstantOp)
    assert str(quantize.zero_point.type) == "tensor<ui8>"
    assert str(quantize.scale.type) == "tensor<f32>"
    assert quantize.axis.value.data == 1
    scale = {"s": np.ones(6, np.float32)}
    quantize = find(import_onnx(one_node("QuantizeLinear", {"x": X}, scale, axis=-1)), QuantizeOp)
    assert quantize.axis.value.data == 3


def test_output_dtype_gives_the_zero_point() -> None:
    scale = {"s": np.array(0.5, np.float32)}
    model = one_node("QuantizeLinear", {"x": X}, scale, output_dtype=onnx.TensorProto.INT8)
    check(model, {"x": X}, exact=True)


def test_clip_keeps_infinite_bounds() -> None:
    weights = {"lo": np.array(-np.inf, np.float32), "hi": np.array(np.inf, np.float32)}
    clip = find(check(one_node("Clip", {"x": X}, weights), {"x": X}, exact=True), ClipOp)
    assert clip.max is not None
    assert clip.max.data.values() == np.inf


@pytest.mark.parametrize(
    "attribute",
    [
        {"value": onnx.numpy_helper.from_array(np.array([1.0, 2.0], np.float32))},
        {"value_float": 1.5},
        {"value_floats": [1.5, 2.5]},
        {"value_int": 3},
        {"value_ints": [3, 4]},
    ],
    ids=lambda attribute: next(iter(attribute)),
)
def test_constant_nodes(attribute: dict) -> None:
    integers = "int" in next(iter(attribute))
    x = {"x": np.array([[1, 2], [3, 4]], np.int64 if integers else np.float32)}
    nodes = [
        helper.make_node("Constant", [], ["c"], **attribute),
        helper.make_node("Mul", ["x", "c"], ["y"]),
    ]
    check(make_model(nodes, x), x, exact=True)


def test_nodes_without_effect_leave_nothing() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["i"]),
        helper.make_node("Dropout", ["i"], ["d"]),
        helper.make_node("Identity", ["w"], ["v"]),
        helper.make_node("Add", ["d", "v"], ["y"]),
    ]
    module = check(make_model(nodes, {"x": X}, {"w": X}), {"x": X}, exact=True)
    assert ops(module) == ["constant", "add", "func.return"]


def test_inputs_and_constants_as_outputs() -> None:
    nodes = [helper.make_node("Identity", ["w"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
    nodes.append(helper.make_node("Identity", ["x"], ["p"]))
    nodes.append(helper.make_node("Identity", ["z"], ["q"]))
    model = make_model(nodes, {"x": X}, {"w": W}, outputs=["y", "z", "p", "q"])
    check(model, {"x": X}, exact=True)


def test_pinned_sizes() -> None:
    model = one_node("Add", {"a": X, "b": X})
    for value, batch in ((model.graph.input[0], "batch"), (model.graph.input[1], "batch")):
        value.type.tensor_type.shape.dim[0].dim_param = batch
    model.graph.input[1].type.tensor_type.shape.dim[1].Clear()
    del model.graph.value_info[:]
    module = import_onnx(model, shapes={"b": (5, 3, 6, 6)})
    assert [str(a.type) for a in main_of(module).args] == ["tensor<5x3x6x6xf32>"] * 2


def test_the_callers_model_is_left_alone() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, opset=15)
    before = model.SerializeToString()
    import_onnx(model)
    assert model.SerializeToString() == before


def test_path_bytes_and_external_data(tmp_path: Path) -> None:
    model = one_node("Conv", {"x": X}, {"w": W})
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").exists()
    expected = import_onnx(one_node("Conv", {"x": X}, {"w": W}).SerializeToString())
    assert str(import_onnx(path)) == str(import_onnx(str(path))) == str(expected)


NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("opset", range(13, NEWEST + 1))
def test_opsets(opset: int) -> None:
    axes = {"axes": [2, 3]} if opset < 18 else {}
    reduced = ["d"] if opset < 18 else ["d", "axes"]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Clip", ["c", "zero"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "scale", "zp"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zp"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("AveragePool", ["p"], ["d"], kernel_shape=[2, 2]),
        helper.make_node("ReduceMean", reduced, ["m"], name="mean", keepdims=0, **axes),
        helper.make_node("Gemm", ["m", "g"], ["l"]),
        helper.make_node("Unsqueeze", ["l", "one"], ["u"]),
        helper.make_node("Squeeze", ["u", "one"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"]),
    ]
    weights = {
        "w": W,
        "zero": np.array(0, np.float32),
        "scale": np.array(0.05, np.float32),
        "zp": np.array(0, np.int8),
        "g": W.reshape(4, 27)[:, :3],
        "one": np.array([1], np.int64),
        "shape": np.array([-1, 3], np.int64),
        "axes": np.array([2, 3], np.int64),
    }
    model = make_model(nodes, {"x": X}, weights, opset=opset)
    module = import_onnx(model)
    assert [n.name for n in _source(module).entries()][:1] == ["conv"]
    assert len(_source(module).entries()) == len(nodes)
    # Neither knows all opsets: ONNX Runtime the newest, onnx's reference quantisation before 19.
    if opset < 19:
        expected = run_ort(model, {"x": X})
    else:
        expected = ReferenceEvaluator(model).run(None, {"x": X})
    assert_equal(run_byocir(module, {"x": X}), expected)


def _source(module: ModuleOp) -> SourceOp:
    source = module.body.block.last_op
    assert isinstance(source, SourceOp)
    return source


@pytest.mark.parametrize("name", ["digits_f32", "digits_int8", "digits_int8_per_channel"])
def test_digits(name: str) -> None:
    image = np.load(DIGITS / "digits_test.npz")["image"][:64]
    path = DIGITS / f"{name}.onnx"
    model = onnx.load(path)
    module = import_onnx(path, shapes={"image": image.shape})
    module.verify()
    assert sum(node.macs for node in _source(module).entries()) == 64 * 361_792
    (expected,) = run_ort(model, {"image": image})
    (found,) = run_byocir(module, {"image": image})
    (again,) = run_ort(export_onnx(module), {"image": image})
    np.testing.assert_array_equal(again, expected)
    if name == "digits_f32":
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)

"""All passes on ONNX files against ONNX Runtime without graph optimisations."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from quantized_layers import FLOAT_OPS, Layer, output_scale
from rewrite_nets import op_names, run_passes
from xdsl.dialects.builtin import ModuleOp

from byocir.evaluate.module import evaluate
from byocir.frontend.onnx import import_onnx
from byocir.rewrites.clean_up import CleanUpPass
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.fold_constants import FoldConstantsPass
from byocir.rewrites.normalize_qdq import NormalizeQdqPass
from byocir.rewrites.qdq_to_integer import QdqToIntegerPass

onnxruntime = pytest.importorskip("onnxruntime")

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODELS = ["digits_int8", "digits_int8_per_channel"]


def reference(model: bytes, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The first output by ONNX Runtime, which may round elsewhere when it optimises."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options).run(None, feeds)[0]


def integer_module(module: ModuleOp, rounding: str | None = "half_up") -> ModuleOp:
    passes = [NormalizeQdqPass(), FoldConstantsPass(), CleanUpPass(), QdqToIntegerPass()]
    if rounding is not None:
        passes.append(FixPointPass(rounding))
    return run_passes(module, *passes, CleanUpPass())


def quantized_conv(layer: Layer, channels: int) -> tuple[bytes, np.ndarray]:
    """A QDQ model of one 3x3 convolution of int8 with bias and relu, and its input."""
    x, (w, w_scale) = layer.data((1, channels, 16, 16)), layer.weight((16, channels, 3, 3), 0)
    x_scale, b = layer.scale(), layer.random.integers(-2000, 2000, 16, np.int32)
    out_scale = output_scale(layer, x, w, x_scale * w_scale, channels * 9)
    constants = {"x_scale": x_scale, "zero": np.int8(0), "w": w, "w_scale": w_scale, "b": b}
    constants |= {"w_zero": np.zeros(w_scale.shape, np.int8), "y_scale": out_scale}
    constants |= {"b_scale": np.float32(x_scale * w_scale)}
    constants |= {"b_zero": np.zeros(w_scale.shape, np.int32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "zero"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wf"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["bf"], axis=0),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["yf"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["yf", "y_scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.INT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT8, (1, 16, 16, 16))],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), x


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("channels", [16, 64, 256, 512])
def test_convolutions_of_144_to_4608_terms(channels, per_channel):
    """At least 98 of 100 values equal, the others one step off, after all passes."""
    layer = Layer(channels, per_channel=per_channel, bell_shaped=True)
    model, x = quantized_conv(layer, channels)
    module = integer_module(import_onnx(model))
    assert not FLOAT_OPS.intersection(op_names(module))
    difference = np.abs(evaluate(module, {"x": x})["y"].astype(int) - reference(model, {"x": x}))
    assert difference.max() <= 1
    assert np.mean(difference == 0) >= 0.98


@pytest.mark.parametrize("rounding", [None, "floor", "half_up", "half_even"])
@pytest.mark.parametrize("name", MODELS)
def test_digits(name, rounding):
    """Before fix-point every bit is ONNX Runtime's; after it only the first quantize and the last
    dequantize are left, and answers stay right."""
    test = np.load(DIGITS / "digits_test.npz")
    images, labels = test["image"], test["label"]
    path = DIGITS / f"{name}.onnx"
    imported = import_onnx(path, shapes={"image": images.shape})
    module = integer_module(imported, rounding)
    left = [op for op in op_names(module) if op in FLOAT_OPS]
    assert rounding is None or left == ["quantize", "dequantize"]
    assert_names_are_kept(imported, module)
    logits = evaluate(module, {"image": images})["logits"]
    expected = reference(path.read_bytes(), {"image": images})
    assert rounding is not None or np.array_equal(logits, expected)
    assert np.mean(logits.argmax(1) == expected.argmax(1)) >= 0.995
    right = np.count_nonzero(logits.argmax(1) == labels)
    assert right >= np.count_nonzero(expected.argmax(1) == labels) - 1


def assert_names_are_kept(before: ModuleOp, after: ModuleOp) -> None:
    """Arguments, results and the list of the model's nodes are as imported."""
    assert before.body.block.first_op.properties == after.body.block.first_op.properties
    assert str(before.body.block.last_op) == str(after.body.block.last_op)

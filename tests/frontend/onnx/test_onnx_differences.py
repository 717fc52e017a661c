"""Each row of the table of differences is shown: who is said to differ does, the others agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper

from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.frontend.onnx import import_onnx
from byocir.frontend.onnx.differences import TABLE, Difference, Reference, differences, named
from byocir.frontend.onnx.reference import Reference as ReferenceEvaluator
from byocir.targets.ort_session import Session
from byocir.vendor.engine import NotComputed

OPSET = 23
NAN, INF = np.nan, np.inf


class Case(NamedTuple):
    """A node and its inputs; those of `weights` are initialisers."""

    node: onnx.NodeProto
    inputs: list[np.ndarray | None]
    weights: tuple[int, ...]
    opset: int = OPSET


def case(operator: str, *inputs: Any, weights: Any = (), outputs: int = 1, **attributes: Any):
    names = [f"x{i}" if each is not None else "" for i, each in enumerate(inputs)]
    domain, _, kind = operator.rpartition(".")
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, results, domain=domain, **attributes)
    arrays = [each if each is None else np.asarray(each) for each in inputs]
    return Case(node, arrays, tuple(weights))


def model(given: Case, *, is_open: bool = False) -> onnx.ModelProto:
    pairs = {n: a for n, a in zip(given.node.input, given.inputs, strict=True) if n}.items()
    weights = [given.node.input[i] for i in given.weights]
    ports = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(a.dtype),
            [None] * a.ndim if is_open else a.shape,
        )
        for name, a in pairs
        if name not in weights
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in given.node.output if name]
    if given.node.domain:  # whose types ONNX does not infer
        outputs = [helper.make_tensor_value_info("y0", TensorProto.UINT8, None)]
    initializers = [onnx.numpy_helper.from_array(a, n) for n, a in pairs if n in weights]
    graph = helper.make_graph([given.node], "g", ports, outputs, initializers)
    opsets = [helper.make_opsetid("", given.opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def feeds_of(given: Case) -> dict[str, np.ndarray]:
    pairs = enumerate(zip(given.node.input, given.inputs, strict=True))
    return {name: a for i, (name, a) in pairs if name and i not in given.weights}


def run_onnxruntime(given: Case) -> list[np.ndarray]:
    feeds = feeds_of(given)
    if given.node.op_type not in LEFT_UNWRITTEN:
        return Session(model(given)).run(feeds)
    session = Session(model(given, is_open=True))
    session.run({n: np.ones([max(k, 1) for k in a.shape], a.dtype) for n, a in feeds.items()})
    return session.run(feeds)


LEFT_UNWRITTEN = ("ConvInteger", "MatMulInteger", "QLinearMatMul")
"""Operators that are run on other values before: what they leave of these shows."""


def run_reference(given: Case) -> list[np.ndarray]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model(given)).run(feeds_of(given))


RUNS: dict[Reference, Callable[[Case], list[np.ndarray]]] = {
    "onnxruntime": run_onnxruntime,
    "reference": run_reference,
}


REFUSED = {"ReduceLogSumExp": ("B312",), "Resize": ("B312", "B313")}
"""What byocir refuses, with which codes."""


def agrees(given: Case, against: Reference) -> bool | None:
    """Whether a reference gives what byocir does; None if it refuses the case."""
    try:
        expected = list(evaluate(import_onnx(model(given)), feeds_of(given)).values())
    except ByocirError as error:
        if error.code not in REFUSED.get(given.node.op_type, ()):
            raise
        return False
    try:
        found = RUNS[against](given)
    except NotComputed:
        return None
    return all(map(near, found, expected))


def near(found: np.ndarray, expected: np.ndarray) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if found.dtype.kind != "f":
        return np.array_equal(found, expected)
    rtol = 1e-10 if found.dtype == np.float64 else 1e-4
    return np.allclose(found, expected, rtol=rtol, atol=0, equal_nan=True)


def floats(*values: float, shape: tuple[int, ...] | None = None) -> np.ndarray:
    array = np.array(values, np.float32)
    return array if shape is None else array.reshape(shape)


ROW = floats(1, 2, 3, 4, 5, 6, 7, 8, shape=(1, 1, 8))
HOLED = floats(1, 2, 3, NAN, 5, 6, 7, 8, shape=(1, 1, 8))
CORNERS = {"coordinate_transformation_mode": "align_corners"}
SAME = {"auto_pad": "SAME_LOWER"}
ONES = np.ones(2, np.float32)
FIVE = (np.ones(5, np.float32),)
GRID = floats(*range(1, 9), shape=(1, 1, 2, 4))
INDICES = np.array([[[[5, 7], [13, 15]]]])
SPREAD = floats(*range(1, 13), shape=(1, 6, 1, 2))
B, F, Z = np.array([[1, 2]], np.int8), np.array(1, np.float32), np.array(0, np.int8)
AXIS = np.array([1])
BYTES, U = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16), np.uint8(0)


def scaled(last: float) -> np.ndarray:
    return floats(1, 1, 1, last)


def recurrent(kind: str, number: float) -> Case:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    w = np.ones((1, gates, 1), np.float32)
    r = w if gates > 1 else w * np.float32(number)
    bias = np.full((1, 2 * gates), number if gates > 1 else 0, np.float32)
    x = np.ones((3, 1, 1), np.float32)
    return case(kind, x, w, r, bias, weights=(1, 2, 3), hidden_size=1)


def training_step() -> Case:
    """A batch norm whose scale is its running mean. Only what a Cast made is written over."""
    x, scale, bias = (np.array(each, np.float16) for each in ([[1], [3]], [1], [0]))
    made = case("BatchNormalization", x, scale, bias, scale, bias, outputs=3, training_mode=1)
    made.node.input[3:] = made.node.input[1:3]
    return made


def loop_without_condition() -> Case:
    number = [helper.make_tensor_value_info(name, TensorProto.INT32, ()) for name in "ab"]
    count = helper.make_tensor_value_info("i", TensorProto.INT64, ())
    goes = [helper.make_tensor_value_info(name, TensorProto.BOOL, ()) for name in ("go", "on")]
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["a"], ["b"])]
    body = helper.make_graph(nodes, "body", [count, goes[0], number[0]], [goes[1], number[1]])
    return case("Loop", np.array(1), None, np.array(5, np.int32), body=body)


def loop_of_scalars() -> Case:
    made = loop_without_condition()
    body = next(each.g for each in made.node.attribute if each.name == "body")
    body.node.append(helper.make_node("Identity", ["a"], ["before"]))
    body.output.append(helper.make_tensor_value_info("before", TensorProto.INT32, ()))
    inputs = [np.array(3), np.array(True), np.array(5, np.int32)]
    return case("Loop", *inputs, outputs=2, body=body)


def attention(mode: int, **attributes: Any) -> Case:
    mask = np.array([[True, False], [True, True]])
    q = np.random.default_rng(0).random((1, 1, 2, 4), np.float32)
    made = case("Attention", q, q, q, mask, outputs=4, qk_matmul_output_mode=mode, **attributes)
    made.node.output[1:3] = ["", ""]
    return made


def quantised(operator: str, *given: Any, **attributes: Any) -> Case:
    """An operator of ONNX Runtime on bytes; behind each scale there is a zero point of 0."""
    inputs: list[Any] = []
    for each in given:
        inputs += [np.float32(each), U] if isinstance(each, float) else [each]
    weights = [i for i, each in enumerate(inputs) if each is not None and np.ndim(each) == 0]
    return case(f"com.microsoft.{operator}", *inputs, weights=weights, **attributes)


SHOWN: dict[str, list[Case]] = {
    "same-dilated": [
        case("MaxPool", ROW, kernel_shape=[2], strides=[2], dilations=[2], **SAME),
        case("AveragePool", ROW, kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER"),
        case("LpPool", ROW, kernel_shape=[3], dilations=[2], **SAME),
    ],
    "valid-dilated": [
        case(kind, ROW, kernel_shape=[2], dilations=[2], auto_pad="VALID")
        for kind in ("AveragePool", "LpPool")
    ],
    "same-lower": [case("MaxPool", ROW, kernel_shape=[3], strides=[2], **SAME)],
    "same-sparse": [
        case(kind, ROW, kernel_shape=[1], strides=[4], auto_pad="SAME_UPPER")
        for kind in ("MaxPool", "AveragePool", "LpPool")
    ]
    + [
        quantised(
            "QLinearAveragePool",
            *(BYTES, 1.0, 1.0),
            kernel_shape=[1, 1],
            strides=[4, 4],
            auto_pad="SAME_UPPER",
        )
    ],
    "conv-same-sparse": [
        case("Conv", ROW, floats(1, shape=(1, 1, 1)), strides=[4], auto_pad="SAME_UPPER")
    ],
    "conv-dilated-not-finite": [case("Conv", HOLED, floats(1, 2, shape=(1, 1, 2)), dilations=[3])],
    "max-of-padding": [case("MaxPool", ROW, kernel_shape=[2], pads=[1, 1], dilations=[9])],
    "mean-of-padding": [case("AveragePool", ROW, kernel_shape=[2], pads=[1, 1], dilations=[9])],
    "max-pool-of-infinities": [
        case("MaxPool", floats(-INF, -INF, 1, shape=(1, 1, 3)), kernel_shape=[2]),
        case("GlobalMaxPool", floats(-INF, -INF, shape=(1, 1, 1, 2))),
    ],
    "max-pool-nan": [case("MaxPool", HOLED, kernel_shape=[2])],
    "global-max-pool-nan": [case("GlobalMaxPool", HOLED[None])],
    "global-max-pool-rank": [case("GlobalMaxPool", ROW.reshape(1, 2, 4))],
    "pool-nan": [case(kind, HOLED, kernel_shape=[2]) for kind in ("AveragePool", "LpPool")],
    "lp-pool-ceil": [case("LpPool", ROW, kernel_shape=[3], strides=[2], ceil_mode=1)],
    "quantised-mean-ceil": [
        quantised(
            "QLinearAveragePool",
            *(BYTES[..., :5], 1.0, 1.0),
            kernel_shape=[1, 4],
            strides=[3, 3],
            ceil_mode=1,
            count_include_pad=1,
        )
    ],
    "conv-transpose-groups": [
        case("ConvTranspose", ROW.reshape(1, 4, 2), np.ones((4, 1, 3), np.float32), group=2)
    ],
    "conv-transpose-same": [
        case("ConvTranspose", ROW, floats(1, shape=(1, 1, 1)), strides=[4], auto_pad="SAME_UPPER"),
        case(
            "ConvTranspose",
            *(floats(1, shape=(1, 1, 1, 1)), floats(1, shape=(1, 1, 1, 1))),
            **dict(strides=[2, 2], output_padding=[1, 0], auto_pad="SAME_UPPER"),
        ),
    ],
    "conv-transpose-odd": [
        case("ConvTranspose", ROW[:, :, :3], floats(1, 2, shape=(1, 1, 2)), output_shape=[3])
    ],
    "conv-transpose-not-finite": [
        case("ConvTranspose", ROW, floats(bad, 1, 2, shape=(1, 1, 3)), strides=[2])
        for bad in (NAN, INF)
    ],
    "max-unpool-output-shape": [
        case(
            "MaxUnpool",
            floats(1, 2, 3, 4, shape=(1, 1, 2, 2)),
            INDICES,
            np.array([1, 1, 5, 5]),
            weights=(2,),
            kernel_shape=[2, 2],
            strides=[2, 2],
        )
    ],
    "lrn-channels": [case("LRN", SPREAD, size=3)],
    "lrn-not-finite": [
        case("LRN", np.where(SPREAD == 1, NAN, SPREAD).astype(np.float32)[:, :, :, :1], size=3)
    ],
    "normalised-infinities": [
        case(
            "BatchNormalization",
            floats(1, 2, shape=(1, 2)),
            floats(INF, 1),
            ONES,
            floats(2, 2),
            ONES,
        ),
        case("InstanceNormalization", ROW, floats(INF), floats(INF)),
        case("LayerNormalization", floats(INF, 1, 2, 3, 4, shape=(1, 5)), *FIVE, outputs=3),
    ],
    "layer-norm-statistics": [
        case("LayerNormalization", np.arange(5, dtype=kind), np.ones(5, kind), outputs=2)
        for kind in (np.float16, np.float64)
    ],
    "batch-norm-in-place": [training_step()],
    "log-softmax-not-finite": [case("LogSoftmax", np.array([1, bad, 3])) for bad in (NAN, INF)],
    "lp-normalization-signs": [case("LpNormalization", floats(-1, 2), p=1)],
    "flat-variance": [case("MeanVarianceNormalization", np.zeros((1, 2, 2, 2), np.float32))],
    "argmax-nan": [
        case("ArgMax", floats(1, NAN, 3), axis=0),
        case("ArgMin", floats(1, NAN, 3), axis=0),
        case("Hardmax", floats(1, NAN, 3), axis=0),
    ],
    "reduce-extremes-nan": [
        case("ReduceMax", floats(1, NAN, 3)),
        case("ReduceMin", floats(1, NAN, 3)),
    ],
    "scatter-extremes-nan": [
        case(
            "ScatterND",
            floats(1, NAN, 3),
            np.array([[0], [1]]),
            floats(NAN, 2),
            weights=(1,),
            reduction="max",
        ),
    ],
    "scatter-elements-extremes-nan": [
        case(
            "ScatterElements",
            floats(1, NAN, 3),
            np.array([0, 1]),
            floats(NAN, 2),
            weights=(1,),
            reduction="min",
        ),
    ],
    "top-k-unsorted": [
        case("TopK", floats(3, 1, 2, 0), np.array([3]), weights=(1,), outputs=2, sorted=0)
    ],
    "hardmax-joined": [case("Hardmax", np.zeros((1, 2, 1), np.float32))._replace(opset=9)],
    "unique-nan": [case("Unique", floats(NAN, 1, NAN))],
    "unique-unsorted": [
        case("Unique", floats(3, 1, 3, 2, shape=(1, 4)), axis=axis, sorted=0) for axis in (1, -1)
    ],
    "instance-norm-flat": [
        case("InstanceNormalization", np.ones((1, 1, 1), np.float32), floats(-2.326), floats(0.001))
    ],
    "conv-integer-channels": [
        case(
            "ConvInteger",
            np.full((1, 2, 1, 1, 1), -86, np.int8),
            np.full((2, 2, 1, 1, 1), 5, np.int8),
            None,
            np.array([-71, -46], np.int8),
            weights=(1, 3),
        )
    ],
    "matmul-integer-rows": [
        case(
            "MatMulInteger",
            np.full((2, 2), 3, np.uint8),
            np.full((2, 1), 113, np.int8),
            np.array([73, 195], np.uint8),
        )
    ],
    "nothing-to-sum": [
        case("ConvInteger", np.ones((1, 0, 4), np.uint8), np.ones((2, 0, 1), np.uint8)),
        case("MatMulInteger", np.ones((4, 0), np.uint8), np.ones((0, 4), np.uint8)),
        case(
            "QLinearMatMul",
            *(np.ones((4, 0), np.uint8), np.float32(0.5), U),
            *(np.ones((0, 4), np.uint8), np.float32(0.5), U),
            *(np.float32(0.5), np.uint8(9)),
        ),
    ],
    "gemm-wide-integers": [case("Gemm", np.array([[2**61 + 1]]), np.array([[2]]))],
    "einsum-wide-integers": [case("Einsum", np.array([[2**62 + 1]]), equation="...i->...")],
    "slice-greatest-end": [
        case("Slice", ROW, *map(np.array, ([6], [end], [2], [-1])), weights=(1, 2, 3, 4))
        for end in (2**31 - 1, 2**63 - 1)
    ],
    "slice-start-before-all": [
        case("Slice", ROW, *map(np.array, ([start], [-9], [2], [-1])), weights=(1, 2, 3, 4))
        for start in (-9, -(2**63))
    ],
    "resize-integers": [
        case(
            "Resize",
            np.array([[[[10, 20, 7, 13]]]], dtype),
            None,
            scaled(2),
            weights=(2,),
            mode="linear",
        )
        for dtype in (np.int8, np.uint8, np.int32)
    ]
    + [
        case(
            "Upsample",
            np.array([[[[10, 20, 7, 13]]]], np.int8),
            scaled(2),
            weights=(1,),
            mode="linear",
        )._replace(opset=9)
    ],
    "resize-corners": [
        case(
            "Resize",
            GRID,
            None,
            scaled(2.3),
            weights=(2,),
            mode="linear",
            **CORNERS,
        )
    ],
    "resize-not-finite": [
        case("Resize", GRID * floats(1, 1, INF, 1), None, scaled(2), weights=(2,), mode="linear")
    ],
    "resize-nearest-not-finite": [case("Resize", HOLED, None, floats(1, 1, 2), weights=(2,))],
    "resize-crop-same": [
        case(
            "Resize",
            floats(3, 4, shape=(1, 2)),
            floats(0, 0, 1, 0),
            None,
            np.array([2, 2]),
            weights=(1, 3),
            coordinate_transformation_mode="tf_crop_and_resize",
        )
    ],
    "resize-old-shrinks": [
        case("Resize", ROW[:, :, :3], floats(1, 1, 0.7), weights=(1,))._replace(opset=10)
    ],
    "one-hot-not-finite": [
        case("OneHot", np.array([0]), np.array(2), floats(bad, 2), weights=(1,))
        for bad in (NAN, INF)
    ],
    "places-not-finite": [
        case("Det", floats(0, 2, NAN, 4, shape=(2, 2))),
        case("GridSample", GRID, floats(NAN, NAN, shape=(1, 1, 1, 2)), mode="nearest"),
    ],
    "resize-to-one": [
        case(
            "Resize",
            ROW[:, :, :4],
            None,
            floats(1, 1, 0.3),
            weights=(2,),
            mode="linear",
            coordinate_transformation_mode="pytorch_half_pixel",
        )
    ],
    "resize-wide-integers": [
        case("Resize", np.array([[[2**62 + 1]]]), None, floats(1, 1, 2), weights=(2,))
    ],
    "resize-nearest-steps": [
        case("Resize", ROW[:, :, :6], None, floats(1, 1, 0.7), weights=(2,)),
        case(
            "Upsample",
            np.arange(30, dtype=np.float32).reshape(1, 1, 30),
            floats(1, 1, 1.1),
            weights=(1,),
        )._replace(opset=9),
    ],
    "resize-just-behind": [
        case(
            "Resize",
            ROW[:, :, :7],
            None,
            floats(0.5),
            weights=(2,),
            mode=mode,
            axes=[2],
            coordinate_transformation_mode="half_pixel_symmetric",
        )
        for mode in ("nearest", "linear", "cubic")
    ],
    "resize-halves-of-roi": [
        case(
            "Resize",
            floats(0, 1, shape=(1, 1, 2)),
            np.array([0, 0, 0.1, 1, 1, 0.8], np.float16),
            None,
            np.array([1, 1, 5]),
            weights=(1, 3),
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
        )
    ],
    "resize-cubic-doubles": [
        case(
            "Resize",
            GRID.astype(np.float64),
            None,
            None,
            np.array([1, 1, 7, 5]),
            weights=(3,),
            mode="cubic",
        )
    ],
    "shape-end": [case("Shape", floats(1, shape=(1, 1)), end=-3)],
    "resize-aspect-axes": [
        case(
            "Resize",
            GRID,
            None,
            None,
            np.array([3, 3]),
            weights=(3,),
            axes=[-2, -1],
            keep_aspect_ratio_policy="not_larger",
        )
    ],
    "dropout-mask": [case("Dropout", ROW, outputs=2)._replace(opset=10)],
    "squeeze-no-axes": [case("Squeeze", ROW, np.zeros(0, np.int64), weights=(1,))],
    "non-zero-scalar": [case("NonZero", np.float32(3))],
    "mean-of-nothing": [case("ReduceMean", np.zeros((2, 0), np.float32), AXIS, weights=(1,))],
    "mean-wide-integers": [case("ReduceMean", np.array([2**62 + 1]), noop_with_empty_axes=1)],
    "norm-wide-integers": [case("ReduceL2", np.array([2**62 + 1]), noop_with_empty_axes=1)],
    "sum-of-halves": [
        *(
            case(f"Reduce{kind}", np.full((1, 600), 0.75, bfloat16), AXIS, weights=(1,))
            for kind in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Sum", "SumSquare")
        ),
        case("GlobalAveragePool", np.full((1, 1, 600), 0.75, bfloat16)),
    ],
    "log-sum-exp-unsigned": [
        case("ReduceLogSumExp", np.array([6, 7], np.uint64))._replace(opset=18)
    ],
    "log-sum-exp-infinities": [
        case("ReduceLogSumExp", np.full((2, 2), -INF, np.float32), AXIS, weights=weights)
        for weights in ((), (1,))
    ],
    "fourier-inverse-doubles": [case("DFT", np.ones((1, 5, 2)), inverse=1)],
    "fourier-not-finite": [
        case("DFT", floats(NAN, 1, 2, shape=(1, 3, 1))),
        case(
            "STFT",
            HOLED.reshape(1, 8, 1),
            np.array(2),
            np.ones(4, np.float32),
            weights=(1,),
            onesided=1,
        ),
    ],
    "reduce-beyond": [
        case(f"Reduce{kind}", np.full((2, 1), 1923050368, np.int32), np.array([0]), weights=(1,))
        for kind in ("Sum", "Prod", "L1", "SumSquare")
    ],
    "sums-wide": [
        case("ReduceSumSquare", np.array([2**31 - 1])),
        case("ReduceLogSumExp", np.array(2**62 + 1)),
    ],
    "squares-type": [
        case("ReduceSumSquare", np.array([3, 1], kind)) for kind in (np.int32, np.uint32)
    ],
    "loop-no-condition": [loop_without_condition()],
    "loop-scalars": [loop_of_scalars()],
    "recurrent-not-finite": [recurrent(kind, NAN) for kind in ("LSTM", "GRU", "RNN")],
    "recurrent-halves": [
        case(
            "RNN",
            *(np.ones((1, 1, 1), np.float16) for _ in range(3)),
            outputs=2,
            hidden_size=1,
            activations=["Affine"],
            activation_alpha=[0.3],
            activation_beta=[0.4],
        )
    ],
    "recurrent-lengths": [
        case(
            kind,
            np.ones((2, 2, 1), np.float32),
            np.ones((1, gates, 1), np.float32),
            np.ones((1, gates, 1), np.float32),
            None,
            np.array([2, 1], np.int32),
            hidden_size=1,
        )
        for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
    ],
    "attention-infinities": [
        case("Attention", *(np.full((1, 1, 1, 1), each, np.float32) for each in (-INF, 1, 2)))
    ],
    "attention-doubles": [
        case("Attention", *(np.arange(4.0).reshape(1, 1, 2, 2) for _ in range(3)))
    ],
    "attention-softcap": [attention(mode=0, softcap=0.5)],
    "attention-mask": [attention(mode=2)],
    "narrow-floats": [
        case("AffineGrid", np.ones((1, 2, 3), np.float16), np.array([1, 1, 2, 2]), weights=(1,)),
        case("AffineGrid", np.ones((1, 2, 3), bfloat16), np.array([1, 1, 2, 2]), weights=(1,)),
        case("Det", np.ones((2, 2), bfloat16)),
    ],
    "clip-open-bound": [
        case("Clip", floats(INF, 1), np.float32(0)),
        case("Clip", floats(-INF, 1), None, np.float32(2)),
    ],
    "cast-beyond": [
        case("Cast", floats(300.7), to=TensorProto.UINT8),
        case("Cast", floats(-INF), to=TensorProto.INT64),
        case("CastLike", floats(NAN), np.array([1], np.int32)),
    ],
    "power-beyond": [
        case("Pow", np.array([10, 2], np.int32), np.array([20, 3], np.int32)),
        case("Pow", np.array([0], np.int32), np.array([-1], np.int32)),
        case("Pow", np.array([2], np.int32), floats(INF)),
    ],
    "sign-nan": [case("Sign", np.float16([1, NAN]))],
    "shrink-doubles": [case("Shrink", np.array([0.8319782008831337]))],
    "quantize-halves": [
        case(kind, np.float16([2]), np.float16(0.031), np.uint8(0), weights=(1, 2))._replace(
            opset=21
        )
        for kind in ("QuantizeLinear", "com.microsoft.QuantizeLinear")
    ],
    "doubles": [
        case("Erf", np.array([1.0])),
        case("LRN", np.ones((1, 1, 1, 1)), size=3, alpha=0.5),
    ],
    "doubles-in-functions": [
        case("Gelu", np.array([1.0]), approximate="tanh"),
        case("HardSwish", np.array([1.0])),
    ],
    "softplus-doubles": [
        case(kind, np.array([-14.0]))._replace(opset=18) for kind in ("Softplus", "Mish")
    ],
    "quantize-beyond": [
        case("QuantizeLinear", floats(1e30), np.float32(1), np.uint8(0), weights=(1, 2))
    ],
    "dynamic-quantize-zeros": [case("DynamicQuantizeLinear", floats(0, 0), outputs=3)],
    "dynamic-quantize-not-finite": [
        case("DynamicQuantizeLinear", floats(value, 2, 3), outputs=3) for value in (NAN, -INF)
    ],
    "requantize-nan": [
        case("QLinearMatMul", B, F * NAN, Z, B.T, F, Z, F, Z, weights=(1, 2, 4, 5, 6, 7)),
        case(
            "QLinearConv",
            B[:, None],
            *(F * 0, Z, np.ones((1, 1, 1), np.int8), F, Z, F * 0, Z),
            weights=(1, 2, 3, 4, 5, 6, 7),
        ),
    ],
    "requantize-halves": [
        case(
            "QLinearMatMul",
            *(BYTES[0, 0], bfloat16(0.09), U, BYTES[0, 0, ::-1].T, bfloat16(0.02), U),
            *(bfloat16(2.5), U),
            weights=(1, 2, 3, 4, 5, 6, 7),
        )
    ],
    "quantised-no-scale": [
        quantised("QLinearAdd", BYTES, 1.0, BYTES, 1.0, 0.0),
        quantised("QLinearAveragePool", BYTES, 1.0, 0.0, kernel_shape=[1, 1]),
        quantised("QLinearMul", BYTES, 1.0, BYTES, 1.0, 0.0),
    ],
    "requantize-step": [
        case(
            "QLinearConv",
            *(BYTES, np.float32(0.02), U, np.array([[[[3]]], [[[7]]]], np.uint8), np.float32(0.02)),
            *(U, np.float32(0.124), U),
            weights=(1, 2, 3, 4, 5, 6, 7),
        ),
        case(
            "QLinearMatMul",
            *(BYTES[0, 0], np.float32(0.02), U, BYTES[0, 0].T, np.float32(0.0004), U),
            *(np.float32(0.08), U),
            weights=(1, 2, 3, 4, 5, 6, 7),
        ),
    ],
    "quantised-step": [
        quantised("QGemm", BYTES[0, 0], 0.3, BYTES[0, 0].T, 0.005, None, 0.2),
        quantised("QLinearAdd", BYTES, 0.02, BYTES[..., ::-1], 0.25, 0.3),
        quantised("QLinearGlobalAveragePool", BYTES.reshape(1, 64, 2, 2), 0.1, 0.3),
        quantised("QLinearMul", BYTES, 0.01, BYTES[..., ::-1], 0.2, 0.04),
        quantised("QLinearSoftmax", BYTES[0, 0], 0.25, 0.033, axis=-1, opset=13),
    ],
    "qlinear-conv-channels": [
        case(
            "QLinearConv",
            np.full((1, 2, 2, 1, 1), 4, np.int8),
            *(F, Z, np.ones((2, 2, 1, 1, 1), np.int8), floats(1, 2), np.zeros(2, np.int8), F, Z),
            weights=(1, 2, 3, 4, 5, 6, 7),
        )
    ],
    "p-relu-not-finite": [
        case("PRelu", floats(0, 1, -1), floats(bad), weights=(1,)) for bad in (INF, NAN)
    ],
}


AGREED = [
    case("MaxPool", ROW, kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER"),
    case("AveragePool", ROW, kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1),
    case("LpPool", ROW, kernel_shape=[2], strides=[2], ceil_mode=1),
    case("MaxPool", ROW, kernel_shape=[2], pads=[1, 1], dilations=[4]),
    case("Conv", ROW, floats(1, 2, shape=(1, 1, 2)), strides=[2], **SAME),
    case("ConvTranspose", ROW.reshape(1, 4, 2), np.ones((4, 1, 3), np.float32)),
    case("LRN", SPREAD[:, :1], size=3),
    case("ArgMax", floats(1, INF, 3), axis=0),
    case("ReduceMax", floats(1, -INF, 3)),
    case("Slice", ROW, *map(np.array, ([6], [2**63 - 1], [2], [1])), weights=(1, 2, 3, 4)),
    case("Slice", ROW, *map(np.array, ([6], [-(2**63)], [2], [-1])), weights=(1, 2, 3, 4)),
    case("Resize", GRID, None, scaled(2), weights=(2,), mode="linear"),
    case("Resize", GRID, None, scaled(2), weights=(2,), mode="linear", **CORNERS),
    case("ReduceMean", np.ones((2, 1), np.float32), AXIS, weights=(1,)),
    recurrent("LSTM", 2),
    attention(mode=3),
    case("Clip", floats(INF, NAN), np.float32(0), np.float32(2)),
    case("Cast", floats(255.7, -0.9), to=TensorProto.UINT8),
    case("Pow", np.array([10, 2], np.int32), np.array([2, 3], np.int32)),
    case("QuantizeLinear", floats(1e9), np.float32(1), np.uint8(0), weights=(1, 2)),
]  # fmt: skip


def test_every_row_is_shown():
    assert list(SHOWN) == [row.name for row in TABLE]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_says_who_differs(row: Difference):
    cases = SHOWN[row.name]
    for against in RUNS:
        holding = [row in differences(c.node, c.inputs, c.opset, against) for c in cases]
        agreeing = [agrees(each, against) for each in cases]
        if getattr(row, against):
            assert all(holding)
            differ = {named(c.node) for c, a in zip(cases, agreeing, strict=True) if not a}
            assert differ == set(row.operators), against
        else:
            others = [differences(c.node, c.inputs, c.opset, against) for c in cases]
            assert not any(holding)
            assert all(a is not False or o for a, o in zip(agreeing, others, strict=True)), against


@pytest.mark.parametrize("given", AGREED, ids=lambda given: given.node.op_type)
@pytest.mark.parametrize("against", RUNS)
def test_beside_a_row_all_agree(given: Case, against: Reference):
    assert not differences(given.node, given.inputs, given.opset, against)
    assert agrees(given, against)

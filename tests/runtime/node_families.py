"""Families of nodes for random ONNX graphs: each drafts one that fits what a graph has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from graph_drafts import Draft, Family, Graph, Unfit, Value
from onnx import TensorProto

FUNCTIONS = [
    "Sigmoid",
    "Tanh",
    "Exp",
    "Log",
    "Erf",
    "Sin",
    "Cos",
    "Atan",
    "Softplus",
    "Elu",
    "Selu",
    "Celu",
    "Gelu",
    "Mish",
]
EXACT_FUNCTIONS = [
    "Relu",
    "Abs",
    "Neg",
    "LeakyRelu",
    "ThresholdedRelu",
    "HardSwish",
    "Identity",
    "Sqrt",
]
STEPS = ["Floor", "Ceil", "Round", "Sign"]
REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"]


def function(g: Graph) -> Draft:
    return Draft(g.one(FUNCTIONS), [g.value(dtypes="f")])


def exact_function(g: Graph) -> Draft:
    return Draft(g.one(EXACT_FUNCTIONS), [g.value(dtypes="f")], exact=True)


def step(g: Graph) -> Draft:
    return Draft(g.one(STEPS), [g.value(dtypes="f", exact=True)], exact=True)


def arithmetic(g: Graph) -> Draft:
    """On two values, or on one and a constant that broadcasts."""
    x = g.value(dtypes="fi")
    op = g.one(["Add", "Sub", "Mul", "Max", "Min", "Div"])
    if op in ("Div", "Max", "Min") and x.array.dtype.kind == "i":
        op = "Add"
    other: Value | str = g.value(dtypes=x.array.dtype.kind)
    if g.rng.random() < 0.5 or other.array.dtype != x.array.dtype:
        shape = [n if g.rng.random() < 0.6 else 1 for n in x.array.shape][g.upto(x.array.ndim, 0) :]
        numbers = g.rng.uniform(0.5, 3, shape) * g.one([1, -1])
        other = g.weight(numbers.astype(x.array.dtype))
    return Draft(op, [x, other], exact=True)


def comparison(g: Graph) -> Draft:
    x, y = (g.value(dtypes="f", exact=True) for _ in range(2))
    return Draft(g.one(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"]), [x, y], exact=True)


def logic(g: Graph) -> Draft:
    op = g.one(["And", "Or", "Xor", "Not"])
    count = 1 if op == "Not" else 2
    return Draft(op, [g.value(dtypes="b") for _ in range(count)], exact=True)


def where(g: Graph) -> Draft:
    return Draft(
        "Where", [g.value(dtypes="b"), g.value(dtypes="f"), g.value(dtypes="f")], exact=True
    )


def reduction(g: Graph) -> Draft:
    x = g.value(dtypes="f")
    if not x.array.ndim:
        raise Unfit
    axes = sorted(g.rng.permutation(x.array.ndim)[: g.upto(x.array.ndim)].tolist())
    op = g.one(REDUCTIONS)
    exact = op in ("Max", "Min")
    return Draft(f"Reduce{op}", [x, g.ints(axes)], {"keepdims": g.upto(1, 0)}, exact)


def along(g: Graph) -> Draft:
    x = g.value(dtypes="f")
    axis = g.upto(x.array.ndim, 1) - 1 if x.array.ndim else 0
    op = g.one(["Softmax", "LogSoftmax", "CumSum", "ArgMax", "ArgMin", "TopK", "LpNormalization"])
    if op == "CumSum":
        flags = {"exclusive": g.upto(1, 0), "reverse": g.upto(1, 0)}
        return Draft(op, [x, g.weight(np.array(axis, np.int64))], flags)
    if op in ("Softmax", "LogSoftmax", "LpNormalization"):
        return Draft(op, [x], {"axis": axis})
    x = g.value(dtypes="f", exact=True)
    if not x.array.ndim:
        raise Unfit
    axis = g.upto(x.array.ndim) - 1
    if op == "TopK":
        k = g.ints([g.upto(x.array.shape[axis])])
        return Draft(op, [x, k], {"axis": axis, "largest": g.upto(1, 0)}, True, 2)
    return Draft(op, [x], {"axis": axis, "keepdims": g.upto(1, 0)}, True)


def product(g: Graph) -> Draft:
    x = g.value(dtypes="f")
    if x.array.ndim < 1:
        raise Unfit
    depth = x.array.shape[-1]
    if x.array.ndim == 2 and g.rng.random() < 0.4:
        columns = g.upto(5)
        return Draft("Gemm", [x, g.floats(columns, depth), g.floats(columns)], {"transB": 1})
    return Draft("MatMul", [x, g.floats(depth, g.upto(6))])


def window(g: Graph, x: Value) -> tuple[list[int], dict[str, Any]]:
    rank = x.array.ndim - 2
    kernel = [g.upto(min(3, size)) for size in x.array.shape[2:]]
    pads = [g.upto(max(k - 1, 0), 0) for k in kernel] * 2
    strides = [g.upto(2) for _ in range(rank)]
    return kernel, {"kernel_shape": kernel, "pads": pads, "strides": strides}


def convolution(g: Graph) -> Draft:
    x = g.value(dtypes="f", rank=g.one([3, 4, 4]))
    kernel, attributes = window(g, x)
    channels = x.array.shape[1]
    if g.rng.random() < 0.25:
        weight = g.floats(channels, g.upto(3), *kernel, spread=0.5)
        return Draft("ConvTranspose", [x, weight], attributes)
    group = g.one([n for n in range(1, channels + 1) if channels % n == 0])
    outputs = group * g.upto(3)
    weight = g.floats(outputs, channels // group, *kernel, spread=0.5)
    return Draft("Conv", [x, weight, g.floats(outputs)], {**attributes, "group": group})


def pool(g: Graph) -> Draft:
    x = g.value(dtypes="f", rank=g.one([3, 4, 4]))
    op = g.one(["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    if op.startswith("Global"):
        return Draft(op, [x], exact=op == "GlobalMaxPool")
    _, attributes = window(g, x)
    if op == "AveragePool":
        attributes["count_include_pad"] = g.upto(1, 0)
    return Draft(op, [x], attributes, op == "MaxPool")


def norm(g: Graph) -> Draft:
    x = g.value(dtypes="f", rank=g.one([3, 4]))
    if x.array.dtype != np.float32:  # of mixed types they are no ops of the core set
        raise Unfit
    channels, op = x.array.shape[1], g.one(["BatchNorm", "InstanceNorm", "LayerNorm", "LRN"])
    if op == "LRN":
        return Draft("LRN", [x], {"size": g.one([1, 3]), "alpha": 0.3, "beta": 0.6, "bias": 1.2})
    if op == "LayerNorm":
        tail = x.array.shape[-1:]
        return Draft("LayerNormalization", [x, g.floats(*tail), g.floats(*tail)], {"epsilon": 0.1})
    parts = [g.floats(channels), g.floats(channels)]
    if op == "BatchNorm":
        spread = g.weight(g.rng.uniform(0.5, 2, channels).astype(np.float32))
        parts += [g.floats(channels), spread]
    return Draft(f"{op}alization", [x, *parts], {"epsilon": 0.1})


def rearrangement(g: Graph) -> Draft:
    x = g.value()
    shape, rank = x.array.shape, x.array.ndim
    op = g.one(["Transpose", "Reshape", "Flatten", "Unsqueeze", "Expand", "Tile", "Slice", "Split"])
    if not rank:
        op = "Unsqueeze"
    if op == "Transpose":
        return Draft(op, [x], {"perm": g.rng.permutation(rank).tolist()}, True)
    if op == "Reshape":
        cut = g.upto(rank, 0)
        merged = [int(np.prod(shape[:cut])), *shape[cut:]]
        return Draft(op, [x, g.ints(merged)], exact=True)
    if op == "Flatten":
        return Draft(op, [x], {"axis": g.upto(rank, 0)}, True)
    if op == "Unsqueeze":
        return Draft(op, [x, g.ints([g.upto(rank, 0)])], exact=True)
    if op == "Expand":
        return Draft(op, [x, g.ints([g.upto(2), *shape])], exact=True)
    if op == "Tile":
        return Draft(op, [x, g.ints([g.upto(2) for _ in shape])], exact=True)
    axis = g.upto(rank) - 1
    if op == "Split":
        cut = g.upto(shape[axis], 0)
        return Draft(op, [x, g.ints([cut, shape[axis] - cut])], {"axis": axis}, True, 2)
    step_, start = g.one([1, 2, -1]), g.upto(shape[axis], 1) - 1
    end = -(10**6) if step_ < 0 else 10**6
    return Draft(op, [x, *(g.ints([n]) for n in (start, end, axis, step_))], exact=True)


def placed(g: Graph) -> Draft:
    """Pads, concatenations and moves between channels and planes."""
    op = g.one(["Pad", "Pad", "Concat", "Trilu", "SpaceToDepth", "DepthToSpace"])
    x = g.value(dtypes="f", rank=4 if "Depth" in op else None)
    shape, rank = x.array.shape, x.array.ndim
    if "Depth" in op:
        return Draft(op, [x], {"blocksize": 2}, True)
    if op == "Trilu" and rank > 1:
        return Draft(op, [x], {"upper": g.upto(1, 0)}, True)
    if op == "Concat" and rank:
        return Draft(op, [x, g.value(dtypes="f", rank=rank)], {"axis": g.upto(rank) - 1}, True)
    mode = g.one(["constant", "reflect", "edge", "wrap"])
    pads = [min(g.upto(2, 0), size - 1) for size in shape] * 2
    return Draft("Pad", [x, g.ints(pads)], {"mode": mode}, True)


def indexed(g: Graph) -> Draft:
    """By indices that are a constant, or computed."""
    x = g.value()
    shape, rank = x.array.shape, x.array.ndim
    if not rank:
        raise Unfit
    axis, op = g.upto(rank) - 1, g.one(["Gather", "Gather", "GatherElements", "ScatterElements"])
    own = [g.upto(3) for _ in range(g.upto(2, 0))] if op == "Gather" else list(shape)
    indices = g.weight(np.asarray(g.rng.integers(-shape[axis], shape[axis], own), np.int64))
    if op != "ScatterElements":
        return Draft(op, [x, indices], {"axis": axis}, True)
    if x.array.dtype.kind != "f":
        raise Unfit
    how = g.one(["add", "max", "min"])
    return Draft(op, [x, indices, g.floats(*own)], {"axis": axis, "reduction": how}, True)


def looked_up(g: Graph) -> Draft:
    """Rows of a table, or elements, at indices of the graph."""
    indices = g.value(dtypes="i", exact=True)
    size = int(np.abs(indices.array).max(initial=0)) + 1
    if indices.array.dtype not in (np.int32, np.int64) or size > 30:
        raise Unfit
    return Draft("Gather", [g.floats(size, g.upto(4)), indices], exact=True)


def resize(g: Graph) -> Draft:
    x = g.value(dtypes="f", rank=4)
    sizes = [*x.array.shape[:2], *(n * g.upto(2) + g.upto(1, 0) for n in x.array.shape[2:])]
    mode = g.one(["nearest", "linear", "cubic"])
    how = g.one(["half_pixel", "asymmetric", "align_corners"])
    if mode == "nearest":
        how = "asymmetric"  # elsewhere ties are a matter of taste
    near = {"nearest_mode": "floor"} if mode == "nearest" else {}
    attributes = {"mode": mode, "coordinate_transformation_mode": how, **near}
    return Draft("Resize", [x, "", "", g.ints(sizes)], attributes, mode == "nearest")


def cast(g: Graph) -> Draft:
    x = g.value(exact=True)
    kinds = [TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL]
    to = g.one([TensorProto.FLOAT16, *kinds]) if x.array.dtype.kind == "f" else g.one(kinds)
    return Draft("Cast", [x], {"to": to}, True)


def widened(g: Graph) -> Draft:
    return Draft("Cast", [g.value(dtypes="bi")], {"to": TensorProto.FLOAT}, True)


def quantisation(g: Graph) -> Draft:
    x = g.value(dtypes="fi", exact=True)
    scale = g.weight(np.array(g.one([0.5, 0.031, 0.1]), np.float32))
    if x.array.dtype == np.int8:
        return Draft("DequantizeLinear", [x, scale, g.weight(np.array(3, np.int8))], exact=True)
    return Draft("QuantizeLinear", [x, scale, g.weight(np.array(3, np.int8))], exact=True)


def recurrent(g: Graph) -> Draft:
    x = g.value(dtypes="f", rank=3)
    op = g.one(["LSTM", "GRU", "RNN"])
    gates, hidden, inputs = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.upto(3), x.array.shape[2]
    direction = g.one(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    weights = [
        g.floats(count, gates * hidden, inputs, spread=0.5),
        g.floats(count, gates * hidden, hidden, spread=0.5),
        g.floats(count, 2 * gates * hidden, spread=0.5),
    ]
    return Draft(op, [x, *weights], {"hidden_size": hidden, "direction": direction})


FAMILIES: Sequence[Family] = (
    *(function, exact_function, exact_function, step, arithmetic, arithmetic, comparison, logic),
    *(where, reduction, along, product, convolution, convolution, pool, norm, rearrangement),
    *(rearrangement, placed, indexed, looked_up, resize, cast, widened, quantisation, recurrent),
)

"""Imports and exports ops that move elements, and take constant inputs in ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from byocir.dialects import graph as g
from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.graph.base import PropertyValue, broadcast, int_tuple
from byocir.dialects.graph.movement import sliced
from byocir.dialects.types import Shape, dtype_of
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported, array_of
from byocir.frontend.onnx.writer import GraphWriter, element

INT64 = np.iinfo(np.int64)


def integers(node: NodeReader, index: int) -> list[int] | None:
    """Reads input `index`, constant integers; None if it is absent."""
    values = node.known(index)
    return None if values is None else [int(value) for value in values.reshape(-1)]


def required(node: NodeReader, index: int) -> list[int]:
    """Reads input `index`, constant integers; raises Unsupported if it is absent."""
    values = integers(node, index)
    if values is None:
        raise Unsupported(f"expected input {index}, found none")
    return values


def scalar(node: NodeReader, index: int) -> int:
    """Reads input `index`, a constant integer."""
    values = required(node, index)
    if len(values) != 1:
        raise Unsupported(f"expected one number as input {index}, found {len(values)}")
    return values[0]


# -- copies


def expanded(node: NodeReader) -> Shape:
    """Reads the shape of an Expand's result."""
    return broadcast(node.shape(0), tuple(required(node, 1)))


def read_slice(node: NodeReader) -> Value:
    """Reads a Slice; starts and ends outside of the input are clamped to it."""
    x = node.shape(0)
    given_starts, given_ends = required(node, 1), required(node, 2)
    axes = integers(node, 3)
    axes = list(range(len(given_starts))) if axes is None else axes
    given_steps = integers(node, 4)
    given_steps = [1] * len(axes) if given_steps is None else given_steps
    starts, sizes, steps = [0] * len(x), list(x), [1] * len(x)
    p.normal_axes(axes, len(x))  # raises where an axis is named twice
    for axis, start, end, step in zip(axes, given_starts, given_ends, given_steps, strict=True):
        axis = p.from_front(axis, len(x))
        if step == 0:
            raise Unsupported("expected steps other than 0, found 0")
        chosen = sliced(start, end, step, x[axis])
        starts[axis], sizes[axis], steps[axis] = chosen.start, len(chosen), step
        if not chosen:
            starts[axis], steps[axis] = 0, 1
    return node.emit(g.SliceOp, node.operand(0), starts=starts, sizes=sizes, steps=steps)


def write_slice(op: g.GraphOp, graph: GraphWriter) -> str:
    assert isinstance(op, g.SliceOp)
    starts, sizes, steps = map(int_tuple, (op.starts, op.sizes, op.steps))
    ends = [start + size * step for start, size, step in zip(starts, sizes, steps, strict=True)]
    # Below 0 an end would count from the back: what lies before the first element is -infinity.
    ends = [INT64.min if end < 0 else end for end in ends]
    inputs = [starts, ends, range(len(starts)), steps]
    arrays = [graph.array(np.array(values, np.int64)) for values in inputs]
    return graph.node("Slice", [graph.name(op.input), *arrays])


def read_split(node: NodeReader) -> list[Value]:
    x, count = node.shape(0), len(node.node.output)
    axis = p.from_front(node.integer("axis", 0), len(x))
    wanted, split = node.integer("num_outputs", count), integers(node, 1)
    if wanted != count:
        raise Unsupported(f"expected {wanted} outputs, found {count}")
    if split is None:
        size = -(-x[axis] // max(wanted, 1))  # the last piece is smaller
        split = [max(min(size, x[axis] - start * size), 0) for start in range(wanted)]
    return list(node.emit_all(g.SplitOp, node.operand(0), axis=axis, split=split))


def read_pad(node: NodeReader) -> Value:
    rank, given = node.rank, required(node, 1)
    axes = integers(node, 3)
    axes = list(range(rank)) if axes is None else [p.from_front(axis, rank) for axis in axes]
    if len(given) != 2 * len(axes):
        raise Unsupported(f"expected {2 * len(axes)} pads, found {len(given)}")
    pads = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[place], given[len(axes) + place]
    mode, value = node.text("mode", "constant"), node.known(2)
    properties: dict[str, PropertyValue] = {"pads": pads, "mode": mode}
    if value is not None and mode == "constant" and value.any():
        if value.size != 1:
            raise Unsupported(f"expected a scalar to pad with, found shape {list(value.shape)}")
        properties["value"] = ArrayAttr.of(value.reshape(()))
    return node.emit(g.PadOp, node.operand(0), **properties)


# -- indices


def read_one_hot(node: NodeReader) -> Value:
    rank = node.rank + 1
    return node.emit(
        g.OneHotOp,
        node.operand(0),
        node.operand(2),
        axis=p.from_front(node.integer("axis", -1), rank),
        depth=scalar(node, 1),
    )


def write_one_hot(op: g.GraphOp, graph: GraphWriter) -> str:
    assert isinstance(op, g.OneHotOp)
    depth = graph.array(np.array(op.depth.value.data, np.int64))
    inputs = [graph.name(op.indices), depth, graph.name(op.values)]
    return graph.node("OneHot", inputs, axis=op.axis.value.data)


def write_top_k(op: g.GraphOp, graph: GraphWriter) -> list[str]:
    assert isinstance(op, g.TopKOp)
    inputs = [graph.name(op.input), graph.array(np.array([op.k.value.data], np.int64))]
    flags = {"largest": op.largest.value.data, "sorted": op.sorted.value.data}
    return list(graph.node_of("TopK", inputs, 2, axis=op.axis.value.data, **flags))


# -- along dimensions


def diagonal(node: NodeReader) -> int:
    """Reads the diagonal of a Trilu; it is the main one if none is given."""
    return 0 if node.source(1) is None else scalar(node, 1)


def axis_given(node: NodeReader) -> int:
    """Reads the axis of a CumSum, a constant input, counted from the front."""
    return p.from_front(scalar(node, 1), node.rank)


# -- constants


MAX_BYTES = 2**24
"""The most bytes of an array that is made at import from a few numbers; a larger one is made when
the program runs."""


def _check_size(shape: Sequence[int], dtype: np.dtype) -> None:
    """Raises Unsupported for a shape with negative sizes or too many elements."""
    if any(size < 0 for size in shape):
        raise Unsupported(f"expected sizes of at least 0, found {list(shape)}")
    if math.prod(shape) * dtype.itemsize > MAX_BYTES:
        raise Unsupported(f"expected an array of at most {MAX_BYTES} bytes, found {list(shape)}")


def read_constant_of_shape(node: NodeReader) -> Value:
    value, shape = node.attribute("value", None), required(node, 0)
    fill = np.zeros(1, np.float32) if value is None else array_of(value).values()
    _check_size(shape, fill.dtype)
    return Array.of(np.full(shape, fill.reshape(())))


def read_eye_like(node: NodeReader) -> Value:
    rows, columns = node.shape(0)
    dtype = dtype_of(p.element_named(node, "dtype", element(node.operand(0))))
    _check_size((rows, columns), dtype)
    return Array.of(np.eye(rows, columns, node.integer("k", 0), dtype))


def read_range(node: NodeReader) -> Value:
    bounds = [node.known(index) for index in range(3)]
    first, last, step = (value.reshape(()) for value in bounds if value is not None)
    if not step or not np.isfinite([first, last, step]).all():
        raise Unsupported(f"expected finite numbers and a step other than 0, found step {step}")
    count = max(int(np.ceil((last - first) / step)), 0)
    _check_size((count,), first.dtype)
    return Array.of((first + np.arange(count) * step).astype(first.dtype))

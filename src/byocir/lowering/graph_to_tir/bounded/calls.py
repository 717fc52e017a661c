"""Makes calls of routines of operators on arrays of open shape that find, move or reshape
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.array import constant_values
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.gather import REDUCTIONS
from byocir.dialects.graph.movement import sliced
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import (
    element_type_of,
    f32,
    i1,
    i32,
    i64,
    static_shape,
    tensor,
)
from byocir.evaluate.open_routines import order_of
from byocir.lowering.graph_to_tir.bounded.bounds import (
    Bounded,
    Dim,
    Size,
    bound_of,
    bounded_result,
    bounds_of,
    fits,
    integer_of,
    integers_of,
    number_of,
)

Inputs = Sequence[Bounded | None]
"""The inputs of an operator with their bounds; None for one that is absent."""

Call = Callable[[Emitter, ForeignOp, Inputs], Sequence[Bounded] | None]
"""The results of an operator; None where no routine computes them."""


def call_of(op: ForeignOp) -> Call | None:
    """Finds the rule that turns an operator into calls of routines; None if there is none."""
    return _CALLS.get(op.op_type.data) if not op.domain.data else None


def _call(
    emit: Emitter,
    op: ForeignOp,
    routine: str,
    inputs: Sequence[SSAValue],
    dims: Sequence[Dim],
    **numbers: int,
) -> Sequence[Bounded] | None:
    """Emits a call of a routine with one result; None where the result's type or size forbids
    that.
    """
    type_ = op.results[0].type
    if not fits(type_, dims):
        return None
    if all(isinstance(dim, int) for dim in dims):
        types = [tensor(element_type_of(type_), bounds_of(dims))]
        return [bounded_result(op, 0, emit.extern(routine, inputs, types, **numbers)[0], dims)]
    value = emit.bounded(routine, inputs, [type_], [bounds_of(dims)], **numbers)[0]
    return [bounded_result(op, 0, value, dims)]


def _packed(arrays: Inputs) -> list[SSAValue]:
    return [array.packed() for array in arrays if array is not None]


# -- what makes open results


def _non_zero(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x = arrays[0]
    if x is None or not x.dims:
        return None
    dims = (len(x.dims), Size(prod(bounds_of(x.dims))))
    return _call(emit, op, "non_zero", [x.packed()], dims)


def _compress(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x, holds = arrays
    if x is None or holds is None or not holds.is_static or not x.dims or len(holds.dims) != 1:
        return None
    given = integer_of(op, "axis")
    axis = -1 if given is None else _axis(given, x.dims)
    if axis is None:
        return None
    along = x.dims if axis < 0 else x.dims[axis : axis + 1]
    count, most = bound_of(holds.dims[0]), prod(bounds_of(along))
    if count > most or not all(isinstance(dim, int) for dim in along):
        return None
    if element_type_of(holds.type) != i1:
        return None
    found = Size(count)
    dims = (found,) if axis < 0 else (*x.dims[:axis], found, *x.dims[axis + 1 :])
    return _call(emit, op, "compress", _packed(arrays), dims, axis=axis)


def _non_max_suppression(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    if not all(array is None or array.is_static for array in arrays):
        return None
    boxes, scores, *rest = [*op.optional_inputs(), None, None, None][:5]
    shape = None if scores is None else static_shape(scores.type)
    if boxes is None or scores is None or shape is None or len(shape) != 3:
        return None
    if static_shape(boxes.type) != (shape[0], shape[2], 4):
        return None
    if not all(
        _is_number(value, type_) for value, type_ in zip(rest, (i64, f32, f32), strict=True)
    ):
        return None
    if {element_type_of(boxes.type), element_type_of(scores.type)} != {f32}:
        return None
    most, overlap, least = rest
    known = np.zeros((), np.int64) if most is None else constant_values(most)
    count = shape[2] if known is None else min(int(known.item()), shape[2])
    dims = (Size(shape[0] * shape[1] * max(count, 0)), 3)
    if not fits(op.results[0].type, dims):
        return None
    zero = emit.constant(np.zeros((), np.float32))
    inputs = [boxes, scores, most or emit.constant(np.zeros((), np.int64))]
    inputs += [overlap or zero, least or zero]
    types = [op.results[0].type, tensor(i64, [shape[2]])]
    center = integer_of(op, "center_point_box") or 0
    bounds = [bounds_of(dims), (shape[2],)]
    given = {"center": center, "least": int(least is not None)}
    found = emit.bounded("non_max_suppression", inputs, types, bounds, **given)
    return [bounded_result(op, 0, found[0], dims)]


# -- what passes them on


def _take(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x, indices = arrays
    if x is None or indices is None or element_type_of(indices.type) not in (i32, i64):
        return None
    axis = _axis(integer_of(op, "axis") or 0, x.dims)
    if axis is None:
        return None
    dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    return _call(emit, op, "take", _packed(arrays), dims, axis=axis)


def _squeeze(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x, given = arrays[0], integers_of(op, "axes", 1)
    if x is None or not x.dims or given is None:
        return None
    axes = {_axis(axis, x.dims) for axis in given}
    if len(axes) != len(given) or any(axis is None or x.dims[axis] != 1 for axis in axes):
        return None
    dims = [size for i, size in enumerate(x.dims) if i not in axes]
    dropped = sum(1 << axis for axis in axes if axis is not None)
    return _call(emit, op, "squeeze", [x.packed()], dims, dropped=dropped)


def _transpose(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x = arrays[0]
    if x is None or not x.dims:
        return None
    perm = integers_of(op, "perm") or [*range(len(x.dims))][::-1]
    if sorted(perm) != [*range(len(x.dims))]:
        return None
    dims = [x.dims[axis] for axis in perm]
    return _call(emit, op, "permute", [x.packed()], dims, order=order_of(perm))


def _join(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    """Emits a call that joins inputs; the run ends where they do not fit each other."""
    inputs = [array for array in arrays if array is not None]
    axis = _axis(integer_of(op, "axis") or 0, inputs[0].dims) if inputs else None
    if axis is None or len({len(array.dims) for array in inputs}) != 1:
        return None
    along = [array.dims[axis] for array in inputs]
    total = sum(map(bound_of, along))
    joined = total if all(isinstance(dim, int) for dim in along) else Size(total)
    dims = [_same([array.dims[i] for array in inputs]) for i in range(len(inputs[0].dims))]
    dims[axis] = joined
    given = [dim for dim in dims if dim is not None]
    if len(given) != len(dims):
        return None
    numbers = {"axis": axis, "count": len(inputs)}
    return _call(emit, op, "joined", _packed(inputs), given, **numbers)


def _same(dims: Sequence[Dim]) -> Dim | None:
    """Gives the one size that all of these must be; None where two are known to differ."""
    known = {dim for dim in dims if isinstance(dim, int)}
    return dims[0] if not known else known.pop() if len(known) == 1 else None


def _part(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    """Emits a call that slices an array: the result has at most as many elements as the array."""
    x, starts, ends, axes, steps = [*arrays, None, None][:5]
    if x is None or starts is None or ends is None or len(starts.dims) != 1:
        return None
    count = bound_of(starts.dims[0])
    inputs = [*op.optional_inputs(), None, None][:5]
    along = np.arange(count) if axes is None else constant_values(inputs[3])
    if along is None or len({*along.tolist()}) != count:
        return None
    found = [_axis(int(axis), x.dims) for axis in along]
    given = [starts, ends, *([] if steps is None else [steps])]
    kinds = {element_type_of(array.type) for array in given}
    if None in found or not kinds <= {i32, i64} or any(a.dims != (count,) for a in given):
        return None
    numbers = [constant_values(value) for value in (inputs[1], inputs[2])]
    numbers.append(np.ones(count, np.int64) if steps is None else constant_values(inputs[4]))
    dims: list[Dim] = list(x.dims)
    for i, axis in enumerate(cast("list[int]", found)):
        dims[axis] = _cut(x.dims[axis], [None if n is None else int(n[i]) for n in numbers])
    each = emit.constant(np.ones(count, np.int64)) if steps is None else steps.packed()
    place = emit.constant(np.array(found, np.int64).reshape(count))
    inputs = [x.packed(), starts.packed(), ends.packed(), place, each]
    return _call(emit, op, "part", inputs, dims)


def _cut(dim: Dim, given: Sequence[int | None]) -> Dim:
    """Gives the size of a slice along a dimension, from start, end and step as far as they are
    known.
    """
    start, end, step = given
    if start == 0 and end is not None and end >= bound_of(dim) and step == 1:
        return dim
    if start is None or end is None or not step or not isinstance(dim, int):
        most = bound_of(dim)
        if start == 0 and step == 1 and end is not None and end >= 0:
            most = min(most, end)
        return Size(most)
    return len(sliced(start, end, step, dim))


def _reshape(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    shape = constant_values(op.inputs[1]) if len(op.inputs) > 1 else None
    x, allowzero = arrays[0], integer_of(op, "allowzero") or 0
    if x is None or shape is None or shape.ndim != 1:
        return None
    dims = _reshaped(x.dims, shape.tolist(), allowzero)
    if dims is None:
        return None
    inputs = [x.packed(), emit.constant(shape.astype(np.int64))]
    return _call(emit, op, "reshaped", inputs, dims, allowzero=allowzero)


def _reshaped(dims: Sequence[Dim], shape: Sequence[int], allowzero: int) -> list[Dim] | None:
    """Gives the sizes of a result of Reshape; -1 is what the copied and the given sizes leave."""
    copied = [i for i, size in enumerate(shape) if size == 0 and not allowzero]
    if copied and copied[-1] >= len(dims):
        return None
    given: list[Dim] = [dims[i] if i in copied else size for i, size in enumerate(shape)]
    if -1 not in shape:
        return given
    rest = [dim for i, dim in enumerate(dims) if i not in copied]
    open_ = [dim for dim in rest if isinstance(dim, Size)]
    known = prod(size for size in shape if size > 0)
    total = prod(dim for dim in rest if isinstance(dim, int))
    left: Dim = total // known
    if open_:
        same = len(open_) == 1 and total == known
        left = open_[0] if same else Size(prod(map(bound_of, rest)) // known)
    given[list(shape).index(-1)] = left
    return given


def _flatten(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x, given = arrays[0], integer_of(op, "axis")
    axis = 1 if given is None else given
    if x is None or not -len(x.dims) <= axis <= len(x.dims):
        return None
    axis += len(x.dims) if axis < 0 else 0
    halves = [
        prod(map(bound_of, part)) if all(isinstance(dim, int) for dim in part) else -1
        for part in (x.dims[:axis], x.dims[axis:])
    ]
    dims = _reshaped(x.dims, halves, 1)
    if halves == [-1, -1] or 0 in halves or dims is None:
        return None
    inputs = [x.packed(), emit.constant(np.array(halves, np.int64))]
    return _call(emit, op, "reshaped", inputs, dims, allowzero=1)


# -- sizes as numbers


def _shape(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x = arrays[0]
    if x is None:
        return None
    start, end, _ = slice(integer_of(op, "start"), integer_of(op, "end")).indices(len(x.dims))
    return [bounded_result(op, 0, _numbers(emit, x.dims[start:end]), (max(end - start, 0),))]


def _count(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x = arrays[0]
    if x is None:
        return None
    sizes = _numbers(emit, (1, *x.dims))
    product = emit.add(g.ReduceProdOp.make(sizes, axes=[0], keepdims=0, location=op.location))
    return [bounded_result(op, 0, product.result, ())]


def _numbers(emit: Emitter, dims: Sequence[Dim]) -> SSAValue:
    """Gives sizes as an array of i64."""
    if all(isinstance(dim, int) for dim in dims):
        return emit.constant(np.array(dims, np.int64))
    parts = [number_of(emit, dim) for dim in dims]
    return emit.add(g.ConcatOp.make(*parts, axis=0, location=emit.location)).result


# -- what writes at places of which a run tells the number


def _scatter(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    x, indices, updates = arrays
    if x is None or indices is None or updates is None or not x.is_static:
        return None
    how = op.attrs.data.get("reduction")
    name = how.data if isinstance(how, StringAttr) else REDUCTIONS[0]
    if name not in REDUCTIONS or element_type_of(indices.type) not in (i32, i64):
        return None
    routine, numbers = "scatter_nd", {"how": REDUCTIONS.index(name)}
    if op.op_type.data == "ScatterElements":
        axis = _axis(integer_of(op, "axis") or 0, x.dims)
        if axis is None or indices.dims != updates.dims or len(indices.dims) != len(x.dims):
            return None
        if any(
            bound_of(i) > bound_of(d)
            for a, (i, d) in enumerate(zip(indices.dims, x.dims, strict=True))
            if a != axis
        ):
            return None
        routine, numbers = "scatter_elements", {"axis": axis, "how": REDUCTIONS.index(name)}
    elif not _names_slices(x.dims, indices.dims, updates.dims):
        return None
    return _call(emit, op, routine, _packed(arrays), x.dims, **numbers)


def _names_slices(x: Sequence[Dim], indices: Sequence[Dim], updates: Sequence[Dim]) -> bool:
    """Tells if updates have one slice of the right shape for each place that indices name."""
    depth = indices[-1] if indices else None
    if not isinstance(depth, int) or depth > len(x):
        return False
    return [*updates] == [*indices[:-1], *x[depth:]]


_CALLS: dict[str, Call] = {
    "Compress": _compress,
    "Concat": _join,
    "Flatten": _flatten,
    "Gather": _take,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "Reshape": _reshape,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Shape": _shape,
    "Size": _count,
    "Slice": _part,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
}
"""The rule of each operator that becomes calls of routines."""


def _axis(axis: int, dims: Sequence[Dim]) -> int | None:
    """Counts an axis from the front; None for an axis that does not exist, which is the model's
    fault and told when it runs.
    """
    return axis % len(dims) if -len(dims) <= axis < len(dims) else None


def _is_number(value: SSAValue | None, type_: Attribute) -> bool:
    """Tells if an optional value is left out, or is a single number of this type."""
    if value is None:
        return True
    shape = static_shape(value.type)
    return shape is not None and prod(shape) == 1 and element_type_of(value.type) == type_

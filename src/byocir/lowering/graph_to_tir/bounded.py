"""convert-bounded-to-tir: operators of open results that have a bound become calls of routines.

Does: replaces foreign ops whose results have a shape that only a run tells, but no more elements
than is known before, as NonZero has, and foreign ops on what such calls give, as Squeeze or Gather.

Requires: nothing. What has no bound, or one of more than `MOST_BYTES`, stays as it is, and so do
the graphs of foreign ops.

Guarantees: the same results; locations are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects import tir
from byocir.dialects.byoc import TARGET
from byocir.dialects.graph import ConstantOp, ForeignOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import (
    DYNAMIC,
    Shape,
    dtype_of,
    element_type_of,
    f32,
    has_element,
    i1,
    i32,
    i64,
    shape_of,
    static_shape,
)
from byocir.evaluate.routines import order_of

MOST_BYTES = 2**28
"""What the largest of a result may take."""

Calls = Callable[[Emitter, ForeignOp], Sequence[SSAValue] | None]


@dataclass(frozen=True)
class ConvertBoundedToTirPass(ModulePass):
    """Makes calls of routines of operators whose results have a bound."""

    name = "convert-bounded-to-tir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                for inner in [i for i in function.body.ops if isinstance(i, ForeignOp)]:
                    _convert(inner)


def _convert(op: ForeignOp) -> None:
    call = _CALLS.get(op.op_type.data) if not op.domain.data else None
    if call is None or not all(op.present_outputs()):
        return
    emit = Emitter(op.location)
    made = call(emit, op)
    if made is not None:
        Rewriter.replace_op(op, emit.ops, list(made))


def bound_of(value: SSAValue | None) -> Shape | None:
    """The shape of the largest that a tensor of numbers can be; None where nobody knows."""
    if value is None or (static_shape(value.type) is None and not isinstance(value, OpResult)):
        return None
    shape = static_shape(value.type)
    if shape is None and isinstance(value, OpResult) and isinstance(value.op, tir.ExternOp):
        shape = value.op.bound(value.index)
    return shape if shape is not None and has_element(element_type_of(value.type)) else None


def _call(
    emit: Emitter,
    op: ForeignOp,
    routine: str,
    inputs: Sequence[SSAValue],
    bound: Shape,
    **numbers: int,
) -> Sequence[SSAValue] | None:
    """A routine of one result, unless its type or size forbids it."""
    type_ = op.results[0].type
    if not _holds(type_, bound):
        return None
    bounds = () if static_shape(type_) is not None else [bound]
    return emit.bounded(routine, inputs, [type_], bounds, **numbers)


def _holds(type_: Attribute, bound: Shape) -> bool:
    """Whether values of a type can be of this shape, and be held."""
    if not isinstance(type_, TensorType):
        return False
    shape, element = shape_of(cast(Attribute, type_)), element_type_of(cast(Attribute, type_))
    fits = len(shape) == len(bound) and all(
        size in (DYNAMIC, most) for size, most in zip(shape, bound, strict=True)
    )
    return fits and has_element(element) and prod(bound) * dtype_of(element).itemsize <= MOST_BYTES


# -- what makes open results


def _non_zero(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
    shape = bound_of(op.inputs[0])
    if not shape:
        return None
    return _call(emit, op, "non_zero", [op.inputs[0]], (len(shape), prod(shape)))


def _compress(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
    shape, holds = bound_of(op.inputs[0]), static_shape(op.inputs[1].type)
    if not shape or holds is None or static_shape(op.inputs[0].type) is None:
        return None
    given = _integer(op, "axis")
    axis = -1 if given is None else _axis(given, shape)
    if axis is None:
        return None
    most = prod(shape) if axis < 0 else shape[axis]
    if holds[0] > most or element_type_of(op.inputs[1].type) != i1:
        return None
    bound = (holds[0],) if axis < 0 else (*shape[:axis], holds[0], *shape[axis + 1 :])
    return _call(emit, op, "compress", list(op.inputs), bound, axis=axis)


def _non_max_suppression(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
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
    known = np.zeros((), np.int64) if most is None else constant_of(most)
    count = shape[2] if known is None else min(int(known.item()), shape[2])
    bound = (shape[0] * shape[1] * max(count, 0), 3)
    if not _holds(op.results[0].type, bound):
        return None
    zero = emit.constant(np.zeros((), np.float32))
    inputs = [boxes, scores, most or emit.constant(np.zeros((), np.int64))]
    inputs += [overlap or zero, least or zero]
    types = [op.results[0].type, TensorType(i64, [shape[2]])]
    center = _integer(op, "center_point_box") or 0
    bounds = [bound, (shape[2],)]
    given = {"center": center, "least": int(least is not None)}
    return emit.bounded("non_max_suppression", inputs, types, bounds, **given)[:1]


# -- what passes them on


def _take(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
    shape, indices = bound_of(op.inputs[0]), bound_of(op.inputs[1])
    if not shape or indices is None or element_type_of(op.inputs[1].type) not in (i32, i64):
        return None
    axis = _axis(_integer(op, "axis") or 0, shape)
    if axis is None:
        return None
    bound = (*shape[:axis], *indices, *shape[axis + 1 :])
    return _call(emit, op, "take", list(op.inputs), bound, axis=axis)


def _squeeze(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
    shape, given = bound_of(op.inputs[0]), _integers(op, "axes", 1)
    if not shape or given is None:
        return None
    axes = {_axis(axis, shape) for axis in given}
    sizes = shape_of(op.inputs[0].type)
    if len(axes) != len(given) or any(axis is None or sizes[axis] != 1 for axis in axes):
        return None
    bound = tuple(size for i, size in enumerate(shape) if i not in axes)
    dropped = sum(1 << axis for axis in axes if axis is not None)
    return _call(emit, op, "squeeze", [op.inputs[0]], bound, dropped=dropped)


def _transpose(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
    shape = bound_of(op.inputs[0])
    if not shape or len(shape) > 15:
        return None
    perm = _integers(op, "perm") or [*range(len(shape))][::-1]
    if sorted(perm) != [*range(len(shape))]:
        return None
    bound = tuple(shape[axis] for axis in perm)
    return _call(emit, op, "permute", [op.inputs[0]], bound, order=order_of(perm))


def _shape(emit: Emitter, op: ForeignOp) -> Sequence[SSAValue] | None:
    shape = bound_of(op.inputs[0])
    if shape is None:
        return None
    start, end, _ = slice(_integer(op, "start"), _integer(op, "end")).indices(len(shape))
    return _call(emit, op, "sizes_of", [op.inputs[0]], (max(end - start, 0),), start=start, end=end)


_CALLS: dict[str, Calls] = {
    "Compress": _compress,
    "Gather": _take,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
}
"""By the operator."""


def constant_of(value: SSAValue) -> np.ndarray | None:
    """The array of a constant."""
    made = value.owner
    return made.value.data.values() if isinstance(made, ConstantOp | tir.ConstantOp) else None


def _axis(axis: int, shape: Shape) -> int | None:
    """An axis counted from the front; None where there is no such one, which is the model's fault
    and told when it runs."""
    return axis % len(shape) if -len(shape) <= axis < len(shape) else None


def _is_number(value: SSAValue | None, type_: Attribute) -> bool:
    """Whether a value that may be left out is one number of this type."""
    if value is None:
        return True
    shape = static_shape(value.type)
    return shape is not None and prod(shape) == 1 and element_type_of(value.type) == type_


def _integer(op: ForeignOp, name: str) -> int | None:
    found = op.attrs.data.get(name)
    return cast("IntegerAttr", found).value.data if isinstance(found, IntegerAttr) else None


def _integers(op: ForeignOp, name: str, place: int | None = None) -> Sequence[int] | None:
    """An attribute of integers, or what a constant input has."""
    found = op.attrs.data.get(name)
    if isinstance(found, DenseArrayBase):
        return list(int_tuple(cast("DenseArrayBase[I64]", found)))
    if place is None or len(op.inputs) <= place:
        return None
    array = constant_of(op.inputs[place])
    return None if array is None else [int(n) for n in array.reshape(-1)]

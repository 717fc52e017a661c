"""Operators on arrays of open shape as graph ops on the largest shape that these can have.

Each operator is read again as the frontend reads it, now of static shapes. Rules for the graph ops
that it becomes then say which sizes the results have in a run.
"""

from __future__ import annotations

from collections.abc import Sequence

from byocir.dialects import graph as g
from byocir.dialects import tir
from byocir.dialects.array import Array
from byocir.dialects.graph import ForeignOp
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import i64, tensor
from byocir.frontend.onnx.reader import Value
from byocir.frontend.onnx.reading import read_again
from byocir.lowering.graph_to_tir.bounded.calls import Inputs
from byocir.lowering.graph_to_tir.bounded.rules import Walk
from byocir.lowering.graph_to_tir.bounded.sizes import (
    Bounded,
    Dim,
    Size,
    bound_of,
    fits,
    made,
    number_of,
)

BROADCASTING = frozenset(
    (
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul"),
        *("Or", "Pow", "Sub", "Sum", "Where", "Xor"),
    )
)
"""Operators all of whose inputs broadcast."""


def held(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    """The results of an operator as graph ops compute them; None where they cannot, as where the
    frontend tells a result from the largest shape."""
    given = list(arrays)
    if op.op_type.data in BROADCASTING:
        stretched = _stretched(emit, given)
        if stretched is None:
            return None
        given = stretched
    walk = Walk(emit)
    read = read_again(op, [_source(walk, array) for array in given])
    if read is None:
        return None
    ops, outputs = read
    for each in ops:
        each.location = op.location
    told = any(isinstance(output, Array) for output in outputs)
    is_open = any(array is not None and not array.is_static for array in given)
    if (told and is_open) or not walk.through(ops) or len(outputs) != len(op.results):
        for each in reversed(ops):
            each.erase(safe_erase=False)
        return None
    values = [walk.value(output) for output in outputs]
    dims = [walk.dims(value) for value in values]
    if not all(fits(result.type, d) for result, d in zip(op.results, dims, strict=True)):
        return None
    return [made(op, i, v, d) for i, (v, d) in enumerate(zip(values, dims, strict=True))]


def _source(walk: Walk, array: Bounded | None) -> Value | None:
    """Gives the frontend's form of an array: constants as arrays, others as values."""
    if array is None:
        return None
    value = array.held()
    owner = value.owner
    if isinstance(owner, g.ConstantOp | tir.ConstantOp):
        return owner.value.data
    walk.known[value] = array.dims
    return value


# -- sizes that may broadcast


def _stretched(emit: Emitter, arrays: Sequence[Bounded | None]) -> list[Bounded | None] | None:
    """The same arrays, with one size in each dimension: those of which a run may tell that they
    are 1 are repeated. None where they fit in no run."""
    rank = max((len(array.dims) for array in arrays if array is not None), default=0)
    targets: list[Dim] = []
    for axis in range(-rank, 0):
        along = [a.dims[axis] for a in arrays if a is not None and len(a.dims) >= -axis]
        found = _joint(emit, list(dict.fromkeys(dim for dim in along if dim != 1)))
        if found is None:
            return None
        targets.append(found)
    return [None if array is None else _stretch(emit, array, targets) for array in arrays]


def _joint(emit: Emitter, dims: Sequence[Dim]) -> Dim | None:
    """The size to which some that differ broadcast."""
    if len(dims) < 2:
        return dims[0] if dims else 1
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) > 1 or 0 in map(bound_of, dims):
        return None
    given = [number_of(emit, dim) for dim in dims]
    joint = emit.extern("joint_size", given, [tensor(i64, [1])], count=len(given))[0]
    return Size(numbers[0] if numbers else max(map(bound_of, dims)), joint)


def _stretch(emit: Emitter, array: Bounded, targets: Sequence[Dim]) -> Bounded:
    """An array with each size that is not that of the target repeated to be so, as its number in a
    run wants it."""
    value, dims = array.held(), list(array.dims)
    for axis, target in enumerate(targets[len(targets) - len(dims) :]):
        dim = dims[axis]
        if dim in (target, 1):
            continue
        assert isinstance(target, Size)
        own, count = number_of(emit, dim), target.bound
        types = [tensor(i64, [count])]
        places = emit.extern("stretch", [own, target.number()], types, count=count)[0]
        value = emit.add(g.GatherOp.make(value, places, axis=axis, location=emit.location)).result
        dims[axis] = target
    if value is array.held():
        return array
    return Bounded(value.type, tuple(dims), None, None, value)

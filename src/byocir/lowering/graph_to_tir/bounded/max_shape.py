"""Lowers operators on arrays of open shape to graph ops on the largest shape that these can have.

Each operator is read again as the frontend reads it, now of static shapes. The graph ops that it
becomes say which sizes their results have in a run (`GraphOp.open_dims`), and which numbers they
need beside an array, where elements from there would come into the result (`GraphOp.masks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.array import Array, constant_array
from byocir.dialects.graph import ForeignOp, GraphOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.open_sizes import Dims, Mask, OpenSize
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import dtype_of, element_type_of, i64, shape_of, tensor
from byocir.dialects.uses import replace_uses, set_operand
from byocir.frontend.onnx.reader import Value
from byocir.frontend.onnx.scope import read_again
from byocir.lowering.graph_to_tir.bounded.bounds import (
    Bounded,
    Dim,
    Size,
    bound_of,
    bounded_result,
    bounds_of,
    fits,
    number_of,
)
from byocir.lowering.graph_to_tir.bounded.calls import Inputs

BROADCASTING = frozenset(
    (
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul"),
        *("Or", "Pow", "Sub", "Sum", "Where", "Xor"),
    )
)
"""Operators all of whose inputs broadcast."""


def on_max_shape(emit: Emitter, op: ForeignOp, arrays: Inputs) -> Sequence[Bounded] | None:
    """Emits graph ops that compute the results of an operator; None where they cannot, as where the
    frontend would tell a result from the shape alone, which is the largest here.
    """
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
    return [bounded_result(op, i, v, d) for i, (v, d) in enumerate(zip(values, dims, strict=True))]


def _source(walk: Walk, array: Bounded | None) -> Value | None:
    """Gives an array in the form that the frontend reads: constants as arrays, others as values."""
    if array is None:
        return None
    value = array.in_max_shape()
    constant = constant_array(value)
    if constant is not None:
        return constant
    walk.known[value] = array.dims
    return value


# -- sizes that may broadcast


def _stretched(emit: Emitter, arrays: Sequence[Bounded | None]) -> list[Bounded | None] | None:
    """Repeats arrays so that all have one size in each dimension, where a run may tell that one has
    size 1. None where they do not fit each other in any run.
    """
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
    """Gives the size to which some sizes broadcast, computed in the run where they are not all
    known.
    """
    if len(dims) < 2:
        return dims[0] if dims else 1
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) > 1 or 0 in map(bound_of, dims):
        return None
    given = [number_of(emit, dim) for dim in dims]
    joint = emit.extern("joint_size", given, [tensor(i64, [1])], count=len(given))[0]
    return Size(numbers[0] if numbers else max(map(bound_of, dims)), joint)


def _stretch(emit: Emitter, array: Bounded, targets: Sequence[Dim]) -> Bounded:
    """Repeats an array along each dimension that has another size than the target, once or as often
    as its size in a run asks for.
    """
    value, dims = array.in_max_shape(), list(array.dims)
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
    if value is array.in_max_shape():
        return array
    return Bounded(value.type, tuple(dims), None, None, value)


# -- graph ops with the sizes of a run


class Walk:
    """Emits graph ops in their order, and tracks the sizes of what they make."""

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit
        self.known: dict[SSAValue, Dims] = {}
        self._replaced: dict[SSAValue, SSAValue] = {}

    def dims(self, value: SSAValue) -> Dims:
        return self.known.get(value, shape_of(value.type))

    def value(self, output: Value) -> SSAValue:
        """Gives an output as a value of the program."""
        if isinstance(output, Array):
            return self.emit.constant(output)
        return self._replaced.get(output, output)

    def replace(self, old: OpResult, new: SSAValue) -> None:
        """Replaces a result by another value."""
        replace_uses(old, new)
        self._replaced[old] = new
        self.known[new] = self.known[old]

    def through(self, ops: Sequence[Operation]) -> bool:
        """Emits the ops; tells if all their results have sizes that can be told in a run."""
        return all(map(self._add, ops))

    def _add(self, op: Operation) -> bool:
        if not any(isinstance(dim, OpenSize) for value in op.operands for dim in self.dims(value)):
            self.emit.add(op)
            return True
        if not isinstance(op, GraphOp):
            return False
        dims = op.open_dims(*map(self.dims, op.operands))
        if dims is None or any(
            bounds_of(made) != shape_of(result.type)
            for made, result in zip(dims, op.results, strict=True)
        ):
            return False
        for mask in op.masks():
            self._mask(op, mask)
        self.known.update(zip(op.results, dims, strict=True))
        self.emit.add(op)
        if isinstance(op, g.ReduceMeanOp):
            _mean(self, op)
        return True

    def make(self, kind: type[GraphOp], *operands: SSAValue, **properties: Any) -> SSAValue:
        """Emits a new op and gives its result."""
        op = self.emit.add(kind.make(*operands, location=self.emit.location, **properties))
        return op.results[0]

    def _mask(self, op: Operation, mask: Mask) -> None:
        """Fills an operand of an op with a number outside of the array that it holds."""
        value = op.operands[mask.operand]
        dims, element = self.dims(value), element_type_of(value.type)
        for axis in mask.axes:
            dim = dims[axis]
            if not isinstance(dim, OpenSize):
                continue
            shape = [-1 if i == axis else 1 for i in range(len(dims))]
            places = self.emit.constant(np.arange(dim.bound, dtype=np.int64).reshape(shape))
            size = dim.number()
            if mask.routine is not None:
                (size,) = self.emit.extern(mask.routine, [size], [tensor(i64, [1])])
            inside = self.make(g.LessOp, places, size)
            other = self.emit.constant(np.array(mask.number, dtype_of(element)))
            value = self.make(g.WhereOp, inside, value, other)
        self.known[value] = dims
        set_operand(op, mask.operand, value)


def _mean(walk: Walk, op: g.ReduceMeanOp) -> None:
    """Computes the mean of the elements that the array has: their sum by their number, or 0 of
    none.
    """
    axes, dims, element = int_tuple(op.axes), walk.dims(op.input), element_type_of(op.input.type)
    if not any(isinstance(dims[axis], OpenSize) for axis in axes):
        return
    wide = accumulator_of(element)
    x = op.input if wide == element else walk.make(g.CastOp, op.input, to=wide)
    total = walk.make(g.ReduceSumOp, x, axes=axes, keepdims=op.keepdims.value.data)
    count = walk.emit.constant(np.array([1], np.int64))
    for axis in axes:
        count = walk.make(g.MulOp, count, number_of(walk.emit, dims[axis]))
    count = walk.make(g.MaxOp, count, walk.emit.constant(np.array([1], np.int64)))
    scalar = walk.make(g.ReshapeOp, walk.make(g.CastOp, count, to=wide), shape=[])
    mean = walk.make(g.DivOp, total, scalar)
    walk.replace(op.result, mean if wide == element else walk.make(g.CastOp, mean, to=element))

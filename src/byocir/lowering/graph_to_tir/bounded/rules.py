"""Rules for the sizes that the results of graph ops have in a run, by the class of the op.

A rule masks what lies beside an array where it would come into the result: a sum takes zeros there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.array import Array
from byocir.dialects.graph import GraphOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import dtype_of, element_type_of, i64, is_float, shape_of, tensor
from byocir.dialects.uses import replace_uses, set_operand
from byocir.frontend.onnx.reader import Value
from byocir.lowering.graph_to_tir.bounded.sizes import Dim, Size, bound_of, bounds_of, number_of

Dims = tuple[Dim, ...]
Along = g.CumSumOp | g.HardmaxOp | g.LogSoftmaxOp | g.LpNormOp | g.SoftmaxOp


class Walk:
    """Goes through graph ops in their order and knows the sizes of what they make."""

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit
        self.known: dict[SSAValue, Dims] = {}
        self._replaced: dict[SSAValue, SSAValue] = {}

    def dims(self, value: SSAValue) -> Dims:
        return self.known.get(value, shape_of(value.type))

    def value(self, output: Value) -> SSAValue:
        """An output as a value of the program."""
        if isinstance(output, Array):
            return self.emit.constant(output)
        return self._replaced.get(output, output)

    def replace(self, old: OpResult, new: SSAValue) -> None:
        """Another value takes the place of a result."""
        replace_uses(old, new)
        self._replaced[old] = new
        self.known[new] = self.known[old]

    def through(self, ops: Sequence[Operation]) -> bool:
        """Emits the ops; whether there was a rule for each."""
        return all(map(self._add, ops))

    def _add(self, op: Operation) -> bool:
        if not any(isinstance(dim, Size) for value in op.operands for dim in self.dims(value)):
            self.emit.add(op)
            return True
        rule = next((rule for kinds, rule in _RULES if isinstance(op, kinds)), None)
        dims = None if rule is None else rule(self, op)
        if dims is None or any(
            bounds_of(made) != shape_of(result.type)
            for made, result in zip(dims, op.results, strict=True)
        ):
            return False
        self.known.update(zip(op.results, dims, strict=True))
        self.emit.add(op)
        if isinstance(op, g.ReduceMeanOp):
            _mean(self, op)
        return True

    def make(self, kind: type[GraphOp], *operands: SSAValue, **properties: Any) -> SSAValue:
        """The result of a new op."""
        op = self.emit.add(kind.make(*operands, location=self.emit.location, **properties))
        return op.results[0]

    def mask(
        self,
        op: Operation,
        index: int,
        axes: Sequence[int],
        number: Any,
        routine: str | None = None,
    ) -> None:
        """An operand of an op is a number beside the array, along these axes. A routine may check
        the sizes before."""
        value = op.operands[index]
        dims, element = self.dims(value), element_type_of(value.type)
        for axis in axes:
            dim = dims[axis]
            if not isinstance(dim, Size):
                continue
            shape = [-1 if i == axis else 1 for i in range(len(dims))]
            places = self.emit.constant(np.arange(dim.bound, dtype=np.int64).reshape(shape))
            size = dim.number()
            if routine is not None:
                (size,) = self.emit.extern(routine, [size], [tensor(i64, [1])])
            inside = self.make(g.LessOp, places, size)
            other = self.emit.constant(np.array(number, dtype_of(element)))
            value = self.make(g.WhereOp, inside, value, other)
        self.known[value] = dims
        set_operand(op, index, value)


Rule = Callable[[Walk, Any], Sequence[Dims] | None]
"""The sizes of an op's results; None where the op would look beside its arrays."""


def _broadcast(walk: Walk, op: GraphOp) -> Sequence[Dims] | None:
    all_dims = [walk.dims(value) for value in op.operands]
    rank = max(map(len, all_dims))
    joined: list[Dim] = []
    for axis in range(-rank, 0):
        along = {dims[axis] for dims in all_dims if len(dims) >= -axis} - {1}
        if len(along) > 1:
            return None
        joined.append(along.pop() if along else 1)
    return [tuple(joined)]


def _same(walk: Walk, op: GraphOp) -> Sequence[Dims]:
    return [walk.dims(op.operands[0])]


def _least(element: Attribute) -> float | int:
    return -np.inf if is_float(element) else int(np.iinfo(dtype_of(element)).min)


def _greatest(element: Attribute) -> float | int:
    return np.inf if is_float(element) else int(np.iinfo(dtype_of(element)).max)


_NEUTRAL: tuple[tuple[type[GraphOp], Callable[[Attribute], float | int]], ...] = (
    (g.ReduceMaxOp, _least),
    (g.ReduceLogSumExpOp, _least),
    (g.ArgMaxOp, _least),
    (g.SoftmaxOp, _least),
    (g.LogSoftmaxOp, _least),
    (g.HardmaxOp, _least),
    (g.ReduceMinOp, _greatest),
    (g.ArgMinOp, _greatest),
    (g.ReduceProdOp, lambda _: 1),
)
"""The number that changes no result of a reduction; 0 for the others that look along dimensions."""


def _neutral(op: GraphOp) -> float | int:
    element = element_type_of(op.operands[0].type)
    return next((number(element) for kind, number in _NEUTRAL if isinstance(op, kind)), 0)


def _reduce(walk: Walk, op: g.ReduceOp) -> Sequence[Dims]:
    axes, dims = int_tuple(op.axes), walk.dims(op.input)
    walk.mask(op, 0, axes, _neutral(op))
    return [_without(dims, axes, op.keepdims)]


def _without(dims: Dims, axes: Sequence[int], keepdims: IntegerAttr) -> Dims:
    keep = keepdims.value.data
    return tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)


def _mean(walk: Walk, op: g.ReduceMeanOp) -> None:
    """A mean is of the elements that there are: their sum by their number, or 0 of none."""
    axes, dims, element = int_tuple(op.axes), walk.dims(op.input), element_type_of(op.input.type)
    if not any(isinstance(dims[axis], Size) for axis in axes):
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


def _arg(walk: Walk, op: g.ArgMaxOp | g.ArgMinOp) -> Sequence[Dims] | None:
    """The first of equal elements is never beside the array; a run in which there are none to
    choose from ends."""
    axis, dims = op.axis.value.data, walk.dims(op.input)
    if isinstance(dims[axis], Size) and op.select_last_index.value.data:
        return None
    walk.mask(op, 0, [axis], _neutral(op), routine="not_empty")
    return [_without(dims, [axis], op.keepdims)]


def _along(walk: Walk, op: Along) -> Sequence[Dims]:
    walk.mask(op, 0, [op.axis.value.data], _neutral(op))
    return _same(walk, op)


def _normed(walk: Walk, op: g.LayerNormOp | g.RmsNormOp) -> Sequence[Dims] | None:
    dims, axis = walk.dims(op.input), op.axis.value.data
    inside = all(isinstance(dim, int) for dim in dims[axis:])
    return [dims] if inside and len(op.results) == 1 else None


def _matmul(walk: Walk, op: g.MatmulOp) -> Sequence[Dims] | None:
    a, b = walk.dims(op.operands[0]), walk.dims(op.operands[1])
    if len(op.operands) > 2 or min(len(a), len(b)) < 2:
        return None
    batch: list[Dim] = []
    for axis in range(-max(len(a), len(b)), -2):
        along = {dims[axis] for dims in (a, b) if len(dims) >= -axis} - {1}
        if len(along) > 1:
            return None
        batch.append(along.pop() if along else 1)
    if a[-1] is not b[-2] and a[-1] != b[-2]:
        return None
    walk.mask(op, 0, [len(a) - 1], 0)
    walk.mask(op, 1, [len(b) - 2], 0)
    return [(*batch, a[-2], b[-1])]


def _transpose(walk: Walk, op: g.TransposeOp) -> Sequence[Dims]:
    dims = walk.dims(op.input)
    return [tuple(dims[axis] for axis in int_tuple(op.perm))]


def _unsqueeze(walk: Walk, op: g.UnsqueezeOp) -> Sequence[Dims]:
    axes, dims = int_tuple(op.axes), iter(walk.dims(op.input))
    rank = len(shape_of(op.result.type))
    return [tuple(1 if i in axes else next(dims) for i in range(rank))]


def _squeeze(walk: Walk, op: g.SqueezeOp) -> Sequence[Dims] | None:
    axes, dims = int_tuple(op.axes), walk.dims(op.input)
    if any(isinstance(dims[axis], Size) for axis in axes):
        return None
    return [tuple(dim for i, dim in enumerate(dims) if i not in axes)]


def _concat(walk: Walk, op: g.ConcatOp) -> Sequence[Dims] | None:
    axis, all_dims = op.axis.value.data, [walk.dims(value) for value in op.operands]
    others = {(*dims[:axis], *dims[axis + 1 :]) for dims in all_dims}
    if len(others) > 1 or any(isinstance(dims[axis], Size) for dims in all_dims):
        return None
    dims = list(all_dims[0])
    dims[axis] = sum(bound_of(dims[axis]) for dims in all_dims)
    return [tuple(dims)]


def _slice(walk: Walk, op: g.SliceOp) -> Sequence[Dims] | None:
    found: list[Dim] = []
    cuts = zip(*map(int_tuple, (op.starts, op.sizes, op.steps)), strict=True)
    for dim, cut in zip(walk.dims(op.input), cuts, strict=True):
        if isinstance(dim, Size) and cut != (0, dim.bound, 1):
            return None
        found.append(dim if isinstance(dim, Size) else cut[1])
    return [tuple(found)]


def _pad(walk: Walk, op: g.PadOp) -> Sequence[Dims] | None:
    pads, dims = int_tuple(op.pads), walk.dims(op.input)
    found: list[Dim] = []
    for i, dim in enumerate(dims):
        both = pads[i], pads[len(dims) + i]
        if isinstance(dim, Size) and any(both):
            return None
        found.append(dim + sum(both) if isinstance(dim, int) else dim)
    return [tuple(found)]


def _split(walk: Walk, op: g.SplitOp) -> Sequence[Dims] | None:
    axis, dims = op.axis.value.data, walk.dims(op.input)
    if isinstance(dims[axis], Size):
        return None
    return [(*dims[:axis], size, *dims[axis + 1 :]) for size in int_tuple(op.split)]


def _tile(walk: Walk, op: g.TileOp) -> Sequence[Dims] | None:
    pairs = list(zip(walk.dims(op.input), int_tuple(op.repeats), strict=True))
    if any(isinstance(dim, Size) and count != 1 for dim, count in pairs):
        return None
    return [tuple(dim * count if isinstance(dim, int) else dim for dim, count in pairs)]


def _gather(walk: Walk, op: g.GatherOp) -> Sequence[Dims] | None:
    axis = op.axis.value.data
    x, indices = walk.dims(op.operands[0]), walk.dims(op.operands[1])
    if isinstance(x[axis], Size) or x[axis] == 0:
        return None
    walk.mask(op, 1, range(len(indices)), 0)
    return [(*x[:axis], *indices, *x[axis + 1 :])]


def _gather_elements(walk: Walk, op: g.GatherElementsOp) -> Sequence[Dims] | None:
    axis = op.axis.value.data
    x, indices = walk.dims(op.operands[0]), walk.dims(op.operands[1])
    if isinstance(x[axis], Size) or x[axis] == 0:
        return None
    walk.mask(op, 1, range(len(indices)), 0)
    return [indices]


def _gather_nd(walk: Walk, op: g.GatherNdOp) -> Sequence[Dims] | None:
    x, indices = walk.dims(op.operands[0]), walk.dims(op.operands[1])
    depth = indices[-1]
    if any(isinstance(dim, Size) or not dim for dim in x) or not isinstance(depth, int):
        return None
    if op.batch_dims.value.data:
        return None
    walk.mask(op, 1, range(len(indices)), 0)
    return [(*indices[:-1], *x[depth:])]


def _top_k(walk: Walk, op: g.TopKOp) -> Sequence[Dims] | None:
    axis, dims = op.axis.value.data, walk.dims(op.input)
    if isinstance(dims[axis], Size):
        return None
    return [(*dims[:axis], op.k.value.data, *dims[axis + 1 :])] * 2


def _one_hot(walk: Walk, op: g.OneHotOp) -> Sequence[Dims]:
    axis, dims = op.axis.value.data, walk.dims(op.indices)
    return [(*dims[:axis], op.depth.value.data, *dims[axis:])]


def _by_batch(walk: Walk, op: GraphOp) -> Sequence[Dims] | None:
    """Sizes of an op that computes each element of the first dimension alone."""
    first, *others = [walk.dims(value) for value in op.operands]
    rest = [*first[1:], *(dim for dims in others for dim in dims)]
    if any(isinstance(dim, Size) for dim in rest):
        return None
    return [(first[0], *shape_of(result.type)[1:]) for result in op.results]


_BY_BATCH = (
    *(g.ConvOp, g.ConvTransposeOp, g.MaxPoolOp, g.AveragePoolOp, g.SumPoolOp, g.LpPoolOp),
    *(g.GlobalAveragePoolOp, g.GlobalMaxPoolOp, g.BatchNormOp, g.InstanceNormOp, g.GroupNormOp),
    *(g.LrnOp, g.ResizeOp, g.DepthToSpaceOp, g.SpaceToDepthOp),
)

_RULES: tuple[tuple[tuple[type[Operation], ...], Rule], ...] = (
    ((g.BinaryOp, g.UnaryOp, g.WhereOp, g.PreluOp), _broadcast),
    (
        (g.CastOp, g.IsNanOp, g.IsInfOp, g.QuantizeOp, g.DequantizeOp, g.RequantizeOp, g.TriluOp),
        _same,
    ),
    ((g.ReduceOp,), _reduce),
    ((g.ArgMaxOp, g.ArgMinOp), _arg),
    ((g.CumSumOp, g.HardmaxOp, g.LogSoftmaxOp, g.LpNormOp, g.SoftmaxOp), _along),
    ((g.LayerNormOp, g.RmsNormOp), _normed),
    ((g.MatmulOp,), _matmul),
    ((g.TransposeOp,), _transpose),
    ((g.UnsqueezeOp,), _unsqueeze),
    ((g.SqueezeOp,), _squeeze),
    ((g.ConcatOp,), _concat),
    ((g.SliceOp,), _slice),
    ((g.PadOp,), _pad),
    ((g.SplitOp,), _split),
    ((g.TileOp,), _tile),
    ((g.GatherOp,), _gather),
    ((g.GatherElementsOp,), _gather_elements),
    ((g.GatherNdOp,), _gather_nd),
    ((g.TopKOp,), _top_k),
    ((g.OneHotOp,), _one_hot),
    (_BY_BATCH, _by_batch),
)
"""The rule of each class of graph ops."""

"""Writes blocks, fills and copies as nests of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects import tir
from byocir.dialects.emitting import emit, emitting_to
from byocir.dialects.intervals import Interval
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.scalar import Emitted, number_op, signless
from byocir.dialects.types import element_type_of, shape_of
from byocir.evaluate.scalar import number
from byocir.lowering.tir_to_scf.indices import NestPoint, Numbers

AtPoint = Callable[[list[SSAValue]], None]
"""Emits what a nest does at each point, given the loops' values."""


def write_fill(op: tir.FillOp, target: SSAValue, numbers: Numbers) -> None:
    """Writes loops that set every element to a number."""
    value = number_of(op.value, element_type_of(target.type))

    def store(indices: list[SSAValue]) -> None:
        emit(memref.StoreOp.get(value, target, indices))

    shape = shape_of(target.type)
    write_nest(numbers, shape, [f"i{i}" for i in range(len(shape))], store)


def write_copy(op: tir.CopyOp, numbers: Numbers) -> None:
    """Writes loops over the box that is copied."""
    rank = len(op.box)

    def move(indices: list[SSAValue]) -> None:
        at_source = _based(indices, op.source_bases)
        at_target = _based(indices, op.destination_bases)
        intervals = _intervals(op.box, based=bool(op.source_bases))
        point = NestPoint(numbers, at_source, intervals)
        value = _read(point, op.source, AffineMap.identity(rank), op.pad)
        kept = Emitted(value).to(element_type_of(op.destination.type))
        emit(memref.StoreOp.get(kept.value, op.destination, at_target))

    write_nest(numbers, op.box, [f"i{i}" for i in range(rank)], move)


def write_block(op: tir.BlockOp, numbers: Numbers) -> None:
    """Writes loops around the block's body, in the order of its iterators."""

    def point(indices: list[SSAValue]) -> None:
        intervals = _intervals(op.extents, based=bool(op.bases))
        place = NestPoint(numbers, _based(indices, op.bases), intervals)
        guards = list(op.where.data.results) if op.where is not None else []
        condition = place.condition(guards)
        if condition is None:
            return _at_point(op, place)
        inside = Block()
        with emitting_to(inside):
            _at_point(op, place)
            emit(scf.YieldOp())
        emit(scf.IfOp(condition, [], [inside]))

    write_nest(numbers, op.extents, op.names, point)


def _at_point(op: tir.BlockOp, point: NestPoint) -> None:
    body = op.body.block
    maps = [*op.in_maps, *op.out_maps]
    pads = [*op.pad_values, *[None] * len(op.outs)]
    values: dict[SSAValue, SSAValue] = {}
    for arg, array, map_, pad in zip(body.args, [*op.ins, *op.outs], maps, pads, strict=True):
        if isinstance(arg.type, MemRefType):
            values[arg] = array
        elif arg.first_use is not None:
            values[arg] = _read(point, array, map_, pad)
    for inner in body.ops:
        if isinstance(inner, tir.ReadOp):
            at = [emit(arith.IndexCastOp(values[i], IndexType())).result for i in inner.indices]
            values[inner.result] = emit(memref.LoadOp.get(values[inner.array], at)).res
        elif not isinstance(inner, tir.YieldOp):
            emit(inner.clone(values))
    targets = zip(op.yielded, op.outs, op.out_maps, strict=True)
    for value, array, map_ in targets:
        indices = [point.index(expr) for expr in map_.results]
        emit(memref.StoreOp.get(values[value], array, indices))


def _read(point: NestPoint, array: SSAValue, map_: AffineMap, pad: Attribute | None) -> SSAValue:
    """Emits a read of the element that a map selects or, where that is outside, of the pad."""
    outside: list[AffineExpr] = []
    if pad is not None:
        for expr, size in zip(map_.results, shape_of(array.type), strict=True):
            outside += [expr, expr * -1 + (size - 1)]
    condition = point.condition(outside)
    indices = [point.index(expr) for expr in map_.results]
    if condition is None:
        return emit(memref.LoadOp.get(array, indices)).res
    assert pad is not None
    element = element_type_of(array.type)
    inside, otherwise = Block(), Block()
    with emitting_to(inside):
        emit(scf.YieldOp(emit(memref.LoadOp.get(array, indices)).res))
    with emitting_to(otherwise):
        emit(scf.YieldOp(number_of(pad, element)))
    return emit(scf.IfOp(condition, [element], [inside], [otherwise])).results[0]


def write_nest(
    numbers: Numbers, extents: Sequence[int], names: Sequence[str], inner: AtPoint
) -> None:
    """Writes loops from 0 to each extent, the first one outermost."""

    def nest(indices: list[SSAValue]) -> None:
        depth = len(indices)
        if depth == len(extents):
            return inner(indices)
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = names[depth]
        with emitting_to(body):
            nest([*indices, body.args[0]])
            emit(scf.YieldOp())
        zero, one = numbers.index(0), numbers.index(1)
        emit(scf.ForOp(zero, numbers.index(extents[depth]), one, [], body))

    nest([])


def _based(indices: Sequence[SSAValue], bases: Sequence[SSAValue]) -> list[SSAValue]:
    if not bases:
        return list(indices)
    return [emit(arith.AddiOp(b, i)).result for b, i in zip(bases, indices, strict=True)]


def _intervals(extents: Sequence[int], *, based: bool) -> Sequence[Interval | None]:
    return [None] * len(extents) if based else spans(extents)


def number_of(value: Attribute, type_: Attribute) -> SSAValue:
    """Emits a number in the type of the array's elements; arith knows signless integers only."""
    made = emit(number_op(number(value).item(), signless(type_)))
    return Emitted(made.result).cast(type_).value

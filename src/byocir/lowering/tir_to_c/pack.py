"""pack-weights: constants of contractions in the order in which tiles read them.

Does: a contraction with a constant operand reads a copy of it, laid out as [parallel iterators,
panel, reduction iterators, lane]: a panel holds what one column of tiles needs, one vector after
the other. The lane, along which vectors run, is split into panels as wide as a tile of the
processor `cpu`; where the last one is not full, it holds zeros, and the result has as many elements
more, which nobody reads.

Requires: blocks in value form, of which `fold-copies` then folds those on constants. Looks at
functions without `byoc.target`.

Guarantees: the same results, bit for bit; every new op has the location of the block it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.byoc import TARGET
from byocir.dialects.tir import BlockOp, ConstantOp, FillOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import element_type_of, f32, shape_of
from byocir.evaluate.scalar import number
from byocir.lowering.graph_to_tir.emit import Emitter, Read, Space
from byocir.lowering.tir_to_c.contract import is_contraction, may_reorder
from byocir.lowering.tir_to_c.cpu import CPUS, Cpu
from byocir.lowering.tir_to_c.tile_shape import tile_shape


@dataclass(frozen=True)
class PackWeightsPass(ModulePass):
    """Lays constants out as tiles read them."""

    name = "pack-weights"

    cpu: str = "generic"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        cpu = CPUS[self.cpu]
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                for block in [b for b in function.walk() if isinstance(b, BlockOp)]:
                    packing = _packing(block, cpu)
                    if packing is not None:
                        _pack(packing)


@dataclass(frozen=True)
class _Packing:
    """A contraction whose operand `weights` is packed in panels of `width` along the iterator
    `lane`."""

    op: BlockOp
    weights: int
    lane: int
    width: int

    @property
    def panels(self) -> int:
        return -(-self.op.extents[self.lane] // self.width)

    @property
    def is_full(self) -> bool:
        return self.op.extents[self.lane] % self.width == 0


def _packing(op: BlockOp, cpu: Cpu) -> _Packing | None:
    if not op.in_value_form or not is_contraction(op) or not op.reductions or op.bases:
        return None
    constants = [i for i, value in enumerate(op.ins) if isinstance(value.owner, ConstantOp)]
    if len(constants) != 1 or not isinstance(op.outs[0].owner, FillOp):
        return None
    weights = constants[0]
    last = linear(op.out_maps[0].results[-1])
    maps = op.in_maps
    if last is None or op.pad_values[weights] is not None or not _is_linear(maps[weights]):
        return None
    known, seen = _used(maps[weights]), _used(maps[1 - weights])
    lanes = [i for i, step in last.terms if step == 1 and i in known and op.extents[i] > 1]
    if not lanes:
        return None
    lane = lanes[0]
    rows = [op.extents[i] for i in op.parallels if i in seen - known and op.extents[i] > 1]
    fused = element_type_of(op.outs[0].type) == f32 and may_reorder(op) and cpu.fuses
    shape = tile_shape(cpu, op.extents[lane], rows[-2:], fused=fused)
    if shape is None:
        return None
    alone = len(last.terms) == 1 and lane not in seen
    return _Packing(op, weights, lane, shape.width if alone else op.extents[lane])


def _is_linear(map_: AffineMap) -> bool:
    return all(linear(expr) is not None for expr in map_.results)


def _used(map_: AffineMap) -> set[int]:
    return {i for expr in map_.results for i in expr.used_dims()}


def _pack(packing: _Packing) -> None:
    op, lane, width = packing.op, packing.lane, packing.width
    emit = Emitter(op.location)
    iterators, dims = _split(packing)
    count = len(iterators)
    maps = [m.replace_dims_and_symbols(dims, [], count, 0) for m in (*op.in_maps, *op.out_maps)]
    weights, index = _panels(emit, packing, iterators, maps[packing.weights])
    maps[packing.weights] = AffineMap(count, 0, tuple(index))
    ins = list(op.ins)
    ins[packing.weights] = weights
    fill = op.outs[0].owner
    assert isinstance(fill, FillOp)
    shape = shape_of(op.outs[0].type)
    start: SSAValue = op.outs[0]
    if not packing.is_full:
        whole = shape[-1] + packing.panels * width - op.extents[lane]
        element = element_type_of(op.outs[0].type)
        start = emit.fill(number(fill.value).item(), element, (*shape[:-1], whole))
    made = BlockOp(
        iterators, ins, [start], maps, op.body.clone(), pads=op.pad_values, location=op.location
    )
    result = emit.add(made).results[0]
    if not packing.is_full and not _only_read(op.results[0]):
        space = Space.over(shape)
        read = Read(result, space.parallel)
        result = emit.elementwise(shape, element_type_of(result.type), [read], lambda x: x)
    Rewriter.insert_op(emit.ops, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(result)
    op.detach()
    op.erase()
    if not list(fill.results[0].uses):
        fill.detach()
        fill.erase()


def _only_read(value: SSAValue) -> bool:
    """Whether all that use a value are blocks that read it at indices, and never outside of it."""
    return all(
        isinstance(use.operation, BlockOp)
        and use.index < len(use.operation.ins)
        and use.index not in use.operation.whole
        and use.operation.pad_values[use.index] is None
        for use in value.uses
    )


def _split(packing: _Packing) -> tuple[list[IteratorAttr], list[AffineExpr]]:
    """The iterators with the lane as panel and lane, and what the old ones are in them."""
    op, lane = packing.op, packing.lane
    old = list(op.iterators)
    if packing.panels == 1 and packing.is_full:
        return old, [AffineExpr.dimension(i) for i in range(len(old))]
    name = old[lane].iterator_name.data
    free = next(n for n in (f"{name}p", f"{name}_panel", f"{name}_panel_") if n not in op.names)
    pair = [
        IteratorAttr.of(free, IteratorKind.PARALLEL, packing.panels),
        IteratorAttr.of(name, IteratorKind.PARALLEL, packing.width),
    ]
    dims = [AffineExpr.dimension(i + (i > lane)) for i in range(len(old))]
    dims[lane] = AffineExpr.dimension(lane) * packing.width + AffineExpr.dimension(lane + 1)
    return [*old[:lane], *pair, *old[lane + 1 :]], dims


def _panels(
    emit: Emitter, packing: _Packing, iterators: Sequence[IteratorAttr], map_: AffineMap
) -> tuple[SSAValue, list[AffineExpr]]:
    """The packed constant, as a copy, and where the contraction reads it."""
    op = packing.op
    value = op.ins[packing.weights]
    lane = packing.lane + (len(iterators) - len(op.iterators))
    used = _used(map_)
    inner = [i for i, it in enumerate(iterators) if it.is_reduction and i in used]
    outer = [i for i in sorted(used) if i not in inner and i != lane]
    order = [*outer, *inner, lane]
    shape = tuple(iterators[i].extent.data for i in order)
    space = Space.over(shape)
    at = dict(zip(order, space.parallel, strict=True))
    dims = [at.get(i, AffineExpr.constant(0)) for i in range(len(iterators))]
    index = map_.replace_dims_and_symbols(dims, [], len(order), 0).results
    pad = None if packing.is_full else 0
    read = Read(value, list(index), pad=pad)
    made = emit.elementwise(shape, element_type_of(value.type), [read], lambda x: x)
    return made, [AffineExpr.dimension(i) for i in order]

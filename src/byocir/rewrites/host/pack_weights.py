"""pack-weights: orders constants of contractions as tiles read them.

Does: a contraction with a constant operand reads a copy of it, laid out as [parallel iterators,
panel, reduction iterators, lane]: a panel holds what one column of tiles needs, one vector after
the other. The lane, along which vectors run, is split into panels as wide as a tile of the
processor `cpu`; where the last one is not full, it holds zeros, and the result has as many elements
more, which nobody reads. Where the processor has an instruction that adds products of neighbours,
those along the innermost reduction lie side by side: four of 8 bits, or two that become 16 bits
wide. Zeros fill up the last of them, beside which the other operand is read outside of its array.

Requires: blocks in value form, of which `fold-copies` then folds those on constants. Looks at
functions without `byoc.target`.

Guarantees: the same results, bit for bit; every new op has the location of the block it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.tir import BlockOp, ConstantOp, FillOp, IteratorAttr, blocks_in
from byocir.dialects.tir.affine import iterators_in, linear
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted, emit_body, number_attr
from byocir.dialects.types import element_type_of, f32, i8, i32, shape_of, ui8
from byocir.dialects.uses import erase, replace_op
from byocir.errors import ByocirError, did_you_mean
from byocir.evaluate.scalar import number
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import is_computable, is_contraction, may_reorder
from byocir.rewrites.host.dot_steps import DotStep, dot_step_of
from byocir.rewrites.host.tile_shape import tile_shape
from byocir.rewrites.tiled_layout import tiled_iterators
from byocir.toolchain.cpu import CPUS, Cpu


@dataclass(frozen=True)
class PackWeightsPass(ModulePass):
    """Lays constants out as tiles read them."""

    name = "pack-weights"

    cpu: str = "generic"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.cpu not in CPUS:
            raise ByocirError(
                "B222",
                f"expected a cpu of {', '.join(CPUS)}, found '{self.cpu}'",
                help=did_you_mean(self.cpu, list(CPUS)),
            )
        cpu = CPUS[self.cpu]
        for function in host_functions(op):
            for block in blocks_in(function):
                packing = _packing(block, cpu)
                if packing is not None:
                    _pack(packing)


@dataclass(frozen=True)
class _Neighbours:
    """Describes the neighbours along a reduction iterator that one step takes at once."""

    iterator: int
    step: DotStep


@dataclass(frozen=True)
class _Packing:
    """Describes a contraction whose operand `weights` is packed in panels of `width` along the
    iterator `lane`."""

    op: BlockOp
    weights: int
    lane: int
    width: int
    neighbours: _Neighbours | None
    """The elements that lie side by side."""

    @property
    def panels(self) -> int:
        return -(-self.op.extents[self.lane] // self.width)

    @property
    def is_full(self) -> bool:
        return self.op.extents[self.lane] % self.width == 0

    @property
    def has_whole_steps(self) -> bool:
        found = self.neighbours
        return found is None or self.op.extents[found.iterator] % found.step.count == 0


def _packing(op: BlockOp, cpu: Cpu) -> _Packing | None:
    if not op.in_value_form or not is_contraction(op) or not op.reductions or op.bases:
        return None
    if not op.out_maps[0].results:  # a product that is one number has no lanes
        return None
    constants = [i for i, value in enumerate(op.ins) if isinstance(value.owner, ConstantOp)]
    if len(constants) != 1 or not isinstance(op.outs[0].owner, FillOp):
        return None
    weights = constants[0]
    last = linear(op.out_maps[0].results[-1])
    maps = op.in_maps
    if last is None or op.pad_values[weights] is not None or not _is_linear(maps[weights]):
        return None
    known, seen = iterators_in(maps[weights].results), iterators_in(maps[1 - weights].results)
    lanes = [i for i, step in last.terms if step == 1 and i in known and op.extents[i] > 1]
    if not lanes:
        return None
    lane = lanes[0]
    rows = [op.extents[i] for i in op.parallels if i in seen - known and op.extents[i] > 1]
    alone = len(last.terms) == 1 and lane not in seen
    neighbours = _neighbours(op, weights, cpu) if alone else None
    fused = element_type_of(op.outs[0].type) == f32 and may_reorder(op) and cpu.fuses
    quads = neighbours is not None and neighbours.step.count == 4
    shared = element_type_of(op.ins[1 - weights].type)
    shifted = neighbours is not None and neighbours.step.shifts(shared)
    shape = tile_shape(
        cpu, op.extents[lane], rows[-2:], fused=fused or quads, reserved=int(shifted)
    )
    if shape is None:
        return None
    return _Packing(op, weights, lane, shape.width if alone else op.extents[lane], neighbours)


def _neighbours(op: BlockOp, weights: int, cpu: Cpu) -> _Neighbours | None:
    """Finds the innermost reduction iterator of a contraction of 8-bit integers along which both
    operands have neighbours that a step of the processor can take; None if there is none.
    """
    inner = op.reductions[-1]
    image = op.in_maps[1 - weights].results
    last = linear(image[-1])
    kinds = [element_type_of(op.ins[i].type) for i in (weights, 1 - weights)]
    if not set(kinds) <= {i8, ui8} or not is_computable(op) or last is None:
        return None
    elsewhere = iterators_in(image[:-1])
    known = inner in iterators_in(op.in_maps[weights].results) and inner not in elsewhere
    if not known or last.coefficient(inner) != 1:
        return None
    step = dot_step_of(kinds[0], kinds[1], cpu)
    if step is None:
        return None
    fills = op.extents[inner] % step.count == 0
    takes = fills or all(_ends(op, i, inner) for i in range(2))
    return _Neighbours(inner, step) if takes else None


def _ends(op: BlockOp, operand: int, inner: int) -> bool:
    """Tells if an operand is read past its array exactly by the steps past an iterator's end."""
    map_, shape = op.in_maps[operand], shape_of(op.ins[operand].type)
    at = [axis for axis, expr in enumerate(map_.results) if inner in expr.used_dims()]
    alone = [axis for axis in at if isinstance(map_.results[axis], AffineDimExpr)]
    return (
        op.pad_values[operand] is None
        and len(at) == len(alone) == 1
        and shape[at[0]] == op.extents[inner] > 1
    )


def _is_linear(map_: AffineMap) -> bool:
    return all(linear(expr) is not None for expr in map_.results)


def _pack(packing: _Packing) -> None:
    op, lane, width = packing.op, packing.lane, packing.width
    emit = Emitter(op.location)
    iterators, dims = _split(packing)
    count = len(iterators)
    maps = [m.replace_dims_and_symbols(dims, [], count, 0) for m in (*op.in_maps, *op.out_maps)]
    weights, index = _panels(emit, packing, iterators, dims, maps[packing.weights])
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
        iterators, ins, [start], maps, _body(packing), pads=_pads(packing), location=op.location
    )
    result = emit.add(made).results[0]
    if not packing.is_full and not _only_read(op.results[0]):
        space = Space.over(shape)
        read = Read(result, space.parallel)
        result = emit.elementwise(shape, element_type_of(result.type), [read], lambda x: x)
    replace_op(op, emit.ops, [result])
    if not list(fill.results[0].uses):
        erase(fill)


def _pads(packing: _Packing) -> list[Attribute | None]:
    """Gives the pads of the operands: zeros are read where the weights were filled up."""
    pads = list(packing.op.pad_values)
    if not packing.has_whole_steps:
        other = 1 - packing.weights
        pads[other] = number_attr(0, element_type_of(packing.op.ins[other].type))
    return pads


def _only_read(value: SSAValue) -> bool:
    """Tells if all users of a value are blocks that read it at indices, and never outside of it."""
    return all(
        isinstance(use.operation, BlockOp)
        and use.index < len(use.operation.ins)
        and use.index not in use.operation.whole
        and use.operation.pad_values[use.index] is None
        for use in value.uses
    )


def _split(packing: _Packing) -> tuple[list[IteratorAttr], list[AffineExpr]]:
    """Splits the lane into panels and lanes, and the iterator with neighbours into groups and
    places in them; gives the new iterators, and the old ones in terms of them.
    """
    op, found = packing.op, packing.neighbours
    widths = {packing.lane: packing.width, **({found.iterator: found.step.count} if found else {})}
    if packing.panels == 1 and packing.is_full:
        del widths[packing.lane]
    taken, tiles = list(op.names), dict[int, tuple[str, str, int]]()
    for i, width in sorted(widths.items()):
        name = op.names[i]
        free = next(n for n in (f"{name}p", f"{name}_panel", f"{name}_panel_") if n not in taken)
        taken.append(free)
        tiles[i] = free, name, width
    return tiled_iterators(op.iterators.data, tiles)


def _panels(
    emit: Emitter,
    packing: _Packing,
    iterators: Sequence[IteratorAttr],
    dims: Sequence[AffineExpr],
    map_: AffineMap,
) -> tuple[SSAValue, list[AffineExpr]]:
    """Packs the constant, by a copy; gives it, and the index at which the contraction reads it."""
    value, found = packing.op.ins[packing.weights], packing.neighbours
    used = iterators_in(map_.results)
    lane = max(dims[packing.lane].used_dims())
    last = [lane] if found is None else [lane, max(dims[found.iterator].used_dims())]
    inner = [i for i in sorted(used) if iterators[i].is_reduction and i not in last]
    outer = [i for i in sorted(used) if i not in (*inner, *last)]
    order = [*outer, *inner, *last]
    shape = tuple(iterators[i].extent.data for i in order)
    space = Space.over(shape)
    at = dict(zip(order, space.parallel, strict=True))
    places = [at.get(i, AffineExpr.constant(0)) for i in range(len(iterators))]
    index = map_.replace_dims_and_symbols(places, [], len(order), 0).results
    exact = packing.is_full and packing.has_whole_steps
    read = Read(value, list(index), pad=None if exact else 0)
    element = element_type_of(value.type) if found is None else found.step.packed
    made = emit.elementwise(shape, element, [read], lambda x: x.to(element))
    return made, [AffineExpr.dimension(i) for i in order]


def _step(x: Emitted, w: Emitted, acc: Emitted) -> Emitted:
    return multiply_accumulate(x, w, acc, to=i32)


def _body(packing: _Packing) -> Region:
    """Makes the contraction's body for what is packed, which may be of a wider type."""
    op, found = packing.op, packing.neighbours
    types = [element_type_of(value.type) for value in (*op.ins, *op.outs)]
    if found is None or found.step.packed == types[packing.weights]:
        return op.body.clone()
    types[packing.weights] = found.step.packed
    return emit_body(types, _step, op.location)

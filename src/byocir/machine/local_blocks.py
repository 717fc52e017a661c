"""Makes a program of one block alone, in the forms in which patterns of instructions are tried on
it: operands are the boxes that the block reaches, iterators of one point are gone, and operands are
brought to the dimensions that a pattern reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.ir import Attribute, Block
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.new_ops import clone_region
from byocir.dialects.tir import BlockOp, FillOp, IteratorAttr, IteratorKind, buffer, scope_of
from byocir.dialects.tir.affine import expression, linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.machine.block_keys import pads_in_memory
from byocir.machine.lines import Chain


class Rank(NamedTuple):
    """Says how an operand is seen for a form: how many dimensions it has, how many of them, the
    last ones, are lanes, and whether its lines may be anywhere in their memory."""

    dims: int
    lanes: int
    is_anywhere: bool


_Side = tuple[int, Linear[int]]
"""The size of a dimension of a box, and its index."""


@dataclass(frozen=True)
class Local:
    """Describes all of a block but its body, without the program around it: names, kinds and
    extents of iterators, and for each operand its elements, memory and the sides of its box.
    """

    iterators: tuple[tuple[str, IteratorKind, int], ...]
    operands: tuple[tuple[Attribute, str, tuple[_Side, ...]], ...]
    pads: tuple[Attribute | None, ...] = ()

    def program(self, block: BlockOp, start: Attribute | None) -> BlockOp:
        """Makes a program of that block alone, with the body of another block."""
        iterators = [IteratorAttr.of(*each) for each in self.iterators]
        types = [
            buffer(element, [size for size, _ in sides], scope)
            for element, scope, sides in self.operands
        ]
        indices = [[expression(form) for _, form in sides] for *_, sides in self.operands]
        maps = [AffineMap(len(iterators), 0, tuple(index)) for index in indices]
        return on_its_own(block, iterators, types, maps, start, self.pads or None)


@dataclass(frozen=True)
class Boxes:
    """Describes a block as `Local` does, with operands of the dimensions that they have."""

    iterators: tuple[tuple[str, IteratorKind, int], ...]
    operands: list[tuple[Attribute, str, list[_Side]]]
    pads: tuple[Attribute | None, ...]

    @staticmethod
    def of(block: BlockOp, extents: Shape, chains: Sequence[Chain] = ()) -> Boxes | None:
        """Describes a block over these extents. None where an index divides, where it reads nothing
        of an array, and for a block without iterators.
        """
        if not extents:  # a single number, over which no instruction has a step
            return None
        kept = chains_kept(extents, chains)
        places = {i: n for n, chain in enumerate(kept) for i in chain}
        joined = [n for n, chain in enumerate(kept) if len(chain) > 1]
        operands = list[tuple[Attribute, str, list[_Side]]]()
        pads = pads_in_memory(block)
        padded = [pad is not None for pad in pads] or [False] * len(block.ins)
        pairs = zip([*block.ins, *block.outs], block.maps.data, [*padded, False], strict=True)
        for value, attr, is_padded in pairs:
            sizes = shape_of(value.type) if is_padded else [None] * len(attr.data.results)
            sides = list[_Side]()
            for expr, size in zip(attr.data.results, sizes, strict=True):
                side = _side(expr, extents, places, size)
                if side is None:
                    return None
                sides.append(side)
            scope = scope_in(block, value.type)
            operands.append((element_type_of(value.type), scope, _joined(sides, joined)))
        iterators = [(block.iterators.data[at[0]], prod(extents[i] for i in at)) for at in kept]
        told = tuple((it.iterator_name.data, it.kind.data, extent) for it, extent in iterators)
        return Boxes(told, operands, tuple(pads))

    def at_least(self, ranks: Sequence[Rank]) -> list[Rank]:
        """Gives these ranks with as many dimensions as the operands cannot do without."""
        found = list[Rank]()
        for (*_, sides), rank in zip(self.operands, ranks, strict=True):
            lanes = len(sides) - rank.lanes
            fixed = [d for d, (size, at) in enumerate(sides) if size > 1 or at.terms or d >= lanes]
            found.append(rank._replace(dims=max(rank.dims, len(fixed))))
        return found

    def with_ranks(self, ranks: Sequence[Rank]) -> Local | None:
        """Brings the operands to these ranks. None where one has more dimensions of several
        elements.
        """
        operands = list[tuple[Attribute, str, tuple[_Side, ...]]]()
        for (element, scope, sides), rank in zip(self.operands, ranks, strict=True):
            shape = _with_rank(sides, rank)
            if shape is None:
                return None
            operands.append((element, scope, tuple(shape)))
        return Local(self.iterators, tuple(operands), self.pads)


def local_form(block: BlockOp, ranks: Sequence[Rank]) -> BlockOp | None:
    """Makes a program of one block alone, with operands of these ranks. None where an operand has
    more dimensions of several elements, or an index that divides, and where the block has no
    iterators.
    """
    boxes = Boxes.of(block, block.extents)
    local = None if boxes is None else boxes.with_ranks(ranks)
    return None if local is None else local.program(block, None)


def chains_kept(extents: Shape, chains: Sequence[Chain] = ()) -> list[Chain]:
    """Lists the iterators with several points, each with those that are joined to it; the first
    iterator if none has several.
    """
    live = [i for i, extent in enumerate(extents) if extent > 1]
    inner = {i for chain in chains for i in chain[1:]}
    heads = {chain[0]: chain for chain in chains}
    return [heads.get(i, (i,)) for i in live if i not in inner] or [(0,)]


def _joined(sides: Sequence[_Side], chained: Sequence[int]) -> list[_Side]:
    """Joins neighbouring sides that are indexed by the same chain of iterators to one: [(4, hw),
    (8, hw)] → [(32, hw)]. Where the outer one leads out of an array, so does the joined one: [(3,
    hw - 1), (8, hw)] → [(24, hw - 8)].
    """
    found: list[_Side] = []
    for size, index in sides:
        if found and any(index.terms == found[-1][1].terms == ((n, 1),) for n in chained):
            outer, at = found[-1]
            found[-1] = outer * size, index + at.constant * size
        else:
            found.append((size, index))
    return found


def scope_in(block: BlockOp, type_: Attribute) -> str:
    """Gives the memory of an operand; arrays on tensors are taken to be in main memory."""
    return "" if block.in_value_form else scope_of(type_)


def on_its_own(
    block: BlockOp,
    iterators: Sequence[IteratorAttr],
    types: Sequence[Attribute],
    maps: Sequence[AffineMap],
    start: Attribute | None = None,
    pads: Sequence[Attribute | None] | None = None,
) -> BlockOp:
    """Makes a program of one block alone, which has the body of another and works on arrays of
    these types. With `start` its result begins with that number.
    """
    outside, count = Block(arg_types=types), len(block.ins)
    if start is not None:
        outside.add_op(FillOp.of(start, outside.args[count], block.location))
    ins, outs = outside.args[:count], outside.args[count:]
    body = clone_region(block.body)
    made = BlockOp(iterators, ins, outs, maps, body, pads=pads, location=block.location)
    outside.add_op(made)
    return made


def sized(block: BlockOp, sizes: Sequence[int]) -> BlockOp:
    """Makes a program of one block alone, over these extents, on arrays of the same types."""
    types = [value.type for value in [*block.ins, *block.outs]]
    if block.in_value_form:
        types = [buffer(element_type_of(type_), shape_of(type_)) for type_ in types]
    iterators = [it.resized(size) for it, size in zip(block.iterators, sizes, strict=True)]
    maps, pads = [*block.in_maps, *block.out_maps], pads_in_memory(block) or None
    return on_its_own(block, iterators, types, maps, pads=pads)


def _side(
    expr: AffineExpr, extents: Shape, places: Mapping[int, int], size: int | None
) -> _Side | None:
    """Describes a dimension of the box that an operand reaches. With a `size`, the array's, what is
    outside of that is no part of the box: [-1, 4) of 8 → (4, i - 1).
    """
    form = linear(expr)
    if form is None:
        return None
    low, high = form.interval(spans(extents).__getitem__)
    if size is not None:
        low, high = max(low, 0), min(high, size - 1)
    if low > high:
        return None
    terms = tuple((places[i], c) for i, c in form.terms if extents[i] > 1)
    return high - low + 1, Linear(terms, form.constant - low)


def _with_rank(sides: Sequence[_Side], rank: Rank) -> list[_Side] | None:
    """Brings sides to a rank, by dropping leading sides of size 1 or adding them; lanes are kept:
    [1, 4, 8] to rank 2 → [4, 8]. Lines that may be anywhere have no steps between them. None where
    too many sides have several elements.
    """
    left = len(sides) - rank.dims
    kept: list[_Side] = []
    for at, side in enumerate(sides):
        if left > 0 and side[0] == 1 and not side[1].terms and at < len(sides) - rank.lanes:
            left -= 1
        else:
            kept.append(side)
    if rank.is_anywhere:
        lines = slice(-max(rank.lanes, 1))
        kept[lines] = [_without_steps(side) for side in kept[lines]]
    one = (1, Linear[int]())
    return [*[one] * (rank.dims - len(kept)), *kept] if left <= 0 else None


def _without_steps(side: _Side) -> _Side:
    """Leaves out what lies between the lines that an iterator reaches: (7, 2 * i) → (4, i)."""
    size, index = side
    if len(index.terms) != 1 or index.terms[0][1] <= 1:
        return side
    ((i, step),) = index.terms
    return (size - 1) // step + 1, Linear(((i, 1),), index.constant)

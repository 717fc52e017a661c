"""Numbers blocks by what decides about them: whether patterns match them, and which calls of
instructions do them.

Programs have thousands of blocks that are alike, made from each other. They share attributes, so
these are told apart by identity first: comparing what they say takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, MemRefType, TensorType
from xdsl.ir import Attribute, Block

from byocir.dialects.body_facts import BodyFacts, computation_of
from byocir.dialects.memos import Memo, ObjectMemo
from byocir.dialects.tir import BlockOp, IteratorAttr, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.types import Shape, element_type_of, shape_of

MOST = 1 << 14
"""The keys, and attributes of each kind, that have numbers, before those are dropped that were not
asked for lately. A key gets another number then: what was found for the first is not found."""

Fact = TypeVar("Fact")


class _Facts(Generic[Fact]):
    """Keeps a fact about each attribute that was asked for, found once for an object."""

    def __init__(self, find: Callable[[Any], Fact]) -> None:
        self._find, self._known = find, ObjectMemo[Fact](MOST)

    def of(self, attribute: Attribute) -> Fact:
        return self._known.of((attribute,), lambda: self._find(attribute))


class Index(NamedTuple):
    """Describes the indices into an operand: their variable parts, as a number and as forms, and
    their constants. Indices that divide are not among the forms."""

    number: int
    moves: tuple[Linear[int], ...]
    starts: tuple[int, ...]


class _Iterators(NamedTuple):
    kinds: int
    extents: int


class _Stored(NamedTuple):
    where: int
    """The type of elements and the memory."""
    shape: int


def pads_in_memory(block: BlockOp) -> list[Attribute | None]:
    """Gives the numbers that a block in memory reads outside of each array; an empty list if it
    reads none. On tensors blocks read arrays that are not yet where instructions read them.
    """
    pads = [] if block.in_value_form else block.pad_values
    return pads if any(pad is not None for pad in pads) else []


def reaches_beyond(block: BlockOp) -> frozenset[int]:
    """Gives the iterators that lead a block in memory out of arrays: its calls take them whole."""
    found = set[int]()
    for i, pad in enumerate(pads_in_memory(block)):
        if pad is not None:
            forms = map(linear, block.in_maps[i].results)
            pairs = zip(forms, _beyond(block, i), strict=True)
            found.update(*(form.atoms for form, out in pairs if form and out and any(out)))
    return frozenset(found)


def reads_pads(block: BlockOp) -> bool:
    """Tells whether a block in memory reads outside of arrays."""
    padded = [i for i, pad in enumerate(pads_in_memory(block)) if pad is not None]
    return any(leads_out(block, i) for i in padded)


def leads_out(block: BlockOp, i: int) -> bool:
    """Tells whether an index into an input leads out of the array, or may."""
    return any(out is None or any(out) for out in _beyond(block, i))


def _beyond(block: BlockOp, i: int) -> Iterator[tuple[int, int] | None]:
    """Tells of each index into an input how far it leads out of the array in front and behind; None
    for one that divides."""
    points = spans(block.extents)
    for expr, size in zip(block.in_maps[i].results, shape_of(block.ins[i].type), strict=True):
        form = linear(expr)
        if form is None:
            yield None
            continue
        low, high = form.interval(points.__getitem__)
        yield max(-low, 0), max(high + 1 - size, 0)


class BlockKeys:
    """Gives numbers that are equal for what is alike, and differ for what is not."""

    def __init__(self) -> None:
        self._numbers, self._next = Memo[Hashable, int](MOST), count()
        self._bodies = BodyFacts[int]()
        self._blocks = ObjectMemo[int](MOST)
        self._values = _Facts(self.number_of)
        self._indices = _Facts(self._index)
        self._iterators = _Facts(self._counted)
        self._types = _Facts(self._stored)

    def number_of(self, key: Hashable) -> int:
        """Numbers a key: a number is found more quickly."""
        return self._numbers.of(key, self._next.__next__)

    def value(self, attribute: Attribute | None) -> int:
        """Numbers an attribute by what it says; -1 for none."""
        return -1 if attribute is None else self._values.of(attribute)

    def index(self, map_: AffineMapAttr) -> Index:
        """Describes the indices of a map."""
        return self._indices.of(map_)

    def body(self, block: Block) -> int:
        """Numbers bodies: equal for those that compute the same."""
        found = self._bodies.of(block, lambda: self._computed(block))
        return self._computed(block) if found is None else found

    def _computed(self, block: Block) -> int:
        return self.number_of(("body", computation_of(block, self._values.of)))

    def pattern(self, block: BlockOp) -> int:
        """Numbers blocks by all that decides whether patterns match them, if their operands lie in
        these memories.
        """
        maps, types, index = block.maps.data, self._types, self._indices
        told = [index.of(each).number for each in maps]
        told += [types.of(value.type).where for value in block.operands[: len(maps)]]
        kinds = self._iterators.of(block.iterators).kinds
        told += self._padded(block)
        return self.number_of(("pattern", kinds, self.body(block.body.block), *told))

    def _padded(self, block: BlockOp) -> list[int]:
        """Tells blocks in memory apart by their pads and by how far they lead out of arrays: the
        inner tiles of an image are alike."""
        pads = pads_in_memory(block)
        if not pads:
            return []
        told = [self.value(pad) for pad in pads]
        for i in [i for i, pad in enumerate(pads) if pad is not None]:
            beyond = [*_beyond(block, i)]
            where = self.value(block.maps.data[i]) if None in beyond else tuple(beyond)
            told += [self._types.of(block.ins[i].type).shape, self.number_of(("beyond", where))]
        return [*told, self._iterators.of(block.iterators).extents]

    def block(self, block: BlockOp) -> int:
        """Numbers blocks by all that decides which instruction does them: all but where their boxes
        start.
        """
        maps, iterators = block.maps, block.iterators
        values = block.operands[: len(maps.data)]
        own = [self.body(block.body.block), maps, iterators, *[value.type for value in values]]
        own.append(block.pads)
        return self._blocks.of(own, lambda: self._block(block))

    def _block(self, block: BlockOp) -> int:
        types, extents = self._types, self._iterators.of(block.iterators).extents
        values = () if block.in_value_form else block.operands[: len(block.maps.data)]
        shapes = [types.of(value.type).shape for value in values]
        return self.number_of(("block", extents, self.pattern(block), *shapes))

    def boxes(self, block: BlockOp) -> tuple[int, ...]:
        """Tells blocks apart by where iterators lead in operands, but for where boxes start."""
        maps, types, index = block.maps.data, self._types, self._indices
        stored = [types.of(value.type) for value in block.operands[: len(maps)]]
        numbers = [number for each in stored for number in each]
        kinds = self._iterators.of(block.iterators).kinds
        return (kinds, *(index.of(each).number for each in maps), *numbers, *self._padded(block))

    def _index(self, map_: AffineMapAttr) -> Index:
        forms = [linear(expr) for expr in map_.data.results]
        known = [form for form in forms if form is not None]
        terms = tuple(form and form.terms for form in forms)
        moves = tuple(form.variable for form in known)
        starts = tuple(form.constant for form in known)
        return Index(self.number_of(("terms", terms)), moves, starts)

    def _counted(self, iterators: ArrayAttr[IteratorAttr]) -> _Iterators:
        kinds = tuple(each.kind.data for each in iterators)
        extents: Shape = tuple(each.extent.data for each in iterators)
        return _Iterators(self.number_of(("kinds", kinds)), self.number_of(("extents", extents)))

    def _stored(self, type_: TensorType[Attribute] | MemRefType[Attribute]) -> _Stored:
        # arrays on tensors are taken to be in main memory
        scope = "" if isinstance(type_, TensorType) else scope_of(type_)
        where = element_type_of(type_), scope
        return _Stored(self.number_of(("where", where)), self.number_of(("shape", shape_of(type_))))

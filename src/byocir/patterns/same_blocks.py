"""Groups blocks that compute the same, so that what a pattern found out about one of them serves
for all.

A model has the same layers many times. A pattern first compares a block itself, its iterators,
indices and body, and only then looks where its operands come from. The first comparison has the
same result for all blocks with the same content, so it is made only once while a module is matched.
So do layers of other sizes: all that it asks of an iterator's extent is whether that is 1.
Blocks with the same outline differ only in the numbers that they read outside of their operands and
in the constants that their indices add, as the parts of a split do: `[i]`, `[i + 1]` and `[i + 2]`
are two outlines, for most patterns tell 0 from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count, islice
from typing import Any, Generic, NamedTuple, TypeVar

from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
)

from byocir.dialects import tir
from byocir.dialects.body_facts import computation_of
from byocir.dialects.decisions import Gap
from byocir.patterns.index import FloorIndex, forms_of

T = TypeVar("T")

Reason = str | Callable[[tir.BlockOp], str]
"""A reason that all blocks of an outline share, or what words it for one of them."""


class Facts(NamedTuple):
    """Gathers the facts of a block that every pattern asks for first."""

    inputs: int
    outputs: int
    iterators: int
    live: int
    """Reductions of extents above 1."""
    whole: frozenset[int]
    """The inputs that its body looks elements up in."""
    is_part: bool
    """Tells if it has guards or bases."""
    forms: Sequence[Sequence[FloorIndex]] | None
    """The index of each operand, results last; None where one has no such form."""

    @staticmethod
    def of(op: tir.BlockOp) -> Facts:
        extents = op.extents
        forms = [forms_of(attr.data) for attr in op.maps]
        return Facts(
            len(op.ins),
            len(op.outs),
            len(extents),
            sum(extents[i] > 1 for i in op.reductions),
            frozenset(op.whole),
            op.where is not None or bool(op.bases),
            None if None in forms else [form for form in forms if form is not None],
        )


class OutlineMisfit(NamedTuple):
    """Says why no block of some outline can match a pattern, and how much of it fitted."""

    reason: Reason
    near: int
    shaped: bool
    """Tells if the indices fit, and the body does not."""
    gap: Gap = Gap.PART

    @property
    def refused(self) -> bool:
        """Tells if nothing fitted, so that nothing else was looked at."""
        return self.near == 0

    def text_for(self, op: Operation) -> str:
        """Words the reason for one block."""
        if isinstance(self.reason, str):
            return self.reason
        assert isinstance(op, tir.BlockOp)
        return self.reason(op)


class Rewalked(Generic[T]):
    """Lets an iterator be walked again and again: each item is asked of it once, and kept."""

    def __init__(self, items: Iterator[T]) -> None:
        self._taken: list[T] = []
        self._rest = items

    def __iter__(self) -> Iterator[T]:
        for i in count():
            if i == len(self._taken):  # another walk may have read further meanwhile
                more = list(islice(self._rest, 1))
                if not more:
                    return
                self._taken += more
            yield self._taken[i]


class Alike:
    """Remembers findings that hold for all blocks with the same content, or the same outline, as
    long as none of them changes.
    """

    def __init__(self) -> None:
        self.misfits: dict[tuple[object, int], OutlineMisfit] = {}
        """The reasons why contents of blocks do not fit, by pattern and the content's number."""
        self.orders: dict[tuple[object, int], Rewalked[Any]] = {}
        """The orders of operands, and then the ways in which the pattern's iterators fit, by
        pattern and number of a block."""
        self.declined: dict[tuple[object, int], OutlineMisfit] = {}
        """The reasons why no pattern of a composite fits a block as its root, by composite and
        outline."""
        self.inner: dict[tuple[object, int], dict[object, OutlineMisfit]] = {}
        """The inner nodes of a composite's patterns that fit no such block, by composite and
        outline."""
        self.remote: set[tuple[object, int]] = set()
        """The composites and outlines of which `inner` has every inner node, and none is shaped."""
        self._facts: dict[Operation, Facts] = {}
        self._numbers = _Numbers(_content)
        self._outlines = _Numbers(_outline)

    def facts(self, op: tir.BlockOp) -> Facts:
        """Gives a block's facts, which are read once."""
        if op not in self._facts:
            self._facts[op] = Facts.of(op)
        return self._facts[op]

    def number(self, op: tir.BlockOp) -> int:
        """Numbers a block: those with the same content have the same number."""
        return self._numbers.of(op)

    def outline(self, op: tir.BlockOp) -> int:
        """Numbers a block: those with the same outline have the same number."""
        return self._outlines.of(op)


class _Numbers:
    """Numbers blocks: those for which a function gathers the same have the same number."""

    def __init__(self, gather: Callable[[tir.BlockOp], Hashable]) -> None:
        self._gather = gather
        self._by_op: dict[Operation, int] = {}
        self._by_content: dict[Hashable, int] = {}

    def of(self, op: tir.BlockOp) -> int:
        known = self._by_op.get(op)
        if known is None:
            known = self._by_content.setdefault(self._gather(op), len(self._by_content))
            self._by_op[op] = known
        return known


def _outline(op: tir.BlockOp) -> Hashable:
    """Gathers what patterns of most kinds compare: a block's content without its pads, and without
    the constants that its indices add.
    """
    return _content(op, tuple(tuple(map(_without_constant, m.data.results)) for m in op.maps))


def _without_constant(expr: AffineExpr) -> tuple[AffineExpr | None, bool]:
    """Splits `i + 3` into `i` and whether a constant is added."""
    match expr:
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add, rest, AffineConstantExpr()):
            return rest, True
        case AffineConstantExpr():
            return None, expr.value != 0
        case _:
            return expr, False


def _content(op: tir.BlockOp, maps: Hashable = None) -> Hashable:
    """Gathers all that a pattern compares of a block itself: of its iterators only their kinds, and
    which have extent 1. `maps` stands for its index maps and pads, if it is given.
    """
    return (
        tuple((each.is_reduction, each.extent.data == 1) for each in op.iterators),
        (op.maps, op.pads) if maps is None else maps,
        (len(op.ins), len(op.outs), len(op.bases), op.where),
        computation_of(op.body.block),
    )

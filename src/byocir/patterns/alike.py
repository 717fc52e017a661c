"""Blocks that compute the same, and what patterns found out about one of them.

A model has the same layers many times. Of a block a pattern first asks what the block alone tells,
its iterators, indices and body, and only then where its operands come from. The answer to the first
is the same for all blocks with the same content, so while a module is matched it is asked for once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from byocir.dialects import tir


class Misfit(NamedTuple):
    """The reason why no block with some content can match a pattern, and how much of it fitted."""

    reason: str
    near: int
    shaped: bool
    """Tells if the indices fit, and the body does not."""


class Alike:
    """Remembers what is true of all blocks with the same content, while none of them changes."""

    def __init__(self) -> None:
        self.refusals: dict[tuple[object, int], str] = {}
        """By pattern and number of a block, why it is out of question; empty where it is not."""
        self.misfits: dict[tuple[object, int], Misfit] = {}
        """By pattern and number of a block, why its content does not fit."""
        self._numbers: dict[Operation, int] = {}
        self._contents: dict[Hashable, int] = {}

    def number(self, op: tir.BlockOp) -> int:
        """Gives the same number to blocks with the same content."""
        known = self._numbers.get(op)
        if known is None:
            known = self._contents.setdefault(_content(op), len(self._contents))
            self._numbers[op] = known
        return known


def _content(op: tir.BlockOp) -> Hashable:
    """Gathers all of a block but its place: where it stands and what its operands are."""
    body = op.body.block
    places: dict[SSAValue, object] = {arg: i for i, arg in enumerate(body.args)}
    lines: list[Hashable] = []
    for inner in body.ops:
        if inner.regions:
            return op  # equal to itself alone
        places |= {result: (len(lines), i) for i, result in enumerate(inner.results)}
        lines.append(
            (
                inner.name,
                tuple(places.get(operand, operand) for operand in inner.operands),
                tuple(result.type for result in inner.results),
                frozenset(inner.properties.items()),
            )
        )
    return (
        frozenset(op.properties.items()),
        tuple(value.type for value in op.operands),
        tuple(arg.type for arg in body.args),
        *lines,
    )

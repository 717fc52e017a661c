"""Copies patterns with one part replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from xdsl.ir import SSAValue

from byocir.patterns import Pattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.nodes import AlternativesPattern, OpPattern
from byocir.patterns.structure import ParallelPattern, PathPattern, ResultPattern
from byocir.testing.choose import Choose, pick

P = TypeVar("P", bound=Pattern)

Refusal = Callable[[SSAValue], str]
"""The reason that what stands for a changed pattern must be declined for; empty where it fits."""

Change = Callable[[Choose], tuple[Pattern, Refusal]]
"""Another pattern in place of one; raises Unfit where a draw came to none."""


class Rebuilt:
    """Holds a copy of a pattern in which one part, or one use of it, is another. Parts that do not
    lead there stay; alternatives that do not lead there go.
    """

    def __init__(self, old: Pattern, new: Pattern, place: int | None) -> None:
        self.old, self.new, self.place = old, new, place
        self.uses = 0
        self.made: dict[int, Pattern] = {}

    def pattern(self, pattern: Pattern) -> Pattern:
        if pattern is self.old:
            self.uses += 1
            return self.new if self.place in (None, self.uses - 1) else pattern
        if id(pattern) not in self.made:
            self.made[id(pattern)] = self._copy(pattern)
        return self.made[id(pattern)]

    def _copy(self, pattern: Pattern) -> Pattern:
        leading = [child for child in pattern.children() if leads_to(child, self.old)]
        if not leading:
            return pattern
        either = isinstance(pattern, AlternativesPattern)
        kept = leading if either else pattern.children()
        return with_children(pattern, [self.pattern(child) for child in kept])


def resolved(choose: Choose, pattern: Pattern, known: dict[int, Pattern]) -> Pattern:
    """Replaces alternatives by one of each; `known` records what each part became, by id."""
    if id(pattern) not in known:
        if isinstance(pattern, AlternativesPattern):
            made = resolved(choose, pick(choose, pattern.alternatives), known)
        else:
            children = [resolved(choose, child, known) for child in pattern.children()]
            same = all(a is b for a, b in zip(children, pattern.children(), strict=True))
            made = pattern if same else with_children(pattern, children)
        known[id(pattern)] = made
    return known[id(pattern)]


def leads_to(pattern: Pattern, part: Pattern) -> bool:
    """Tells if a pattern contains this part, or is it."""
    return any(each is part for each in below(pattern))


def below(pattern: Pattern) -> Iterator[Pattern]:
    """Yields the pattern and all patterns below it, each once."""
    seen: dict[int, Pattern] = {}
    pending = [pattern]
    while pending:
        current = pending.pop(0)
        if id(current) not in seen:
            seen[id(current)] = current
            yield current
            pending.extend(current.children())


def with_children(pattern: Pattern, children: Sequence[Pattern]) -> Pattern:
    """Copies a pattern with other parts, in the order of `children()`."""
    made = changed(pattern)
    match made:
        case OpPattern():
            made.operands = tuple(children)
        case AlternativesPattern():
            made.alternatives = tuple(children)
        case ResultPattern():
            (made.inner,) = children
        case PathPattern():
            (made.start,) = children
        case ParallelPattern():
            made.roots = tuple(children)
        case BlockPattern():
            accesses = zip(made.reads, children, strict=False)
            made.reads = tuple(replace(read, pattern=child) for read, child in accesses)
            if isinstance(made.init, Pattern):
                made.init = children[-1]
        case _:
            raise TypeError(f"expected a pattern of others, found {type(pattern).__name__}")
    return made


def changed(pattern: P, **fields: Any) -> P:
    """Copies a pattern with these fields changed."""
    made = copy(pattern)
    for kind in type(made).__mro__:
        for name, member in vars(kind).items():
            if isinstance(member, cached_property):  # computed from the fields
                vars(made).pop(name, None)
    vars(made).update(fields)
    return made

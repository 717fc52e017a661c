"""Defines patterns of whole structures: several results, repeated steps, paths, several roots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import cast

from xdsl.ir import Operation, OpResult, SSAValue

from byocir.dialects.array import constant_array
from byocir.patterns.dataflow import Producer, producer_of, uses
from byocir.patterns.match import Bound, Progress, State
from byocir.patterns.nodes import AlternativesPattern, Pattern


class ResultPattern(Pattern):
    """Matches one of the results of an op; a plain op pattern stands for the first."""

    def __init__(self, inner: Pattern, index: int | None) -> None:
        self.inner = inner
        self.index = index

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        progress.by_outline = False
        if not isinstance(value, OpResult):
            wanted = " or ".join(sorted(self.inner.root_names()))
            progress.miss(state, f"expected a result of {wanted}, found {source}")
            return
        if self.index not in (None, value.index):
            progress.miss(state, f"expected result {self.index}, found result {value.index}")
            return
        for found in self.inner.match(value.op.results[0], source, state, progress):
            bound = found.with_name(self.label, Bound(value, value.op))
            if bound is not None:
                yield bound

    def root_names(self) -> frozenset[str]:
        return self.inner.root_names()

    def children(self) -> tuple[Pattern, ...]:
        return (self.inner,)


class PathPattern(Pattern):
    """Matches a value to which every way from a start leads through nothing but certain ops."""

    def __init__(self, start: Pattern, through: frozenset[str]) -> None:
        self.start = start
        self.through = through

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        progress.by_outline = False
        cone, constants, starts = self._cone(value, state)
        if len(starts) != 1:
            found = f"{len(starts)} values that lead there"
            progress.miss(state, f"expected all paths to come from one value, found {found}")
            return
        current: State | None = state.with_node(self, value)
        for op in cone:
            current = current and current.with_op(op)
        for op in constants:
            current = current and current.with_constant(op)
        op = source.op if source.op in cone else None
        current = current and current.with_name(self.label, Bound(value, op))
        if current is None:
            progress.miss(state, "expected the same value as before")
            return
        yield from self.start.match(starts[0], producer_of(starts[0]), current, progress)

    def _cone(
        self, value: SSAValue, state: State
    ) -> tuple[list[Operation], list[Operation], list[SSAValue]]:
        """Walks back from a value: gives the ops that it passes, the constants that they use, and
        the values that it ends at.
        """
        cone, constants = dict[Operation, None](), dict[Operation, None]()
        starts = dict[SSAValue, None]()
        pending = [value]
        while pending:
            current = pending.pop()
            op = current.owner
            if current in state.passed and cone:
                continue
            if not isinstance(op, Operation) or op.parent is not state.block:
                starts[current] = None
            elif op.name in self.through:
                pending += [] if op in cone else list(op.operands)
                cone[op] = None
            elif constant_array(current) is not None and cone:
                constants[op] = None
            else:
                starts[current] = None
        return list(cone), list(constants), list(starts)

    def root_names(self) -> frozenset[str]:
        return self.through | self.start.root_names()

    def children(self) -> tuple[Pattern, ...]:
        return (self.start,)


class ParallelPattern(Pattern):
    """Matches several roots over shared values; all of them are results."""

    def __init__(self, roots: tuple[Pattern, ...]) -> None:
        self.roots = roots

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        for found in self.roots[0].match(value, source, state, progress):
            if source.op is not None and source.op in found.ops:
                first = found.with_exposed(source.op)
                yield from self._match_rest(self.roots[1:], first, progress)

    def _match_rest(
        self, roots: Sequence[Pattern], state: State, progress: Progress
    ) -> Iterator[State]:
        if not roots:
            yield state
            return
        candidates = self._candidates(roots[0], state)
        for op in candidates:
            source = Producer(op)
            for found in roots[0].match(op.results[0], source, state, progress):
                if set(found.ops) > set(state.ops):
                    rest = found.with_exposed(op)
                    yield from self._match_rest(roots[1:], rest, progress)
        if not candidates:
            wanted = " or ".join(sorted(roots[0].root_names()))
            progress.miss(state, f"expected {wanted} beside it on the same input, found none")

    def _candidates(self, root: Pattern, state: State) -> list[Operation]:
        """Lists the ops, in their order, that can be the next root: unmatched ones of the right
        kind that the values matched so far lead to.
        """
        bound = state.nodes.values()
        level = [cast(SSAValue, thing) for thing in bound if isinstance(thing, SSAValue)]
        found = dict[Operation, None]()
        for _ in range(max(1, len(root.parts))):
            users = dict.fromkeys(user for value in level for user in uses(value))
            near = [user for user in users if user.parent is state.block and user.results]
            found.update(dict.fromkeys(near))
            level = list[SSAValue](result for user in near for result in user.results)
        names = root.root_names()
        fitting = [op for op in found if op.name in names and op not in state.ops]
        block = state.block
        if len(fitting) < 2 or block is None:
            return fitting
        position = {op: i for i, op in enumerate(block.ops)}
        return sorted(fitting, key=position.__getitem__)

    def root_names(self) -> frozenset[str]:
        return self.roots[0].root_names()

    @cached_property
    def parts(self) -> frozenset[Pattern]:
        return frozenset[Pattern]().union(*(root.parts for root in self.roots))

    def children(self) -> tuple[Pattern, ...]:
        return self.roots


def result(inner: Pattern, index: int | None = None) -> Pattern:
    """Makes a pattern of a result of an op by its index, or of any result:
    `result(op("graph.split", x), 1)`.
    """
    return ResultPattern(inner, index)


def repeat(
    inner: Pattern, step: Callable[[Pattern], Pattern], *, least: int = 0, most: int
) -> Pattern:
    """Makes a pattern of `step` applied `least` to `most` times on `inner`, as often as fits.
    Raises ValueError for bounds that leave no number.
    """
    if not 0 <= least <= most or most == 0:
        raise ValueError(f"expected 0 <= least <= most and most >= 1, found {least} and {most}")
    forms = [inner]
    for _ in range(most):
        forms.append(step(forms[-1]))
    wanted = forms[least:][::-1]
    return AlternativesPattern(tuple(wanted)) if len(wanted) > 1 else wanted[0]


def path(start: Pattern, *through: str) -> Pattern:
    """Makes a pattern of a value that comes from `start` through these ops alone, whatever the
    graph between: each path back from the value passes nothing else until it reaches the one value
    that `start` matches. The path is as long as it can be, and may have no op at all. Constants on
    the way belong to the match.
    """
    return PathPattern(start, frozenset(through))


def parallel(*roots: Pattern) -> Pattern:
    """Makes a pattern of several roots that share values, such as products of one input by
    different weights. The first root is found like any pattern, the others among the users of what
    is matched so far. All of them are results of the composite.
    """
    return ParallelPattern(roots)

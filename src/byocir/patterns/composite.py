"""Defines composites: patterns with a name and rules."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, overload

from xdsl.ir import Operation, SSAValue

from byocir.dialects import tir
from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.decisions import Gap, RuleResult
from byocir.dialects.traits import is_constant
from byocir.errors import FAILURES, ByocirError
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.dataflow import Producer, produced
from byocir.patterns.legality import illegality
from byocir.patterns.match import Match, Progress, State
from byocir.patterns.mistakes import check_op
from byocir.patterns.nodes import AnyOperandsPattern, Pattern
from byocir.patterns.rules import Check, Fix, Rule, Vary, sentence_of
from byocir.patterns.same_blocks import Alike
from byocir.patterns.zero_points import SYMMETRIC_ALONE, leaves_zero_point_open
from byocir.vendor.places import failed, place_of

Blocked = Callable[[State], str]
"""Says why a match must not be taken; empty when it may."""


class Composite:
    """Defines a named pattern that a target takes as one, under rules.

    `name` is "target.what", or "what" for a composite that any target may list; `patterns` are
    tried in order at each root. `glue` composites do no work of their own: a region of nothing else
    goes back to the host. One whose pattern has `graph.requantize` declines those that add a zero
    point, unless it says that it takes `zero_points`. Raises ByocirError B200 for a name or
    patterns that cannot be.
    """

    def __init__(
        self,
        name: str,
        patterns: tuple[Pattern, ...],
        *,
        glue: bool = False,
        zero_points: bool = False,
    ) -> None:
        self.name = name
        self.patterns = patterns
        self.glue = glue
        self.zero_points = zero_points
        self.rules: list[Rule] = []
        self._of_target: dict[str, Composite] = {}
        self._check()
        if not zero_points and any(map(leaves_zero_point_open, self.walk())):
            self.rules.append(SYMMETRIC_ALONE)

    def _check(self) -> None:
        """Raises ByocirError B200 for a name that is none and for patterns that would match
        nothing, or everything.
        """
        if not isinstance(cast(Any, self.name), str) or not all(self.name.split(".")):
            raise ByocirError(
                "B200", f"expected a composite to have a name like 'npu.conv', found {self.name!r}"
            )
        for each in cast("tuple[Any, ...]", self.patterns) or (None,):
            if not isinstance(each, Pattern):
                found = type(each).__name__
                raise ByocirError(
                    "B200", f"expected composite {self.name} to have patterns, found {found}"
                )
        with _nested(self.name):
            if not self.root_names or not self.size:
                raise ByocirError(
                    "B200",
                    f"expected the pattern of composite {self.name} to begin at an op or a block, "
                    "found inputs and constants alone",
                )

    def of_target(self, target: str) -> Composite:
        """Gives this composite under the name that it has for a target which lists it: "conv"
        becomes "npu.conv" for npu.
        """
        if "." in self.name:
            return self
        found = self._of_target.get(target)
        # By `setdefault` it is one object, whatever threads ask for it at once.
        return found or self._of_target.setdefault(target, self.renamed(f"{target}.{self.name}"))

    def renamed(self, name: str) -> Composite:
        """Gives a composite with the same patterns and rules, those added later included, under
        another name.
        """
        made = Composite(name, self.patterns, glue=self.glue, zero_points=self.zero_points)
        made.rules = self.rules
        return made

    @overload
    def rule(self, check: Check, /) -> Check: ...
    @overload
    def rule(
        self,
        /,
        *,
        fix: Fix = "",
        vary: str = "",
        holds: Iterable[Any] = (),
        fails: Iterable[Any] = (),
    ) -> Callable[[Check], Check]: ...
    def rule(
        self,
        check: Check | None = None,
        /,
        *,
        fix: Fix = "",
        vary: str = "",
        holds: Iterable[Any] = (),
        fails: Iterable[Any] = (),
    ) -> Any:
        """Decorates a rule of the composite, `check(match) -> (holds, seen)`: its docstring is the
        sentence that users read. `fix` says what a user can do where it fails: a sentence, or a
        function of the match.

        `vary` tells generators of tests (`byocir.testing.matching`, `near_miss`) what the rule
        looks at, a size (`"w.shape[1]"`) or an attribute (`"conv.group"`), with values for which it
        holds and for which it fails: `vary="w.shape[1]", holds=(8, 16), fails=(4, 12)`. They find
        most without. Raises ByocirError B201 without a docstring, B209 for another `vary`.
        """
        labels = {pattern.label for pattern in self.walk()} - {None}
        hint = Vary.parse(vary, holds, fails, cast("set[str]", labels)) if vary else None

        def add(check: Check) -> Check:
            self.rules.append(Rule(check, sentence_of(check, self.name), fix, hint))
            return check

        return add if check is None else add(check)

    @cached_property
    def level(self) -> str:
        """Gives the level that the pattern is for: "tensor" if it has blocks, copies or other ops
        of that level, else "graph".
        """
        names = (name for pattern in self.walk() for name in pattern.root_names())
        tensor = any(name.startswith("tir.") for name in names)
        return "tensor" if tensor else "graph"

    @cached_property
    def root_names(self) -> frozenset[str]:
        """Lists the names of the ops at which the pattern can begin."""
        return frozenset[str]().union(*(pattern.root_names() for pattern in self.patterns))

    @cached_property
    def size(self) -> int:
        """Counts the ops of the longest alternative."""
        return max(len(pattern.parts) for pattern in self.patterns)

    def walk(self) -> Iterator[Pattern]:
        """Gives all pattern objects, each once, roots first."""
        seen: set[int] = set()
        pending = list(self.patterns)
        while pending:
            pattern = pending.pop(0)
            if id(pattern) in seen:
                continue
            seen.add(id(pattern))
            yield pattern
            pending.extend(pattern.children())

    def matched_in(self, composite: CompositeOp) -> Match | None:
        """Matches the pattern once more, against the body of a composite that it made, so that code
        generators can read sizes, strides and the iterators of each name. Gives None where the body
        was rewritten into something that the pattern does not match. A pattern's inputs may have
        become constants in the body, and its constants inputs, whose numbers are not known here.
        """
        body = [op for op in composite.body.block.ops if not isinstance(op, YieldOp)]
        work = {op for op in body if not is_constant(op)}
        passed = [composite.body.block.args[i] for i in composite.passed]
        for root in reversed(body):
            for state in self.states(root, Progress(), passed):
                if {*state.ops, *state.constants} >= work:
                    return Match(state, root)
        return None

    def attempt(
        self,
        root: Operation,
        blocked: Blocked = lambda state: "",
        alike: Alike | None = None,
    ) -> Attempt:
        """Tries every alternative at this op, in order, and evaluates all rules where the structure
        fits. Gives the first alternative that fits with its rules, else the first whose structure
        fits, else how far the others came. `blocked` says why a match cannot be taken for reasons
        outside the pattern; attempts on a module that does not change may share `alike`. Raises
        ByocirError B202 for a rule or a test that fails, B206 for a block's body that does.
        """
        try:
            with _nested(self.name):
                return self._attempt(root, blocked, alike or Alike())
        except ByocirError as error:
            if error.code not in ("B202", "B206"):
                raise
            told = f"pattern {self.name}: {error.message}"
            raise ByocirError(error.code, told, where=error.where, help=error.help) from error

    def outlined(self, op: Operation, alike: Alike) -> tuple[object, int] | None:
        """Gives the key under which findings of this composite hold for all blocks with the same
        outline as an op. None for other ops, and where its patterns tell offsets apart that an
        outline leaves out.
        """
        if self._tells_offsets or not isinstance(op, tir.BlockOp):
            return None
        return self, alike.outline(op)

    @cached_property
    def _tells_offsets(self) -> bool:
        return any(isinstance(p, BlockPattern) and p.tells_offsets for p in self.walk())

    def _attempt(self, root: Operation, blocked: Blocked, alike: Alike) -> Attempt:
        outlined = self.outlined(root, alike)
        known = alike.declined.get(outlined) if outlined else None
        if known is not None:
            reached = (root,) if known.shaped else ()
            return Attempt.missed(self, root, reached, known.text_for(root), known.gap, known.near)
        progress, best = Progress(alike=alike), None
        for state in self.states(root, progress):
            match = Match(state, root)
            results = tuple(rule.evaluate(match) for rule in self.rules)
            reason = self.illegality(state, root) or blocked(state)
            if not reason and not all(result.holds for result in results):
                failed = sum(not result.holds for result in results)
                reason = f"{failed} of {len(results)} rules fail"
            attempt = Attempt(self, root, match, state.ops, self.size, reason, results)
            if attempt.fits:
                return attempt
            best = best or attempt
        if outlined and progress.by_outline and best is None:
            alike.declined[outlined] = progress.misfit()
        return best or Attempt.missed(
            self, root, progress.matched, progress.reason, progress.gap, progress.near
        )

    def illegality(self, state: State, root: Operation) -> str:
        """Says why a match must not be taken, whatever its rules say; empty when it may."""
        return illegality(state, root)

    def states(
        self, root: Operation, progress: Progress, passed: Iterable[SSAValue] = ()
    ) -> Iterator[State]:
        """Gives the ways in which the patterns fit at this op, without asking the rules; `passed`
        are values that stand for constants.
        """
        value = next(iter(produced(root)), None)
        if value is None:
            progress.miss(State(root.parent), f"expected an op with a result, found {root.name}")
            return
        for pattern in self.patterns:
            start = State(root.parent, passed=frozenset(passed))
            for found in pattern.match(value, Producer(root), start, progress):
                # A wildcard that is chosen matches no op, so the root may be none of the match.
                if root in found.ops:
                    yield found


@contextmanager
def _nested(name: str) -> Generator[None]:
    """Raises ByocirError B200, inside of a `with`, for a pattern so deep that walking it by
    recursion fails.
    """
    try:
        yield
    except RecursionError as error:
        raise ByocirError(
            "B200",
            f"expected the pattern of composite {name} to nest less deep than Python calls may",
            help="a chain that long is better taken step by step: regions join neighbours",
        ) from error


def composite(
    name: str, *, glue: bool = False, zero_points: bool = False
) -> Callable[[Callable[[], Any]], Composite]:
    """Decorates a function that gives a pattern, or a tuple of alternatives: makes a composite of
    it. `glue` and `zero_points` are as in `Composite`.
    """

    def build(function: Callable[[], Any]) -> Composite:
        patterns = _made(name, function)
        try:
            return Composite(name, patterns, glue=glue, zero_points=zero_points)
        except ByocirError as error:
            where = place_of(function)
            raise ByocirError(error.code, error.message, where=where, help=error.help) from error

    return build


def _made(name: str, function: Callable[[], Any]) -> tuple[Pattern, ...]:
    """Gives the alternatives that a function gives; raises ByocirError B207 for what is no
    pattern."""
    try:
        made = function()
    except ByocirError as error:
        where = error.where or place_of(function, error.__cause__ or error)
        told = f"pattern {name}: {error.message}"
        raise ByocirError(error.code, told, where=where, help=error.help) from error
    except FAILURES as error:
        raise failed("B207", f"pattern {name}", function, error) from error
    alternatives = cast("tuple[Any, ...]", made if isinstance(made, tuple) else (made,))
    for each in alternatives or (None,):
        if not isinstance(each, Pattern):
            raise ByocirError(
                "B207",
                f"expected the function of {name} to return a pattern or several, found "
                f"{type(each).__name__}",
                where=place_of(function),
            )
    return alternatives


def supports(
    op_name: str, *, name: str | None = None, fix: Fix = ""
) -> Callable[[Check], Composite]:
    """Decorates a checker of one op: turns it into a composite with that one rule, e.g.
    `@supports("graph.relu")`. The op is `m["op"]`. Without a `name` the composite is called as the
    function, after the target that lists it. `fix` is as in `Composite.rule`."""

    check_op(op_name)

    def build(checker: Check) -> Composite:
        made = Composite(name or checker.__name__, (AnyOperandsPattern(op_name) @ "op",))
        made.rule(fix=fix)(checker)
        return made

    return build


@dataclass(frozen=True)
class Attempt:
    """Records the outcome of trying one composite at one op: a match that its rules accept, or how
    far it came and why not further.
    """

    composite: Composite
    root: Operation
    match: Match | None
    matched: tuple[Operation, ...]
    total: int
    reason: str
    rules: tuple[RuleResult, ...] = ()
    near: int = 0
    """A measure of what fitted of the root where no op matched."""
    gap: Gap = Gap.NONE

    @staticmethod
    def missed(
        composite: Composite,
        root: Operation,
        matched: tuple[Operation, ...],
        reason: str,
        gap: Gap,
        near: int = 0,
    ) -> Attempt:
        """Records that no alternative matched."""
        return Attempt(composite, root, None, matched, composite.size, reason, (), near, gap)

    @property
    def fits(self) -> bool:
        """Tells if all ops matched, all rules hold and the match may become a composite."""
        return self.match is not None and not self.reason

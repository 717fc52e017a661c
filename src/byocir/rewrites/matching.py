"""Defines rewrites by the pattern language: patterns as targets use them, with what replaces a
match.

```python
@rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"))
def drop_second_relu(inner):
    \"\"\"A relu behind a relu does nothing.\"\"\"
    return inner
```

The function names what it wants: whatever the pattern binds (`Bound`, or the number of an unknown),
`m`, the whole match, and `new`, the ops it may add; what a pattern may leave out has a default. It
gives what replaces the root's results, or None to leave the match alone. `where` adds a rule with a
sentence, as composites have them. Graph ops and blocks of the tensor level are rewritten alike. The
driver does the rest: locations, dead ops, an end to rewrites that never end. Inner ops that others
use stay, so a value used outside is no obstacle, unless the rewrite says `one_use`.

| code | what is wrong |
| --- | --- |
| B292 | a rewrite that fails, or gives something else than values of the types it replaces |
| B293 | a rewrite, or a rule of one, asks for a name that its pattern does not bind |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, cast, overload

from xdsl.ir import Operation, SSAValue

from byocir.errors import FAILURES, ByocirError
from byocir.patterns import Attempt, Bound, Composite, Match, Pattern
from byocir.patterns.match import Progress, State
from byocir.patterns.prefilter import may_fit, ways_to_feed
from byocir.patterns.rules import Fix
from byocir.rewrites.driver import NewOps
from byocir.rewrites.driver import Pattern as RewritePattern
from byocir.vendor.places import place_of

Replace = Callable[..., Any]
"""Gives what replaces the root's results: a value or what is bound to one, several, or None."""


class Rewritten(Composite):
    """Holds the composite of a rewrite. Its match need not become one node, so inner values may be
    used outside, unless the rewrite says `one_use`.
    """

    def __init__(self, name: str, pattern: Pattern, one_use: bool) -> None:
        super().__init__(name, (pattern,), zero_points=True)
        self.one_use = one_use

    def illegality(self, state: State, root: Operation) -> str:
        return super().illegality(state, root) if self.one_use else ""

    def matches(self, root: Operation) -> Iterator[Match]:
        """Yields the matches at an op that all rules accept; a match is given up at the first rule
        that fails.
        """
        for state in self.states(root, Progress()):
            match = Match(state, root)
            if not self.illegality(state, root) and self._allows(match):
                yield match

    def _allows(self, match: Match) -> bool:
        return all(rule.holds(match) for rule in self.rules)


class MatchedRewrite(RewritePattern):
    """Rewrites what a pattern matches, in the first way that `replace` accepts."""

    def __init__(self, pattern: Pattern, replace: Replace, one_use: bool = False) -> None:
        self.replace = replace
        self.composite = Rewritten(replace.__name__, pattern, one_use)
        self._call = by_name(replace)
        self._ways = ways_to_feed(pattern)
        self.__doc__ = replace.__doc__

    @property
    def name(self) -> str:
        return self.replace.__name__

    @property
    def root_names(self) -> frozenset[str]:
        return frozenset(self._ways)

    @overload
    def where(self, check: Replace, /) -> Replace: ...
    @overload
    def where(
        self,
        /,
        *,
        fix: Fix = "",
        vary: str = "",
        holds: Iterable[Any] = (),
        fails: Iterable[Any] = (),
    ) -> Callable[[Replace], Replace]: ...
    def where(self, check: Replace | None = None, /, **hints: Any) -> Any:
        """Decorates a rule that a match must meet. The rule asks for names as the rewrite does, and
        gives whether it holds and what was seen; its docstring is the rule users read. `fix`,
        `vary`, `holds` and `fails` are as in `Composite.rule`.
        """

        def add(check: Replace) -> Replace:
            self.composite.rule(**hints)(by_name(check))
            return check

        return add if check is None else add(check)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        if not op.results or not self.may_take(op):
            return None
        for match in self.composite.matches(op):
            made = self._made(match, new)
            if made is not None:
                return made
        return None

    def may_take(self, op: Operation) -> bool:
        """Tells, at a quick look, whether an op, and what feeds it, are of kinds that the pattern
        has.
        """
        return may_fit(op, self._ways)

    def attempt(self, op: Operation) -> Attempt:
        """Tries the pattern and its rules on an op, and says why they decline; `replace` is not
        called."""
        return self.composite.attempt(op)

    def _made(self, match: Match, new: NewOps) -> Sequence[SSAValue] | None:
        home: str | None = self.replace.__module__  # None for what exec defined
        own = (home or "").split(".")[0] == "byocir"
        try:
            made = self._call(match, new)
        except ByocirError:
            raise
        except FAILURES as error:
            if own:
                raise
            raise self._mistake(f"failed with {type(error).__name__}: {error}", error) from error
        return None if made is None else self._checked(made, match.root)

    def _checked(self, made: Any, root: Operation) -> list[SSAValue]:
        """Checks that the new values have the types of those that they replace; raises ByocirError
        B292.
        """
        several = isinstance(made, (list, tuple))
        given = list(cast("Sequence[Any]", made)) if several else [made]
        values: list[Any] = []
        for each in given:
            values += each.results if isinstance(each, Operation) else [_value(each)]
        found = [getattr(value, "type", value) for value in values]
        expected = [result.type for result in root.results]
        if found != expected:
            wanted, seen = (", ".join(map(str, types)) or "nothing" for types in (expected, found))
            raise self._mistake(f"gave {seen} in place of {wanted}")
        return values

    def _mistake(self, told: str, error: BaseException | None = None) -> ByocirError:
        return ByocirError(
            "B292",
            f"rewrite {self.name} {told}",
            where=place_of(self.replace, error),
            help="a rewrite gives a value of the same type for each result of its root, or None",
        )


def _value(given: Any) -> Any:
    return given.value if isinstance(given, Bound) else given


def by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes of a function one that takes a match, and the ops that may be added: each parameter
    gets what the pattern binds to its name, the match itself (`m`) or the new ops (`new`). Calling
    it raises ByocirError B293 for a name that is not bound and has no default.
    """
    parameters = list(signature(function).parameters.values())

    @wraps(function)
    def call(match: Match, new: NewOps | None = None) -> Any:
        known = {"m": match, "new": new}
        given: dict[str, Any] = {}
        for parameter in parameters:
            name = parameter.name
            if name in match:
                given[name] = match[name]
            elif name in known:
                given[name] = known[name]
            elif parameter.default is Parameter.empty:
                raise _unbound(function, name, match)
        return function(**given)

    return call


def _unbound(function: Callable[..., Any], name: str, match: Match) -> ByocirError:
    bound = ", ".join(match) or "none"
    return ByocirError(
        "B293",
        f"expected {function.__name__} to ask for names that its pattern binds, found '{name}'",
        where=place_of(function),
        help=f"bound here: {bound}; besides there are m, the match, and new, the ops to add; what "
        "the pattern may leave out needs a default",
    )


def rewrites(pattern: Pattern, *, one_use: bool = False) -> Callable[[Replace], MatchedRewrite]:
    """Decorates a function that rewrites what a pattern of graph ops, or of blocks in value form,
    matches. With `one_use` only where nothing outside the match uses its inner values, so that all
    of it goes. Raises ByocirError B200 for a pattern whose root is no op."""
    return lambda replace: MatchedRewrite(pattern, replace, one_use)

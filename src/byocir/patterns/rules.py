"""Defines rules, which decide when a target may take what its pattern matched.

A rule is a function of the match with a docstring; the docstring is the sentence that users read.
All rules of a match are evaluated; what failed is data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from byocir.dialects.decisions import RuleResult
from byocir.errors import FAILURES, ByocirError, did_you_mean
from byocir.patterns.match import Match
from byocir.vendor.places import failed, place_of

Check = Callable[[Match], tuple[bool, Any]]
"""Gives whether it holds and what was seen."""
Fix = str | Callable[[Match], str]
"""Tells a user what to do where a rule fails: a sentence, or a function of the match that gives
it."""


@dataclass(frozen=True)
class Vary:
    """Gives a hint for generators of tests: it names a size (`w.shape[1]`) or an attribute
    (`conv.group`), and gives the numbers with which the rule holds and those with which it fails.
    """

    name: str
    axis: int | None
    attribute: str
    holds: tuple[Any, ...]
    fails: tuple[Any, ...]

    @staticmethod
    def parse(text: str, holds: Iterable[Any], fails: Iterable[Any], known: Iterable[str]) -> Vary:
        """Parses the text of a hint. Raises ByocirError B209 for other text, or a name that the
        pattern does not bind.
        """
        found = _VARY.fullmatch(text.strip())
        if found is None:
            raise ByocirError(
                "B209",
                f"expected what a rule looks at as w.shape[1] or conv.group, found '{text}'",
            )
        if found["name"] not in known:
            raise ByocirError(
                "B209",
                f"expected a name that the pattern binds, found '{found['name']}'",
                help=did_you_mean(found["name"], sorted(known)),
            )
        axis = None if found["axis"] is None else int(found["axis"])
        given = [tuple(map(_hashable, values)) for values in (holds, fails)]
        return Vary(found["name"], axis, found["attribute"] or "", *given)


def _hashable(value: Any) -> Any:
    """Makes a list of numbers, such as a kernel's shape, a tuple."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


_VARY = re.compile(r"(?P<name>\w+)\.(?:shape\[(?P<axis>-?\d+)\]|(?P<attribute>\w+))")


@dataclass(frozen=True)
class Rule:
    """Holds a rule with its sentence and, if it has one, its advice on what to do where it
    fails."""

    check: Check
    sentence: str
    fix: Fix = ""
    vary: Vary | None = None

    @property
    def name(self) -> str:
        return self.check.__name__

    def evaluate(self, match: Match) -> RuleResult:
        """Runs the rule. An error of its code is reported as the rule's mistake (B202), except for
        a user's error, such as weights that were not given.
        """
        with self._blamed(match):
            holds, seen = self.check(match)
            fix = "" if holds else self._fix(match)
            return RuleResult(self.sentence, bool(holds), str(seen), fix)

    def holds(self, match: Match) -> bool:
        """Tells if the rule holds, without a text of what was seen; errors as `evaluate`."""
        with self._blamed(match):
            holds, _ = self.check(match)
            return bool(holds)

    @contextmanager
    def _blamed(self, match: Match) -> Generator[None]:
        try:
            yield
        except ByocirError:
            raise
        except FAILURES as error:
            bound = ", ".join(match) or "none"
            help = f"a rule gives (holds, seen); names bound here: {bound}; test optional ones with"
            help += ' `"b" in m`'
            raise failed("B202", f"rule {self.name}", self.check, error, help) from error

    def _fix(self, match: Match) -> str:
        return self.fix if isinstance(self.fix, str) else self.fix(match)


def sentence_of(check: Callable[..., Any], composite: str) -> str:
    """Gives the docstring as one sentence; raises ByocirError B201 when there is none."""
    sentence = " ".join((check.__doc__ or "").split()).rstrip(".")
    if not sentence:
        raise ByocirError(
            "B201",
            f"rule {check.__name__} of {composite} has no docstring",
            where=place_of(check),
            help="write the rule as one sentence: it is what users read",
        )
    return sentence

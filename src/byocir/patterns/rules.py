"""Rules: when a target may take what its pattern matched.

A rule is a function of the match with a docstring; the docstring is the sentence that users read.
All rules of a match are evaluated; what failed is data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from byocir.errors import ByocirError
from byocir.patterns.match import Match, RuleResult
from byocir.patterns.mistakes import place_of

Check = Callable[[Match], tuple[bool, Any]]
"""Gives whether it holds and what was seen."""
Fix = str | Callable[[Match], str]
"""What a user can do where a rule fails: a sentence, or a function of the match that gives it."""


@dataclass(frozen=True)
class Rule:
    """A rule with its sentence and, where it knows one, its fix."""

    check: Check
    sentence: str
    fix: Fix = ""

    @property
    def name(self) -> str:
        return self.check.__name__

    def evaluate(self, match: Match) -> RuleResult:
        """Runs the rule. What it raises is the rule's mistake and is told as such (B202), except
        for a user's error, such as weights that were not given."""
        try:
            holds, seen = self.check(match)
            fix = "" if holds else self._fix(match)
        except ByocirError:
            raise
        except Exception as error:
            bound = ", ".join(match) or "none"
            raise ByocirError(
                "B202",
                f"rule {self.name} failed with {type(error).__name__}: {error}",
                where=place_of(self.check, error),
                help=f"a rule gives (holds, seen); names bound here: {bound}; test optional ones "
                'with `"b" in m`',
            ) from error
        return RuleResult(self.name, self.sentence, bool(holds), str(seen), fix)

    def _fix(self, match: Match) -> str:
        return self.fix if isinstance(self.fix, str) else self.fix(match)


def sentence_of(check: Check, composite: str) -> str:
    """The docstring as one sentence; raises ByocirError B201 when there is none."""
    sentence = " ".join((check.__doc__ or "").split()).rstrip(".")
    if not sentence:
        raise ByocirError(
            "B201",
            f"rule {check.__name__} of {composite} has no docstring",
            where=place_of(check),
            help="write the rule as one sentence: it is what users read",
        )
    return sentence

"""Keeps the outcome of a session: what was reached, what was wrong, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import Any

from byocir.testing.conformance.cases import Case
from byocir.testing.conformance.trial import Problem

SHOWN = 8
"""The number of things for which there was no time that a text lists."""


@dataclass(frozen=True)
class Failure:
    """Describes a problem with a program that shows it: `pattern` names the patterns that were
    taken in it, `kind` is a "match", a "near miss" or a "net", `target` is the target with its
    options.
    """

    pattern: str
    kind: str
    target: str
    problem: Problem
    case: Case | None
    file: Path | None = None
    """The program, with its inputs beside it."""
    again: Sequence[str] = ()
    """Further words of the command that shows the problem again."""

    def __str__(self) -> str:
        lines = [
            f"{self.problem}",
            f"  at    {self.pattern}, in a {self.kind}, target {self.target}",
        ]
        if self.file is not None:
            lines += [f"  case  {self.file}", f"  again {self.command}"]
        return "\n".join(lines)

    @property
    def command(self) -> str:
        """Gives the command that shows the problem again, where its program is in a file."""
        return f"byocir conform {join([self.target, '--case', str(self.file), *self.again])}"


@dataclass
class Score:
    """Counts the patterns that were taken and the rules that refused a program, of all that there
    are.
    """

    target: str
    patterns: Sequence[str] = ()
    rules: Sequence[tuple[str, str]] = ()
    """Pattern and sentence of each."""
    taken: Counter[str] = field(default_factory=Counter[str])
    refused: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    tried: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The times that programs were looked for: by pattern and "", or a rule's sentence."""
    found: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The programs that were found then."""
    declined: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """The reasons, by pattern, for which programs made for it were not taken."""
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The ops, by pattern, of which nothing tells how to make one."""
    cases: int = 0
    wrong: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])

    def note(self, pattern: str, rule: str, *, is_found: bool) -> None:
        """Counts a search for a program that a pattern takes or, with a rule's sentence, for one
        that this rule refuses.
        """
        self.tried[pattern, rule] += 1
        self.found[pattern, rule] += is_found

    @property
    def never(self) -> list[str]:
        """Lists what was never reached: patterns that took nothing, rules that refused nothing."""
        return [*self.hindrances]

    @property
    def hindrances(self) -> dict[str, str]:
        """Says, for each pattern and rule that was never reached, what prevented it; empty text
        where its turn did not come.
        """
        places = [(name, "") for name in self.patterns if not self.taken[name]]
        places += [place for place in self.rules if place not in self.refused]
        return {": ".join(filter(None, place)): self._hindrance(*place) for place in places}

    def _hindrance(self, pattern: str, rule: str) -> str:
        tried, found = self.tried[pattern, rule], self.found[pattern, rule]
        if not tried:
            return ""
        if found:
            mostly = self.declined.get(pattern, Counter[str]()).most_common(1) if not rule else ()
            why = f"; for example: {mostly[0][0]}" if mostly else ""
            return f"of {_counted(found, 'program')} made for it none was handed over as such{why}"
        wanted = "that it alone refuses" if rule else "that it takes"
        unknown = ", ".join(self.unknown.get(pattern, ()))
        fix = f"; show an example of {unknown} in the docstring of its class" if unknown else ""
        return f"no program {wanted} was found in {_counted(tried, 'search', 'es')}{fix}"

    def text(self) -> str:
        """Writes everything: failures, what was never reached, and the sentence of the score."""
        hindrances = self.hindrances.items()
        told = [f"never reached: {each} ({why})" for each, why in hindrances if why]
        waiting = [each for each, why in hindrances if not why]
        told += [f"never reached, for lack of time: {each}" for each in waiting[:SHOWN]]
        if len(waiting) > SHOWN:
            told.append(f"never reached, for lack of time: {len(waiting) - SHOWN} more")
        return "\n".join([*map(str, self.failures), *told, str(self)])

    def __str__(self) -> str:
        """Writes the sentence of the score alone."""
        taken = sum(bool(self.taken[name]) for name in self.patterns)
        told = (
            f"patterns {taken}/{len(self.patterns)}, rules {len(self.refused)}/{len(self.rules)}, "
            f"{self.cases:,} cases, {self.wrong:,} wrong, {len(self.never)} never reached"
        )
        return f"{self.target}: {told}"

    def to_dict(self) -> dict[str, Any]:
        """Converts the score to plain data."""
        return {
            "target": self.target,
            "patterns": {name: self.taken[name] for name in self.patterns},
            "rules": [
                {"pattern": name, "rule": rule, "refused": (name, rule) in self.refused}
                for name, rule in self.rules
            ],
            "cases": self.cases,
            "wrong": self.wrong,
            "never": [{"what": each, "why": why} for each, why in self.hindrances.items()],
            "failures": [
                {
                    "code": each.problem.code,
                    "problem": each.problem.text,
                    "pattern": each.pattern,
                    "kind": each.kind,
                    "target": each.target,
                    "file": None if each.file is None else str(each.file),
                }
                for each in self.failures
            ],
        }


def _counted(number: int, what: str, plural: str = "s") -> str:
    return f"{number:,} {what}{plural if number != 1 else ''}"

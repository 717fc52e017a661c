"""The outcome of a session: what was reached, what was wrong, and what was left out."""

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
"""The number of things never reached that a text lists."""


@dataclass(frozen=True)
class Failure:
    """A problem with a program that shows it: `pattern` names those that were taken in it, `kind`
    is a "match", a "near miss" or a "net", `target` what was given as such, with its options."""

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
        """The command that shows the problem once more, where its program is in a file."""
        return f"byocir conform {join([self.target, '--case', str(self.file), *self.again])}"


@dataclass
class Score:
    """Patterns that were taken and rules that refused a program, of those that there are."""

    target: str
    patterns: Sequence[str] = ()
    rules: Sequence[tuple[str, str]] = ()
    """Pattern and sentence of each."""
    taken: Counter[str] = field(default_factory=Counter[str])
    refused: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    cases: int = 0
    wrong: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])

    @property
    def never(self) -> list[str]:
        """Lists what was never reached: patterns that took nothing, rules that refused nothing."""
        patterns = [name for name in self.patterns if not self.taken[name]]
        rules = [f"{name}: {rule}" for name, rule in self.rules if (name, rule) not in self.refused]
        return [*patterns, *rules]

    def text(self) -> str:
        """Everything that is to be told: failures, what was never reached, the sentence."""
        never = [f"never reached: {each}" for each in self.never[:SHOWN]]
        if len(self.never) > SHOWN:
            never.append(f"never reached: {len(self.never) - SHOWN} more")
        return "\n".join([*map(str, self.failures), *never, str(self)])

    def __str__(self) -> str:
        """The sentence of the score alone."""
        taken = sum(bool(self.taken[name]) for name in self.patterns)
        told = (
            f"patterns {taken}/{len(self.patterns)}, rules {len(self.refused)}/{len(self.rules)}, "
            f"{self.cases:,} cases, {self.wrong:,} wrong, {len(self.never)} never reached"
        )
        return f"{self.target}: {told}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "target": self.target,
            "patterns": {name: self.taken[name] for name in self.patterns},
            "rules": [
                {"pattern": name, "rule": rule, "refused": (name, rule) in self.refused}
                for name, rule in self.rules
            ],
            "cases": self.cases,
            "wrong": self.wrong,
            "never": self.never,
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

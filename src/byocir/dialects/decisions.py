"""Records, as plain data, the nodes of a model and what was decided about them: the rules that were
evaluated, the patterns that were tried, what a target took, and what keeps its regions apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

HOST = "host"
"""The name of the host where targets are named."""
FOLDED = "folded"
"""The name there for nodes of which nothing is left at run time."""


class Gap(StrEnum):
    """Says what keeps a pattern from matching as a whole, from the least to the most."""

    NONE = "none"
    """It matches, though its target may not take the match."""
    DIMENSIONS = "dimensions"
    """A block only has more dimensions than the pattern's."""
    PART = "part"
    """A part of the pattern differs."""
    KIND = "kind"
    """Pattern and block have nothing in common but that both are blocks: they read other numbers of
    arrays, or only one of them copies, or sums up."""
    UNTOLD = "untold"
    """An older version made the record, which did not tell."""


class Node(NamedTuple):
    """Describes a node of the original model; `macs` counts multiply-accumulates per inference. A
    node that only quantises or dequantises names the op that it `belongs_to`, if there is one.
    """

    name: str
    op_type: str
    macs: int
    belongs_to: str = ""


@dataclass(frozen=True)
class RuleResult:
    """Records a rule as it was evaluated: its sentence (the docstring), whether it held, what was
    seen, and what a user can do about it, if the rule knows."""

    sentence: str
    holds: bool
    seen: str
    fix: str = ""


@dataclass(frozen=True)
class Decision:
    """Records the outcome of one pattern at one place, the ops of `nodes`; `reason` says where it
    stopped, and may have further lines that tell more. `matched` counts the ops that it reached,
    the last of which may fit by its kind alone. `gap` is what kept the pattern from matching.
    """

    target: str
    level: str
    pattern: str
    taken: bool
    nodes: list[str]
    matched: int
    total: int
    reason: str
    rules: list[RuleResult]
    gap: Gap = Gap.UNTOLD

    @property
    def is_match(self) -> bool:
        """Tells if the pattern matched as a whole, though the target may not have taken it. Records
        of older versions do not say so, but rules are evaluated for such matches only."""
        return self.gap == Gap.NONE or (self.gap == Gap.UNTOLD and bool(self.taken or self.rules))

    @property
    def shown(self) -> str:
        """Words, in one line, the pattern, how much of it matched and why the rest did not."""
        return self._with(self.in_short)

    @property
    def in_lines(self) -> list[str]:
        """Words the same on as many lines as the reason has."""
        first, *further = self.reason.split("\n")
        return [self._with(first), *further]

    @property
    def in_short(self) -> str:
        """Gives the reason in one line: of what it has behind its first line, such as what each
        instruction says, the first, and how many more there are.
        """
        first, *further = self.reason.split("\n")
        more = f" (and {len(further) - 1} more)" if self.is_shortened else ""
        return "; ".join([first, *further[:1]]) + more

    @property
    def is_shortened(self) -> bool:
        """Tells if the reason has lines that are left out in short."""
        return self.reason.count("\n") > 1

    def _with(self, reason: str) -> str:
        matched = f"{min(self.matched, self.total - (not self.is_match))}/{self.total} ops matched"
        return f"{self.level:<6} {self.pattern:<18} {matched}, {reason}"

    @property
    def failed(self) -> list[str]:
        """Lists the sentences of the rules that do not hold."""
        return [rule.sentence for rule in self.rules if not rule.holds]

    @property
    def shares_an_op(self) -> bool:
        """Tells if the pattern and the ops of the node have an op in common."""
        return self.gap != Gap.KIND or self.matched > 1

    @property
    def distance(self) -> tuple[object, ...]:
        """Gives a key by which decisions sort from the closest to being taken to the farthest. A
        pattern that matched as a whole comes first, whatever it was refused for; then those that
        matched more ops, of these those with a smaller part missing, then those with fewer failed
        rules, then those that lack no more than dimensions in front. A short pattern that matches
        no more than an activation is not close.
        """
        missing = 1 - self.matched / self.total if self.total else 1.0
        return (
            not self.is_match,
            -self.matched,
            missing,
            len(self.failed),
            self.gap != Gap.DIMENSIONS,
        )


@dataclass(frozen=True)
class Taken:
    """Records a matched pattern that a target took, and the script by which the target runs its
    blocks."""

    pattern: str
    level: str
    nodes: list[str]
    schedule: str = ""


@dataclass(frozen=True)
class Padded:
    """Records that a layer computes with more channels than the model's: the channels that it
    reads, those that it gives, and its multiply-accumulates per inference, each as the model has
    them and as they are with padding.
    """

    inputs: list[int]
    outputs: list[int]
    macs: list[int]


@dataclass(frozen=True)
class Cut:
    """Says why a region is apart from an earlier one of its target: a path leads from `leaves` in
    that one through nodes outside both (`first` … `last`) to `enters` in this one. `by` is the
    first thing on it: an op of the host, or another target's region.
    """

    by: str
    leaves: list[str]
    first: list[str]
    last: list[str]
    enters: list[str]

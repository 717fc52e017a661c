"""Records, as plain data, the nodes of a model and what was decided about them: the rules that were
evaluated, the patterns that were tried, what a target took, and what keeps its regions apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

HOST = "host"
"""The name of the host where targets are named."""
FOLDED = "folded"
"""The name there for nodes of which nothing is left at run time."""
IN_FRONT = "with a group in front"
"""Words in a reason what a pattern lacks for a block that only has more dimensions."""


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
    the last of which may fit by its kind alone.
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

    @property
    def is_match(self) -> bool:
        """Tells if the pattern matched as a whole, though the target may not have taken it. What a
        pattern misses is told as what it expected.
        """
        found = self.matched > 0 and not self.reason.startswith("expected ")
        return self.taken or bool(self.rules) or found

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
    def shares_an_op(self) -> bool:
        """Tells if the pattern and the ops of the node have an op in common. For blocks that is not
        so if one only copies or sums up and the other does not: then all that fitted is that both
        are blocks.
        """
        if self.is_match or self.matched > 1 or self.level == "graph":
            return True
        if self.reason.startswith("expected a block "):
            return False
        body = self.reason.removeprefix("expected body ")
        expected, _, found = body.partition(", found ")
        copies = expected.isidentifier() or found.isidentifier()
        return body == self.reason or not (copies or ("acc" in expected) != ("acc" in found))

    @property
    def distance(self) -> tuple[object, ...]:
        """Gives a key by which decisions sort from the closest to being taken to the farthest. A
        pattern that matched as a whole comes first, whatever it was refused for; then those that
        matched more ops, of these those with a smaller part missing, then those with fewer failed
        rules, then those that lack no more than dimensions in front. A short pattern that matches
        no more than an activation is not close.
        """
        failed = sum(not rule.holds for rule in self.rules)
        missing = 1 - self.matched / self.total if self.total else 1.0
        return not self.is_match, -self.matched, missing, failed, IN_FRONT not in self.reason


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

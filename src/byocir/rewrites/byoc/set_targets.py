"""`set-targets`: names the targets of a module, in order of preference.

Requires: nothing. Guarantees: the module attribute `byoc.targets`, with every option of every
target written out, so that a saved module can be compiled again as it is, and `byoc.levels`: both
levels are still to be handed over.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass

from byocir.dialects.byoc import OBJECTIVE, TARGETS, TargetAttr
from byocir.patterns.targets import objective_of, parse_targets
from byocir.rewrites.byoc.levels import set_levels


@dataclass(frozen=True)
class SetTargetsPass(ModulePass):
    """Sets `byoc.targets`, e.g. `set-targets{targets="vta{rounding=half_even}"}`."""

    name = "set-targets"

    targets: str
    objective: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        set_targets(op, parse_targets(self.targets))
        set_objective(op, self.objective)


def set_targets(module: ModuleOp, targets: list[TargetAttr]) -> None:
    """Names the module's targets, in order of preference."""
    module.attributes[TARGETS] = ArrayAttr(targets)
    set_levels(module)


def set_objective(module: ModuleOp, objective: str) -> None:
    """Writes into a module what targets compete on: "latency", "energy", "bytes" or nothing. Raises
    ByocirError B246 for another objective.
    """
    if objective:
        module.attributes[OBJECTIVE] = StringAttr(objective)
        objective_of(module)

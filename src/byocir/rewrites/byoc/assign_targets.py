"""`assign-targets`: gives every composite to its target, as a region of its own.

Requires: composites made by `match-composites` and the module's `byoc.targets`. The part of a
composite's name before the dot is the target's name.
Guarantees: every composite stands alone in a `byoc.region` that names its target.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, CompositeOp, RegionOp, TargetAttr
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns.targets import targets_of
from byocir.rewrites.byoc.extract import enclose


@dataclass(frozen=True)
class AssignTargetsPass(ModulePass):
    """Wraps every composite in a region for its target."""

    name = "assign-targets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        targets = {target.target_name.data: target for target in targets_of(op)}
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                for block in function.body.blocks:
                    for inner in list(block.ops):
                        if isinstance(inner, CompositeOp):
                            _assign(inner, targets)


def _assign(composite: CompositeOp, targets: dict[str, TargetAttr]) -> Operation:
    name = composite.pattern.data.split(".")[0]
    if name not in targets:
        raise ByocirError(
            "B214",
            f"composite {composite.pattern.data} belongs to target '{name}', which the module "
            "does not name",
            help=did_you_mean(name, list(targets)),
        )

    def build(inputs: list[SSAValue], types: list[Attribute], body: Region) -> Operation:
        return RegionOp.of(targets[name], inputs, types, body, composite.location)

    return enclose([composite], build)

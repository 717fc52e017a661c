"""`assign-targets`: gives every composite to its target, as a region of its own.

Requires: composites made by `match-composites` and the module's `byoc.targets`. The part of a
composite's name before the dot is the target's name.
Guarantees: every composite stands alone in a `byoc.region` that names its target
and the composite's group.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Region, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import (
    CompositeOp,
    RegionOp,
    TargetAttr,
    YieldOp,
)
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.new_ops import new_block
from byocir.dialects.uses import replace_uses
from byocir.dialects.walk import ops_in
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns.targets import targets_of
from byocir.rewrites.byoc.host_blocks import host_blocks


@dataclass(frozen=True)
class AssignTargetsPass(ModulePass):
    """Wraps every composite in a region for its target."""

    name = "assign-targets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        targets = {target.target_name.data: target for target in targets_of(op)}
        ops = [inner for block in host_blocks(op) for inner in ops_in(block)]
        composites = [inner for inner in ops if type(inner) is CompositeOp]
        with gc_paused():
            for composite in composites:
                _assign(composite, targets)


def _assign(composite: CompositeOp, targets: dict[str, TargetAttr]) -> None:
    name = composite.pattern.data.split(".")[0]
    if name not in targets:
        raise ByocirError(
            "B214",
            f"composite {composite.pattern.data} belongs to target '{name}', which the module "
            "does not name",
            help=did_you_mean(name, list(targets)),
        )
    inputs = list(dict.fromkeys(composite.inputs))
    types = [result.type for result in composite.outputs]
    body = new_block(value.type for value in inputs)
    region = RegionOp.of(targets[name], inputs, types, Region(body), composite.location)
    region.group, composite.group = composite.group, None
    block = composite.parent
    assert block is not None
    block.insert_op_before(region, composite)
    inner: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=True))
    for result, outer in zip(composite.outputs, region.outputs, strict=True):
        outer.name_hint = result.name_hint
        replace_uses(result, outer)
    composite.detach()
    composite.operands = [inner[value] for value in composite.inputs]
    body.add_op(composite)
    body.add_op(YieldOp.create(operands=list(composite.outputs)))

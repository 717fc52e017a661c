"""`merge-regions`: joins neighbouring regions of one target.

Requires: regions as `assign-targets` makes them. Two regions merge if and only if no path between
them passes through a node outside both (see `byocir.rewrites.byoc.quotient`).
Guarantees: no further legal merge along an edge exists; inputs and outputs of a region are each
listed once; a region of nothing but glue composites is given back to the host.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, CompositeOp, RegionOp, TargetAttr, inline
from byocir.dialects.locations import fuse
from byocir.patterns.targets import composites_of
from byocir.patterns.trail import withdraw
from byocir.rewrites.byoc.extract import enclose
from byocir.rewrites.byoc.order import dependencies, place, topological
from byocir.rewrites.byoc.quotient import Quotient, merge_connected


@dataclass(frozen=True)
class MergeRegionsPass(ModulePass):
    """Joins neighbouring regions of one target where that keeps the program acyclic."""

    name = "merge-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                for block in function.body.blocks:
                    merge_regions(block)
                    _give_glue_back(block, op)


def merge_regions(block: Block) -> None:
    """Merges the regions of one block."""
    ops = list(block.ops)
    edges = [(j, i) for i, before in enumerate(dependencies(ops)) for j in before]
    targets = list(dict.fromkeys(op.target for op in ops if isinstance(op, RegionOp)))
    colours = [targets.index(op.target) if isinstance(op, RegionOp) else None for op in ops]
    quotient = merge_connected(len(ops), edges, colours)
    if len(quotient.groups) == len(ops):
        return
    place(block, [ops[i] for i in _order(quotient)])
    for members in quotient.groups:
        if len(members) > 1:
            _join([op for i in members if isinstance(op := ops[i], RegionOp)])


def _order(quotient: Quotient) -> list[int]:
    """All nodes, the members of a group next to each other, the block's last op still last."""
    groups = quotient.groups
    index = {quotient.group(members[0]): i for i, members in enumerate(groups)}
    needed = [{index[g] for g in quotient.before(quotient.group(m[0]))} for m in groups]
    needed[-1] = set(range(len(groups) - 1))
    return [node for i in topological(needed) for node in groups[i]]


def _join(regions: list[RegionOp]) -> RegionOp:
    """One region in place of several that stand next to each other."""
    location, target = fuse(*regions), regions[0].target
    composites: list[Operation] = []
    for region in regions:
        composites += [op for op in region.body.block.ops if isinstance(op, CompositeOp)]
    for region in regions:
        inline(region)

    def build(inputs: list[SSAValue], types: list[Attribute], body: Region) -> Operation:
        return RegionOp.of(target, inputs, types, body, location)

    made = enclose(composites, build)
    assert isinstance(made, RegionOp)
    return made


def _give_glue_back(block: Block, module: ModuleOp) -> None:
    """Undoes regions that do no work of their own."""
    for region in [op for op in block.ops if isinstance(op, RegionOp)]:
        glue = glue_patterns(region.target)
        composites = [op for op in region.body.block.ops if isinstance(op, CompositeOp)]
        if all(composite.pattern.data in glue for composite in composites):
            withdraw(module, composites, "nothing beside it that is worth a call")
            inline(region)
            for composite in composites:
                inline(composite)


def glue_patterns(target: TargetAttr) -> frozenset[str]:
    """Names of the target's composites that are worth taking only beside others."""
    return frozenset(c.name for c in composites_of(target) if c.glue)

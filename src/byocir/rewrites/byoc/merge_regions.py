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
from byocir.patterns.targets import find
from byocir.rewrites.byoc.extract import enclose, sort_block
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


def merge_regions(block: Block) -> None:
    """Merges the regions of one block."""
    ops = list(block.ops)
    position = {op: i for i, op in enumerate(ops)}
    edges = [
        (position[v.owner], i)
        for i, op in enumerate(ops)
        for inner in op.walk()
        for v in inner.operands
        if isinstance(v.owner, Operation) and v.owner in position and position[v.owner] != i
    ]
    targets = list(dict.fromkeys(op.target for op in ops if isinstance(op, RegionOp)))
    colours = [targets.index(op.target) if isinstance(op, RegionOp) else None for op in ops]
    quotient = merge_connected(len(ops), edges, colours)
    _reorder(block, ops, quotient)
    for members in quotient.members.values():
        regions = [op for i in members if isinstance(op := ops[i], RegionOp)]
        merged = _join(regions) if len(regions) > 1 else regions[0] if regions else None
        if merged is not None and _is_glue(merged):
            _give_back(merged)
    sort_block(block)


def _reorder(block: Block, ops: list[Operation], quotient: Quotient) -> None:
    """Puts the members of every group next to each other, groups in topological order."""
    waiting = {group: 0 for group in quotient.members}
    for group in quotient.members:
        for following in quotient.successors(group):
            waiting[following] += 1
    ready = sorted(group for group, count in waiting.items() if not count)
    order: list[Operation] = []
    while ready:
        group = ready.pop(0)
        order += [ops[i] for i in quotient.members[group]]
        for following in quotient.successors(group):
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
        ready.sort()
    terminator = ops[-1]
    for op in [*(op for op in order if op is not terminator), terminator]:
        op.detach()
        block.add_op(op)


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


def _is_glue(region: RegionOp) -> bool:
    glue = glue_patterns(region.target)
    composites = [op for op in region.body.block.ops if isinstance(op, CompositeOp)]
    return all(op.pattern.data in glue for op in composites)


def glue_patterns(target: TargetAttr) -> frozenset[str]:
    """Names of the target's composites that are worth taking only beside others."""
    return frozenset(c.name for c in find(target).patterns if c.glue)


def _give_back(region: RegionOp) -> None:
    composites = [op for op in region.body.block.ops if isinstance(op, CompositeOp)]
    inline(region)
    for composite in composites:
        inline(composite)

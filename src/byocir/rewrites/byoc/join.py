"""Joins several regions to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from byocir.dialects.byoc import CutAttr, RegionOp, YieldOp
from byocir.dialects.locations import fuse
from byocir.dialects.uses import erase, replace_uses


@dataclass
class Replaced:
    """Collects ops to erase, and the values that replace their results. All uses change at once: a
    call may have thousands of operands, and setting one copies them all.
    """

    gone: list[Operation] = field(default_factory=list[Operation])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def replace(self, value: SSAValue, by: SSAValue) -> None:
        """Notes that one value replaces another, and takes over its name."""
        by.name_hint = by.name_hint or value.name_hint
        self.values[value] = by

    def finish(self) -> None:
        """Changes all uses and erases the ops."""
        left = set(self.gone)
        users = dict.fromkeys(use.operation for value in self.values for use in value.uses)
        for user in users:
            if user not in left:
                user.operands = [self.values.get(value, value) for value in user.operands]
        for op in self.gone:
            op.operands = ()
        for op in self.gone:
            erase(op)


def join_regions(regions: Sequence[RegionOp], replaced: Replaced) -> RegionOp:
    """Joins regions of one target and group that stand next to each other, in order. Inputs and
    outputs of the new one are each listed once. Its outputs are the values that are used outside;
    if there are none, all results of the last region. The regions and their results are added to
    what is replaced.
    """
    inputs = list(dict.fromkeys(value for region in regions for value in region.inputs))
    own = {result for region in regions for result in region.outputs}
    inputs = [value for value in inputs if value not in own]
    body = Block(arg_types=[value.type for value in inputs])
    # Maps each input to the argument that stands for it inside.
    inner = dict[SSAValue, SSAValue](zip(inputs, body.args, strict=True))
    for region in regions:
        for arg, value in zip(region.body.block.args, region.inputs, strict=True):
            inner[value].name_hint = inner[value].name_hint or arg.name_hint
            replace_uses(arg, inner[value])
        _move(region, body, inner)
    members: set[Operation] = set(regions)
    results = [result for region in regions for result in region.outputs]
    outputs = [r for r in results if any(use.operation not in members for use in r.uses)]
    outputs = outputs or list(regions[-1].outputs)
    body.add_op(YieldOp.create(operands=[inner[result] for result in outputs]))
    types = [result.type for result in outputs]
    joined = RegionOp.of(regions[0].target, inputs, types, Region(body), fuse(*regions))
    joined.group, joined.cuts = regions[0].group, _cuts(regions)
    block = regions[-1].parent
    assert block is not None
    block.insert_op_after(joined, regions[-1])
    for result, made in zip(outputs, joined.outputs, strict=True):
        replaced.replace(result, made)
    replaced.gone += regions
    return joined


def _move(region: RegionOp, body: Block, inner: dict[SSAValue, SSAValue]) -> None:
    """Moves a region's composites, and notes the values that replace its results inside."""
    block = region.body.block
    terminator = block.last_op
    assert isinstance(terminator, YieldOp)
    inner.update(zip(region.outputs, terminator.values, strict=True))
    terminator.detach()
    terminator.erase()
    for op in list(block.ops):
        op.detach()
        body.add_op(op)


def _cuts(regions: Sequence[RegionOp]) -> ArrayAttr[CutAttr] | None:
    cuts = [cut for region in regions for cut in region.cuts or ()]
    return ArrayAttr(dict.fromkeys(cuts)) if cuts else None

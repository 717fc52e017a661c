"""One region in place of several."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from byocir.dialects.byoc import CutAttr, RegionOp, YieldOp
from byocir.dialects.locations import fuse


def join_regions(regions: Sequence[RegionOp]) -> RegionOp:
    """Joins regions of one target that stand next to each other, in order. Inputs and outputs of
    the new one are each listed once; an output is a value that is used outside, and everything of
    the last region if nothing is."""
    body = Block()
    inner: dict[SSAValue, SSAValue] = {}  # what stands for a value inside
    inputs: list[SSAValue] = []
    for region in regions:
        for arg, value in zip(region.body.block.args, region.inputs, strict=True):
            if value not in inner:
                inputs.append(value)
                inner[value] = body.insert_arg(value.type, len(body.args))
                inner[value].name_hint = arg.name_hint
            arg.replace_all_uses_with(inner[value])
        _move(region, body, inner)
    members: set[Operation] = set(regions)
    results = [result for region in regions for result in region.outputs]
    outputs = [r for r in results if any(use.operation not in members for use in r.uses)]
    outputs = outputs or list(regions[-1].outputs)
    body.add_op(YieldOp.create(operands=[inner[result] for result in outputs]))
    types = [result.type for result in outputs]
    joined = RegionOp.of(regions[0].target, inputs, types, Region(body), fuse(*regions))
    joined.cuts = _cuts(regions)
    block = regions[-1].parent
    assert block is not None
    block.insert_op_after(joined, regions[-1])
    for result, made in zip(outputs, joined.outputs, strict=True):
        made.name_hint = result.name_hint
        result.replace_all_uses_with(made)
    for region in reversed(regions):
        region.detach()
        region.erase()
    return joined


def _move(region: RegionOp, body: Block, inner: dict[SSAValue, SSAValue]) -> None:
    """Moves a region's composites, and notes what stands for its results inside."""
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

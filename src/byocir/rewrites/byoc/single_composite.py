"""Makes modules of single composites, to be compiled and judged."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from byocir.dialects.byoc import TARGET, CompositeOp, RegionOp, TargetAttr, YieldOp, composites_in
from byocir.dialects.context import load_context
from byocir.evaluate.module import MAIN
from byocir.rewrites.byoc.outline_regions import OutlineRegionsPass


def alone(composite: CompositeOp, schedule: str = "", around: int = 0) -> ModuleOp:
    """Makes a module whose @main calls a region of this composite, with a schedule if one is given,
    and of so many composites before and behind it. The composite is in a region's function, and
    stays there; the attributes of module and function are copied.
    """
    function = composite.parent_op()
    assert isinstance(function, FuncOp)
    module, target = function.parent_op(), function.attributes[TARGET]
    assert isinstance(module, ModuleOp)
    assert isinstance(target, TargetAttr)
    all_ = composites_in(function)
    at = all_.index(composite)
    region = _region(all_[max(at - around, 0) : at + around + 1], target)
    if schedule:
        copies = composites_in(region)
        copies[min(at, around)].schedule = StringAttr(schedule)
    types = [value.type for value in region.inputs], [result.type for result in region.outputs]
    main = FuncOp(MAIN, types)
    region.operands = main.body.block.args
    main.body.block.add_ops([region, ReturnOp(*region.outputs)])
    made = ModuleOp([main], dict(module.attributes))
    OutlineRegionsPass().apply(load_context(), made)
    for op in made.body.block.ops:
        if isinstance(op, FuncOp) and TARGET in op.attributes:
            op.attributes.update(function.attributes)
    return made


def _region(composites: Sequence[CompositeOp], target: TargetAttr) -> RegionOp:
    """Makes a region of copies of these composites, which gives all their results."""
    results = [result for each in composites for result in each.outputs]
    inputs = list(dict.fromkeys(value for each in composites for value in each.inputs))
    inputs = [value for value in inputs if value not in results]
    body = Block(arg_types=[value.type for value in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=True))
    for each in composites:
        copy = each.clone(values)
        copy.location = each.location
        body.add_op(copy)
    given = [values[result] for result in results]
    body.add_op(YieldOp.create(operands=given))
    types = [value.type for value in given]
    return RegionOp.of(target, inputs, types, Region(body), composites[-1].location)

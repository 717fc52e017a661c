"""`place-constants`: puts the constants that regions use where their target wants them.

Requires: regions as `merge-regions` leaves them. Guarantees, by the target's policy: with "bind" no
input of a region is a constant; with "transform" neither, and constants have what their target
stores for them, `byoc.stored`; with "argument" no constant is inside a composite; with "match"
nothing changes. Constants that nothing uses any more stay for `clean-up`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import ArrayAttr, constant_array
from byocir.dialects.byoc import STORED, CompositeOp, RegionOp, YieldOp, composites_in
from byocir.dialects.types import has_dtype
from byocir.dialects.uses import replace_uses
from byocir.dialects.walk import ops_of_class
from byocir.patterns.target_classes import TargetProtocol
from byocir.patterns.targets import find
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.vendor.hooks import ask, expect_given


@dataclass(frozen=True)
class PlaceConstantsPass(ModulePass):
    """Binds constants into regions, or makes them arguments, as each target wants it."""

    name = "place-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for region in ops_of_class(function, RegionOp):
                _place(region)


def _place(region: RegionOp) -> None:
    composites = composites_in(region)
    target = find(region.target)
    policy = target.constants
    if policy in ("bind", "transform"):
        _bind(region, composites)
    if policy == "transform":
        _transform(target, composites)
    if policy == "argument":
        _pass(region, composites)


def _transform(target: TargetProtocol, composites: Sequence[CompositeOp]) -> None:
    """Records what the target stores for each constant, unless it was recorded before. Raises
    ByocirError B228 where the target gives no array of numbers.
    """
    for composite in composites:
        for op in _constants_in(composite):
            array = constant_array(op.results[0])
            if STORED in op.attributes or array is None:
                continue
            uses = [use for use in op.results[0].uses if use.operation.name != YieldOp.name]
            made: Any = ask(target, "transform", composite.pattern.data, uses, array.values())
            if made is None:
                continue
            fits = _holds_numbers(made)
            expect_given(target, "transform", fits, "an array of numbers or None", made)
            op.attributes[STORED] = ArrayAttr.of(np.array(made))  # each op gets a copy of its own


def _holds_numbers(value: object) -> bool:
    return isinstance(value, np.ndarray) and has_dtype(cast(np.ndarray, value).dtype)


def _constants_in(composite: CompositeOp) -> list[Operation]:
    ops = composite.body.block.ops
    return [op for op in ops if op.results and constant_array(op.results[0]) is not None]


def _bind(region: RegionOp, composites: Sequence[CompositeOp]) -> None:
    """Copies constant inputs of a region into each composite that uses them."""
    outside = dict(zip(region.body.block.args, region.inputs, strict=True))
    bound: list[SSAValue] = []
    for arg, value in outside.items():
        if constant_array(value) is not None and isinstance(value.owner, Operation):
            for composite in composites:
                _bind_in(composite, arg, value.owner)
            if not arg.uses:  # an argument that is still used is a result of the region
                bound.append(arg)
    _drop_inputs(region, bound)


def _bind_in(composite: CompositeOp, value: SSAValue, constant: Operation) -> None:
    body = composite.body.block
    taken = [a for a, v in zip(body.args, composite.inputs, strict=True) if v is value]
    if not taken:
        return
    clone = constant.clone()
    clone.results[0].name_hint = constant.results[0].name_hint
    body.insert_op_before(clone, _first(body))
    for arg in taken:
        replace_uses(arg, clone.results[0])
    _drop_inputs(composite, taken)


def _pass(region: RegionOp, composites: Sequence[CompositeOp]) -> None:
    """Moves the constants of composites out of a region and passes them in. Regions are then
    compared by the code that is left.
    """
    arguments = dict[SSAValue, SSAValue](zip(region.inputs, region.body.block.args, strict=True))
    for composite in composites:
        for constant in _constants_in(composite):
            constant.detach()
            outer = _outside(region, constant)
            if outer not in arguments:
                arguments[outer] = _add_input(region, outer)
            replace_uses(constant.results[0], composite.pass_constant(arguments[outer]))
            constant.erase()


def _outside(region: RegionOp, constant: Operation) -> SSAValue:
    """Gives a value in front of the region with the numbers of a constant: one of its inputs, or a
    copy of the constant.
    """
    array = constant_array(constant.results[0])
    known = next((value for value in region.inputs if constant_array(value) == array), None)
    if known is not None:
        return known
    block, copy = region.parent, constant.clone()
    assert block is not None
    block.insert_op_before(copy, region)
    return copy.results[0]


def _add_input(op: RegionOp, value: SSAValue) -> SSAValue:
    op.operands = [*op.operands, value]
    return op.body.block.insert_arg(value.type, len(op.body.block.args))


def _drop_inputs(op: CompositeOp | RegionOp, args: Sequence[SSAValue]) -> None:
    kept = [(v, a) for v, a in zip(op.inputs, op.body.block.args, strict=True) if a not in args]
    dropped = [arg for arg in op.body.block.args if arg in args]
    op.operands = [value for value, _ in kept]
    for arg in dropped:
        op.body.block.erase_arg(arg)


def _first(block: Block) -> Operation:
    assert block.first_op is not None, "a composite ends in a yield"
    return block.first_op

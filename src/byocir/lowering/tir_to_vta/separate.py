"""vta-separate: parts composites that want one array in two layouts, so that they go to two calls.

Does: puts a copy on the host between a composite and another that reads its result in another
layout, or as weights: only the host lays arrays out anew. An array from the host that is read in
several layouts is copied for all but the first of them, and so is any that is read with several
numbers around it. No region can then hold both sides.

Requires: composites as `match-composites` makes them at either level, before regions are merged.
Guarantees: the same results; in a region of what remains every array has one role (`layout`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.graph import MatmulOp
from byocir.dialects.locations import named
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.tir.moves import axes, moved
from byocir.dialects.types import shape_of
from byocir.dialects.uses import set_operand
from byocir.dialects.vta import VTA
from byocir.lowering.tir_to_vta.borders_read import numbers_around
from byocir.lowering.tir_to_vta.layout import Data, Role, Roles, roles_of
from byocir.patterns.targets import machine_name, targets_of
from byocir.rewrites.byoc.host_blocks import blocks_in, host_functions

COPY = "a copy in another layout"
"""The location of copies: they come from no node of the model."""


@dataclass(frozen=True)
class VtaSeparatePass(ModulePass):
    """Puts copies between composites that read one array in different layouts."""

    name = "vta-separate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names = {t.target_name.data for t in targets_of(op) if machine_name(t) == VTA}
        for function in host_functions(op):
            for block in blocks_in(function):
                _Separator(block, names).separate()


class _Separator:
    """Holds the composites of one block, with the roles of their inputs and results."""

    def __init__(self, block: Block, targets: set[str]) -> None:
        self.roles: dict[CompositeOp, Roles] = {}
        for op in block.ops:
            if isinstance(op, CompositeOp) and op.pattern.data.split(".")[0] in targets:
                _tell_apart(op)
                roles = roles_of(op)
                if roles is not None:
                    self.roles[op] = roles
        self.made: dict[SSAValue, Data] = {}
        """The layouts of results."""

    def separate(self) -> None:
        """Decides on the layout of each composite in order, and copies arrays that are needed in
        two.
        """
        for composite, roles in self.roles.items():
            result = roles.result or self._chosen(composite)
            self.made.update((value, result) for value in composite.outputs)
            self.roles[composite] = Roles(tuple(r or result for r in roles.inputs), result)
        uses: dict[SSAValue, dict[Role, list[tuple[CompositeOp, int]]]] = {}
        for composite, roles in self.roles.items():
            for i, (value, role) in enumerate(zip(composite.inputs, roles.inputs, strict=True)):
                if role is not None and not isinstance(value.owner, ConstantOp):
                    uses.setdefault(value, {}).setdefault(role, []).append((composite, i))
        for value, by_role in uses.items():
            kept = self.made.get(value) or next(iter(by_role))
            for role, places in by_role.items():
                if role != kept:
                    _copy(value, places)
        self._separate_borders()

    def _separate_borders(self) -> None:
        """Copies arrays that are read with two different numbers around them."""
        uses: dict[SSAValue, dict[int, list[tuple[CompositeOp, int]]]] = {}
        for composite in self.roles:
            for i, number in numbers_around(composite).items():
                value = composite.inputs[i]
                uses.setdefault(value, {}).setdefault(number, []).append((composite, i))
        for value, by_number in uses.items():
            for places in list(by_number.values())[1:]:
                _copy(value, places)

    def _chosen(self, composite: CompositeOp) -> Data:
        """Chooses the layout of a composite that may have any: that of what it reads or, if that
        comes from the host, of a composite that reads its result.
        """
        for value in composite.inputs:
            if value in self.made:
                return self.made[value]
        for result in composite.outputs:
            for use in result.uses:
                user = use.operation
                if isinstance(user, CompositeOp) and user in self.roles:
                    role = self.roles[user].inputs[use.index]
                    if isinstance(role, Data):
                        return role
        return Data(1)


def _tell_apart(composite: CompositeOp) -> None:
    """Gives a product of an array with itself an input for each factor."""
    for op in composite.body.block.ops:
        multiplies = isinstance(op, MatmulOp) or (isinstance(op, BlockOp) and len(op.ins) == 2)
        if not multiplies or op.operands[0] is not op.operands[1]:
            continue
        arguments: list[SSAValue] = list(composite.body.block.args)
        sums = isinstance(op, MatmulOp) or (isinstance(op, BlockOp) and op.reductions)
        if sums and op.operands[0] in arguments:
            factor = composite.inputs[arguments.index(op.operands[0])]
            composite.operands = [*composite.operands, factor]
            set_operand(op, 1, composite.body.block.insert_arg(factor.type, len(arguments)))


def _copy(value: SSAValue, places: list[tuple[CompositeOp, int]]) -> None:
    """Makes these composites read a copy of a value."""
    first = min((user for user, _ in places), key=_position)
    block = first.parent
    assert block is not None
    shape = shape_of(value.type)
    ops = moved(value, shape, axes(len(shape)), named(COPY))
    block.insert_ops_before(ops, first)
    for user, index in places:
        set_operand(user, index, ops[-1].results[0])


def _position(op: Operation) -> int:
    assert op.parent is not None
    return op.parent.get_operation_index(op)

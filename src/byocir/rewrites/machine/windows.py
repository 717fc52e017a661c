"""Describes blocks that combine the elements of windows of an array, and finds what instructions of
a machine do them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from operator import add

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from byocir.dialects.tir import BlockOp, FillOp
from byocir.dialects.tir.scalar import Emitted, emit_body, number_attr
from byocir.dialects.types import element_type_of, shape_of, tensor, width_of
from byocir.evaluate.scalar import number
from byocir.machine import Machine, Memory
from byocir.machine.cut_plans import Plan
from byocir.rewrites.machine.pieces import each_element
from byocir.rewrites.machine.restate_bodies import Integer, is_signed
from byocir.rewrites.machine.whole_blocks import cycles_in_place, plans_for
from byocir.rewrites.window_guards import guards_of

NAMES: Mapping[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.MaxSIOp: "max",
    arith.MinSIOp: "min",
}
"""The operations that combine the elements of windows: in a wider type they give the same low
bits."""

STEPS: Mapping[str, Callable[[int, int], int]] = {"add": add, "max": max, "min": min}


@dataclass(frozen=True)
class Window:
    """Describes a block that combines the elements of each window of one array. Neither what its
    results begin with nor its pads change the result.
    """

    op: BlockOp
    name: str
    start: int

    @staticmethod
    def of(op: BlockOp) -> Window | None:
        """Describes a block; None for one that does something else, or whose pads count."""
        old, value, fill = op.body.block.args[-1], op.yielded[0].owner, op.outs[0].owner
        plain = len(op.ins) == 1 and not op.whole and op.where is None and not op.bases
        if not plain or not op.reductions or not isinstance(fill, FillOp):
            return None
        if not isinstance(value, arith.AddiOp | arith.MaxSIOp | arith.MinSIOp):
            return None
        terms = [_read(each) for each in (value.lhs, value.rhs) if each is not old]
        if len(terms) != 1 or terms[0] is not op.body.block.args[0] or not is_signed(terms[0].type):
            return None
        start, pad = int(number(fill.value)), op.pad_values[0]
        neutral = 0 if isinstance(value, arith.AddiOp) else start
        fits = pad is None or int(number(pad)) == neutral
        return Window(op, NAMES[type(value)], start) if fits else None

    def best(self, machine: Machine) -> tuple[Integer, Plan] | None:
        """Finds the type in which instructions do it in the fewest cycles, and how."""
        least = width_of(element_type_of(self.op.outs[0].type))
        found: list[tuple[Integer, Plan]] = []
        for type_ in dict.fromkeys(memory.element for memory in machine.memories):
            if is_signed(type_) and width_of(type_) >= least:
                plan = self.plan(machine, type_)
                found += [] if plan is None else [(type_, plan)]
        return min(found, key=lambda pair: pair[1].cycles, default=None)

    def plan(self, machine: Machine, type_: Attribute) -> Plan | None:
        """Finds how instructions do it in a type in the fewest cycles; None if they do not."""
        shapes = (shape_of(value.type) for value in (self.op.ins[0], self.op.outs[0]))
        outside = Block(arg_types=[tensor(type_, shape) for shape in shapes])
        block = self.made(type_, *outside.args)
        outside.add_op(block)
        return next(iter(plans_for(machine, block, block.extents)), None)

    def made(self, type_: Attribute, x: SSAValue, out: SSAValue) -> BlockOp:
        """Makes the block that does it in a type, without pads."""
        op, maps, where = self.op, [attr.data for attr in self.op.maps], guards_of(self.op)
        body = self.body(type_)
        return BlockOp(op.iterators, [x], [out], maps, body, where=where, location=op.location)

    def body(self, type_: Attribute) -> Region:
        """Makes the body that does it in a type."""
        return emit_body([type_, type_], self._combine)

    def _combine(self, x: Emitted, old: Emitted) -> Emitted:
        return old.binary(self.name, x)


def _read(value: SSAValue) -> SSAValue:
    owner = value.owner
    return owner.input if isinstance(owner, arith.ExtSIOp) else value


def beginning(
    machine: Machine, into: Memory, type_: TensorType[Attribute], numbers: Iterable[int]
) -> list[Operation]:
    """Makes the array of a type with which windows in a memory begin, by the last of some ops: one
    of these numbers that an instruction sets, or the first of them, which a step makes of zero or a
    copy brings.
    """
    element, given = type_.element_type, [*numbers]

    def filled(value: int) -> list[Operation]:
        return [FillOp.of(number_attr(value, element), type_)]

    def cycles(body: Callable[[Emitted], Emitted]) -> float:
        return cycles_in_place(machine, type_, into, body)

    for value in given:
        if isfinite(cycles(partial(_number, value))):
            return filled(value)
    start = given[0]
    steps = [partial(_step, name, start) for name, of in STEPS.items() if of(0, start) == start]
    least = min(steps, key=cycles)
    if start and isfinite(cycles(least)):
        zero = filled(0)
        return [*zero, each_element(zero[0].results[0], least)]
    return filled(start)


def _number(value: int, old: Emitted) -> Emitted:
    return old.constant(value)


def _step(name: str, by: int, old: Emitted) -> Emitted:
    return old.binary(name, by)

"""Restates blocks that take the greatest, the least or the sum of windows, so that instructions do
them whose numbers are of a wider type.

A vector unit takes the greater of two vectors of the numbers that its memory holds. So a pool of
bytes becomes three blocks: one that widens the bytes, the pool of wide numbers, and one that
narrows its results. A guard leaves out what a pad adds, where that changes nothing. Where no
instruction sets the number that results begin with, zero may do, or zero and a step that makes the
number of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from operator import add

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.tir import BlockOp, EmptyOp, FillOp
from byocir.dialects.tir.scalar import Emitted, emit_body, number_attr
from byocir.dialects.types import element_type_of, shape_of, tensor, width_of
from byocir.dialects.uses import replace_op
from byocir.evaluate.scalar import number
from byocir.machine import Machine
from byocir.machine.cut_plans import Plan
from byocir.rewrites.block_ends import NOTHING, Known, ends_of
from byocir.rewrites.host.fuse_blocks import fuse_into
from byocir.rewrites.machine.cover_bodies import cycles_in_place, plans_for
from byocir.rewrites.machine.pieces import each_element
from byocir.rewrites.machine.restate_bodies import Integer, is_signed
from byocir.rewrites.window_guards import guards_of, leaves_elements

NAMES: Mapping[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.MaxSIOp: "max",
    arith.MinSIOp: "min",
}
"""The operations that combine the elements of windows: in a wider type they give the same low
bits."""
STEPS: Mapping[str, Callable[[int, int], int]] = {"add": add, "max": max, "min": min}


def widen_windows(machine: Machine, body: Block, given: Known = NOTHING) -> None:
    """Restates those windows of a body on tensors that no instruction does and, in another type,
    one does. `given` bounds arrays that are made elsewhere.
    """
    for op in list(body.ops):
        window = _Window.of(op) if isinstance(op, BlockOp) and op.in_value_form else None
        if window is not None and not plans_for(machine, window.op, window.op.extents, []):
            best = window.best(machine)
            if best is not None:
                _Emitter(machine, window, *best, given).put()


@dataclass(frozen=True)
class _Window:
    """Describes a block that combines the elements of windows of one array. What its results begin
    with changes nothing, nor do its pads.
    """

    op: BlockOp
    name: str
    start: int

    @staticmethod
    def of(op: BlockOp) -> _Window | None:
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
        return _Window(op, NAMES[type(value)], start) if fits else None

    def best(self, machine: Machine) -> tuple[Integer, Plan] | None:
        """Finds the type in which instructions do it in the fewest cycles, and how."""
        least = width_of(element_type_of(self.op.outs[0].type))
        found: list[tuple[Integer, Plan]] = []
        for type_ in dict.fromkeys(memory.element for memory in machine.memories):
            if is_signed(type_) and width_of(type_) >= least:
                shapes = (shape_of(value.type) for value in (self.op.ins[0], self.op.outs[0]))
                outside = Block(arg_types=[tensor(type_, shape) for shape in shapes])
                block = self.made(type_, *outside.args)
                outside.add_op(block)
                found += [
                    (type_, plan) for plan in plans_for(machine, block, block.extents, [])[:1]
                ]
        return min(found, key=lambda pair: pair[1].cycles, default=None)

    def made(self, type_: Attribute, x: SSAValue, out: SSAValue) -> BlockOp:
        """Makes the block that does it in a type, without pads."""
        op, maps = self.op, [attr.data for attr in self.op.maps]
        body = emit_body([type_, type_], self._combine)
        where = guards_of(op)
        return BlockOp(op.iterators, [x], [out], maps, body, where=where, location=op.location)

    def _combine(self, x: Emitted, old: Emitted) -> Emitted:
        return old.binary(self.name, x)


def _read(value: SSAValue) -> SSAValue:
    owner = value.owner
    return owner.input if isinstance(owner, arith.ExtSIOp) else value


def _number(value: int, old: Emitted) -> Emitted:
    return old.constant(value)


def _converted(type_: Attribute, x: Emitted, _: Emitted) -> Emitted:
    return x.to(type_)


def _step(name: str, by: int, old: Emitted) -> Emitted:
    return old.binary(name, by)


class _Emitter:
    """Emits the blocks of windows in a type, in front of the block that they replace."""

    def __init__(
        self, machine: Machine, window: _Window, type_: Integer, plan: Plan, given: Known
    ) -> None:
        self._machine, self._window, self._op, self._given = machine, window, window.op, given
        self._type, self._into = type_, plan.instruction.into

    def put(self) -> None:
        """Replaces the block."""
        result = element_type_of(self._op.outs[0].type)
        x = self._converted(self._op.ins[0], self._type)
        made = self._put(self._window.made(self._type, x, self._start()))
        replace_op(self._op, [], [self._converted(made, result)])
        if isinstance(x.owner, BlockOp):  # what makes the bytes may now make wide numbers
            fuse_into(x.owner)

    def _put(self, op: Operation) -> SSAValue:
        home = self._op.parent
        assert home is not None
        op.location = self._op.location
        home.insert_op_before(op, self._op)
        return op.results[0]

    def _converted(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Converts the elements of an array."""
        if element_type_of(value.type) == type_:
            return value
        out = self._put(EmptyOp.of(tensor(type_, shape_of(value.type))))
        return self._put(each_element(out, partial(_converted, type_), value))

    def _start(self) -> SSAValue:
        """Makes what results begin with: a number that an instruction sets, or what a step makes of
        zero; else the number is copied.
        """
        type_, start = tensor(self._type, shape_of(self._op.outs[0].type)), self._window.start
        for value in self._neutral():
            if isfinite(self._cycles(partial(_number, value))):
                return self._put(FillOp.of(number_attr(value, self._type), type_))
        steps = [name for name, apply in STEPS.items() if apply(0, start) == start]
        bodies = [partial(_step, name, start) for name in steps]
        least = min(bodies, key=self._cycles)
        first = 0 if isfinite(self._cycles(least)) else start
        made = self._put(FillOp.of(number_attr(first, self._type), type_))
        return made if first == start else self._put(each_element(made, least))

    def _neutral(self) -> Iterator[int]:
        """Yields the numbers with which results may begin: zero, too, where neither it nor the
        number itself is greater than any element, of which the greatest are taken, and each window
        has one.
        """
        start, name = self._window.start, self._window.name
        yield start
        ends = ends_of(self._op.ins[0], self._given)
        if ends is not None and leaves_elements(self._op, guards_of(self._op)):
            low, high = ends.interval
            passed = {"max": low >= max(0, start), "min": high <= min(0, start)}
            if passed.get(name, False):
                yield 0

    def _cycles(self, body: Callable[[Emitted], Emitted]) -> float:
        """Counts the cycles of computing what results begin with of what was in their place."""
        type_ = tensor(self._type, shape_of(self._op.outs[0].type))
        return cycles_in_place(self._machine, type_, self._into, body)

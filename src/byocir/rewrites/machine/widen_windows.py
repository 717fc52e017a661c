"""Restates pools (maxima, minima or sums over windows) in a wider type of integers, where
instructions do them only in that.

A vector unit takes the greater of two vectors of the numbers that its memory holds. So a pool of
bytes becomes three blocks: one that widens the bytes, the pool of wide numbers, and one that
narrows its results. A guard leaves out what a pad adds, where that changes nothing. Where no
instruction sets the number that results begin with, zero may do, or zero and a step that makes the
number of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.tir import BlockOp, EmptyOp
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, shape_of, tensor
from byocir.dialects.uses import put_before, replace_op
from byocir.machine import Machine
from byocir.machine.cut_plans import Plan
from byocir.rewrites.block_ends import NOTHING, Known, ends_of
from byocir.rewrites.host.fuse_blocks import fuse_into
from byocir.rewrites.machine.early_windows import take_early
from byocir.rewrites.machine.part_windows import windows_taken
from byocir.rewrites.machine.pieces import each_element
from byocir.rewrites.machine.restate_bodies import Integer
from byocir.rewrites.machine.whole_blocks import plans_for
from byocir.rewrites.machine.windows import Window
from byocir.rewrites.window_guards import guards_of, leaves_elements


def widen_windows(machine: Machine, body: Block, given: Known = NOTHING) -> None:
    """Restates those windows of a body on tensors that no instruction does and, in another type,
    one does. `given` bounds arrays that are made elsewhere.
    """
    for op in list(body.ops):
        window = Window.of(op) if isinstance(op, BlockOp) and op.in_value_form else None
        if window is None or plans_for(machine, window.op, window.op.extents):
            continue
        best = None if take_early(machine, window, given) else window.best(machine)
        if best is not None:
            _Emitter(machine, window, *best, given).put()


def _converted(type_: Attribute, x: Emitted, _: Emitted) -> Emitted:
    return x.to(type_)


class _Emitter:
    """Emits the blocks of windows in a type, in front of the block that they replace."""

    def __init__(
        self, machine: Machine, window: Window, type_: Integer, plan: Plan, given: Known
    ) -> None:
        self._machine, self._window, self._op, self._given = machine, window, window.op, given
        self._type, self._into = type_, plan.instruction.into

    def put(self) -> None:
        """Replaces the block."""
        result = element_type_of(self._op.outs[0].type)
        x = self._converted(self._op.ins[0], self._type)
        numbers = [*self._neutral()]
        taken = windows_taken(self._machine, self._window, self._into, self._type, x, numbers)
        made = [self._put(op) for op in taken]
        replace_op(self._op, [], [self._converted(made[-1], result)])
        if isinstance(x.owner, BlockOp):  # what makes the bytes may now make wide numbers
            fuse_into(x.owner)

    def _put(self, op: Operation) -> SSAValue:
        return put_before(self._op, op).results[0]

    def _converted(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Converts the elements of an array."""
        if element_type_of(value.type) == type_:
            return value
        out = self._put(EmptyOp.of(tensor(type_, shape_of(value.type))))
        return self._put(each_element(out, partial(_converted, type_), value))

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

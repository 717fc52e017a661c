"""Describes copies between memories of a machine: the block that a copy is, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Attribute, Block

from byocir.dialects.tir import BlockOp, buffer
from byocir.dialects.tir.moves import axes, moving
from byocir.dialects.types import Bools, Floats, Ints, Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.machine import Machine, Memory
from byocir.machine.call_cycles import asked
from byocir.machine.cut_plans import least_cycles, none_does, plans_of
from byocir.machine.instructions import Fit
from byocir.machine.nearest_misses import Misfit
from byocir.machine.row_starts import steps_along_rows


def identity(
    element: Attribute, shape: Shape, source: Memory, into: Memory, steps: Shape = ()
) -> BlockOp:
    """Makes the block that moves an array from one memory to another, as a program of its own. With
    `steps` it takes elements that are so far apart, for each dimension.
    """
    steps = steps or (1,) * len(shape)
    reached = [(size - 1) * step + 1 for size, step in zip(shape, steps, strict=True)]
    types = buffer(element, reached, source.scope), buffer(element, shape, into.scope)
    outside = Block(arg_types=types)
    index = [axis * step for axis, step in zip(axes(len(shape)), steps, strict=True)]
    made = moving(outside.args[0], outside.args[1], index, UNKNOWN_LOC)
    outside.add_op(made)
    return made


def padded(
    array: Attribute, box: Sequence[tuple[int, int]], pad: Attribute, into: Memory
) -> BlockOp:
    """Makes the block that moves a box of an array in main memory, with pads where that is outside,
    as a program of its own.
    """
    element, shape = element_type_of(array), [high - low for low, high in box]
    types = buffer(element, shape_of(array)), buffer(element, shape, into.scope)
    outside = Block(arg_types=types)
    index = [axis + low for axis, (low, _) in zip(axes(len(box)), box, strict=True)]
    made = moving(outside.args[0], outside.args[1], index, UNKNOWN_LOC, pad=pad)
    outside.add_op(made)
    return made


ONE: Ints = np.ones((), np.int64)
"""One, as a size that all choices have."""


@dataclass(frozen=True)
class Copies:
    """Describes copies of arrays from one memory to another. The arrays have one element type and
    many sizes: `shape` has an array of sizes for each dimension. With `steps` they are elements so
    far apart, for each dimension.
    """

    element: Attribute
    shape: Sequence[Ints]
    source: Memory
    into: Memory
    array: Shape = ()
    """The shape of the whole array in main memory, if what is copied may be a part of one."""
    steps: Shape = ()

    def block(self, shape: Sequence[int]) -> BlockOp:
        """Makes the block that one copy is, as a program of its own."""
        return identity(self.element, tuple(shape), self.source, self.into, self.steps)

    @cached_property
    def _example(self) -> BlockOp:
        """Makes a copy of two points of each dimension."""
        return self.block([2] * len(self.shape))

    def cycles(self, machine: Machine) -> dict[str, Floats]:
        """Counts the cycles of each copy, by the unit that makes it in the fewest and the channel
        that this takes; infinitely many where no instruction does it.
        """
        found = self._cycles(machine)
        for joined, lines, legal in self._lines():
            own = joined._cycles(machine, lines)
            sooner = legal & (machine.of_units(own) < machine.of_units(found))
            names = {**found, **own}
            found = {n: np.where(sooner, own.get(n, 0), found.get(n, 0)) for n in names}
        return found

    def _lines(self) -> Iterator[tuple[Copies, list[Ints] | None, Bools]]:
        """Yields copies of arrays with one dimension less, each with the sizes of its lines, and
        the choices for which they do the same: a dimension that is copied in whole, of which rows
        follow each other in both memories, is one with the dimension before it.
        """
        if self.source.interleaved or self.into.interleaved:
            for d in range(len(self.shape) - 2, 0, -1) if len(self.array) >= 3 else ():
                one, other = self.shape[d : d + 2]
                shape = [*self.shape[:d], one * other, *self.shape[d + 2 :]]
                yield replace(self, shape=shape), None, np.asarray(other == self.array[d + 1])
            return
        lanes = max(len(memory.row) for memory in (self.source, self.into) if not memory.is_main)
        for d in range(min(len(self.shape), len(self.array)) - lanes - 2, -1, -1):
            one, other = self.shape[d : d + 2]
            shape = [*self.shape[:d], one * other, *self.shape[d + 2 :]]
            lines = [other if at == d else ONE for at in range(len(shape))]
            legal = np.asarray(other == self.array[d + 1])
            if legal.any():
                yield replace(self, shape=shape, array=()), lines, legal

    def _cycles(self, machine: Machine, lines: Sequence[Ints] | None = None) -> dict[str, Floats]:
        """Counts the cycles of copies of which calls take whole lines. Layers of the same sizes
        have the same copies, which are counted once.
        """
        sizes = tuple([(each.shape, each.tobytes()) for each in [*self.shape, *(lines or ())]])

        def counted() -> dict[str, Floats]:
            return least_cycles(
                machine, self._example, self.shape, "memories", self._in_order, lines
            )

        ends = self.source, self.into, self.steps
        key = "copied", self.element, *ends, lines is None, sizes
        return machine.answer(key, counted)

    def total(self, machine: Machine) -> Floats:
        """Counts the cycles of each copy on all units."""
        return machine.of_units(self.cycles(machine))

    def _in_order(self, fit: Fit, sizes: Sequence[Ints]) -> Bools:
        """Marks the sizes for which all rows of a call follow each other, and each call begins with
        one. Rows need not follow each other in memories where the instruction can step over some.
        """
        legal, block = np.ones((), np.bool_), self._example
        for name, operand in fit.operands.items():
            for i, _, lanes in steps_along_rows(fit, block, operand):
                legal = legal & ((sizes[i] == self.shape[i]) | (sizes[i] % lanes == 0))
            memory, called = fit.memories[operand], "out" if operand else name
            if memory.is_main or called in fit.instruction.strided:
                continue
            dims = len(self.shape) - len(memory.row)
            if memory.interleaved:
                legal = legal & self._is_one_run(sizes)
                continue
            for i in (at[-1] for at in fit.iterators.values() if at and at[-1] < dims):
                between = reduce(np.multiply, self.shape[i + 1 : dims], np.ones((), np.int64))
                legal = legal & ((sizes[i] == 1) | (between == 1))
        return legal

    def _is_one_run(self, sizes: Sequence[Ints]) -> Bools:
        """Marks the sizes of calls that take all of the dimensions inside of one that they take
        several points of."""
        found = np.ones((), np.bool_)
        for i, size in enumerate(sizes):
            inner = zip(sizes[i + 1 :], self.shape[i + 1 :], strict=True)
            whole = reduce(np.logical_and, (n == all_ for n, all_ in inner), np.ones((), np.bool_))
            found = found & ((size == 1) | whole)
        return found

    def in_rows(self, machine: Machine, memory: Memory) -> Bools:
        """Marks the sizes for which an array is one block of rows of a memory, and no call takes a
        part of a row.
        """
        rank = min(len(self.shape), len(memory.row))
        lanes = slice(len(self.shape) - rank, None)
        pairs = zip(self.shape[lanes], memory.row[-rank:], strict=False)
        one = np.ones((), np.bool_)
        is_block = reduce(np.logical_and, (size <= n for size, n in pairs), one)

        def parts_none(*shape: int) -> bool:
            block = self.block(shape)
            plans = plans_of(machine, block, block.extents, "memories")
            return bool(plans) and plans[0].sizes[lanes] == shape[lanes]

        return asked(parts_none, self.shape, is_block) > 0

    def refused(
        self, machine: Machine, where: str = "", others: Sequence[Misfit] = ()
    ) -> ByocirError:
        """Makes the error that no instruction does the first of the copies, with what instructions
        say to it, and `others` of the same. `where` is told behind what is copied.
        """
        shape, misfits = [size.flat[0].item() for size in self.shape], [*others]
        block = self.block(shape)
        plans_of(machine, block, block.extents, "memories", misfits)
        box = "x".join(map(str, shape)) or "one number"
        told = f"expected an instruction of {machine.name} that copies {box} "
        told += (
            f"of {self.element} from {self.source.called} to {self.into.called}{where}, found none"
        )
        return none_does(told, misfits)

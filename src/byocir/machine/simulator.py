"""Runs programs on a machine as its description says: each call on the rows of its memories.

What a call computes is what the block of its instruction means, evaluated on what lies in the rows
that it reads. Memories have the sizes that were declared, and hold nothing of use at first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, ConstantOp, IntrinsicOp
from byocir.dialects.types import Shape, dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.scalar import number
from byocir.evaluate.tir_block import BlockPlan
from byocir.machine.calls import calls_in
from byocir.machine.description import Machine
from byocir.machine.find_instruction import local_form
from byocir.machine.instructions import Call, Kind
from byocir.machine.operand_places import Box, Place
from byocir.machine.parts import Memory, Unit

_UNWRITTEN = 0x5A
"""The bytes of memory that no call has written yet."""


class Simulator:
    """Holds a machine's memories and runs calls on them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.memories = {memory: _new(memory) for memory in machine.memories if not memory.fifo}
        self._queues = {each: deque[np.ndarray]() for each in machine.memories if each.fifo}
        self._main: dict[SSAValue, np.ndarray] = {}
        self._kept: dict[Unit, np.ndarray] = {}

    def run(
        self,
        function: FuncOp,
        arrays: Iterable[np.ndarray],
        calls: Iterable[Call] | None = None,
    ) -> None:
        """Runs a function in memory on these arguments, and changes those that it writes. `calls`
        are those of the function, where they come in another order. Raises ByocirError B271 for an
        op that is no instruction, B272 for a buffer outside its memory.
        """
        body = function.body.block
        self._main = dict(zip(body.args, arrays, strict=True))
        for op in body.ops:
            if isinstance(op, ConstantOp):
                self._main[op.result] = op.value.data.values()
            elif isinstance(op, AllocOp):
                self._allocate(op)
            elif op is not body.last_op and not isinstance(op, IntrinsicOp):
                told = f"expected instructions of {self.machine.name}, found {op.name}"
                raise ByocirError("B271", told, where=place(op.location))
        for call in calls_in(self.machine, body) if calls is None else calls:
            self.call(call)

    def call(self, call: Call) -> None:
        """Runs one call."""
        pairs = zip(call.kind.fit.operands.values(), call.places.values(), strict=True)
        places = [each for _, each in sorted(pairs, key=_position)]
        at = call.kind.fit.operands.get(call.instruction.keeps)
        read = [
            self._kept[call.unit] if i == at and call.is_kept else self._read(each)
            for i, each in enumerate(places[:-1])
        ]
        result = call.result
        begins = result.memory.fifo and not call.kind.reads_old
        read.append(_blank(result) if begins else self._read(result))
        if at is not None:
            self._kept[call.unit] = read[at]
        if call.start is not None:
            read[-1][...] = number(call.start)
        with np.errstate(all="ignore"):
            self.machine.answer(("plan", call.kind), lambda: _plan(call.kind)).run(
                read[:-1], read[-1:], ()
            )
        self._write(call.result, read[-1])

    def _allocate(self, op: AllocOp) -> None:
        type_ = op.result.type
        found = Place(self._memory(op), op.result, (), {})
        if found.memory.is_main:
            self._main[op.result] = np.zeros(shape_of(type_), dtype_of(element_type_of(type_)))
            return
        rows = found.memory.rows_of(shape_of(type_))
        if not found.has_rows or found.first + rows > found.memory.rows:
            at = f"rows {found.first} to {found.first + rows}" if found.has_rows else "no rows"
            told = (
                f"expected a buffer in the {found.memory.rows} rows of {found.memory.scope}, found"
            )
            raise ByocirError("B272", f"{told} {at}", where=place(op.location))

    def _memory(self, op: AllocOp) -> Memory:
        space = op.result.type.memory_space
        scope = getattr(space, "data", "")
        memory = self.machine.memory_of(str(scope))
        if memory is None:
            told = f"expected a memory of {self.machine.name}, found '{scope}'"
            raise ByocirError("B271", told, where=place(op.location))
        return memory

    def _read(self, at: Place) -> np.ndarray:
        if at.memory.is_main:
            return self._main[at.buffer][_slices(at)].copy()
        rows = self._leaving(at) if at.memory.fifo else self.memories[at.memory]
        found: np.ndarray = rows[_within(at) if at.memory.fifo else _elements(at)]
        return found.reshape(_shape(at))

    def _leaving(self, at: Place) -> np.ndarray:
        """Takes from a FIFO as many rows as an operand needs. Raises ByocirError B274 where there
        are fewer.
        """
        queue, wanted = self._queues[at.memory], _count(at)
        if len(queue) < wanted:
            told = f"expected {wanted} rows in {at.memory.scope}, found {len(queue)}"
            raise ByocirError("B274", told)
        return np.stack([queue.popleft() for _ in range(wanted)])

    def _enter(self, at: Place, values: np.ndarray) -> None:
        """Puts the rows of a result into a FIFO. Raises ByocirError B272 where it is full."""
        queue, rows = self._queues[at.memory], _new(replace(at.memory, rows=_count(at)))
        index = _within(at)
        rows[index] = values
        if len(queue) + len(rows) > at.memory.rows:
            told = (
                f"expected room for {len(rows)} rows in {at.memory.scope}, found {len(queue)} of "
            )
            raise ByocirError("B272", f"{told}{at.memory.rows} taken")
        queue.extend(rows)

    def _write(self, at: Place, values: np.ndarray) -> None:
        if at.memory.is_main:
            self._main[at.buffer][_slices(at)] = values
            return
        if at.memory.fifo:
            self._enter(at, values)
            return
        self.memories[at.memory][_elements(at)] = values


def _new(memory: Memory) -> np.ndarray:
    dtype = np.dtype(np.uint8) if memory.element is None else dtype_of(memory.element)
    shape = (memory.rows, *memory.row)
    return np.full(prod(shape) * dtype.itemsize, _UNWRITTEN, np.uint8).view(dtype).reshape(shape)


def _plan(kind: Kind) -> BlockPlan:
    values = [*kind.block.ins, *kind.block.outs]
    form = local_form(kind.block, [(len(shape_of(value.type)), 0) for value in values])
    assert form is not None
    return BlockPlan(form)


def _position(pair: tuple[int, Place]) -> int:
    return pair[0]


def _shape(at: Place) -> list[int]:
    return [high - low for low, high in at.box]


def _blank(at: Place) -> np.ndarray:
    """Makes an array for a result whose former content is not read."""
    return np.zeros(_shape(at), dtype_of(element_type_of(at.buffer.type)))


def _slices(at: Place) -> tuple[slice, ...]:
    return tuple(slice(*side) for side in at.box)


def _elements(at: Place) -> tuple[np.ndarray, ...]:
    """Finds the row and the lanes of each element of a box, in arrays that broadcast to it."""
    row, *lanes = _inside(at.memory, at.shape, at.box)
    return row + at.first, *lanes


@lru_cache(maxsize=256)
def _inside(memory: Memory, shape: Shape, box: Box) -> tuple[np.ndarray, ...]:
    """Does as `_elements`, but counts rows from the first of the buffer: boxes at other rows, as
    those of the next tile, are alike.
    """
    rank = len(memory.row)
    leading, blocks = memory.cut(shape)
    box = ((0, 1),) * (len(leading) + rank - len(box)) + box
    grids = np.meshgrid(*[np.arange(*side) for side in box], indexing="ij", sparse=True)
    row: np.ndarray = np.zeros((1,) * len(box), np.int64)
    inner = list(zip(grids[len(leading) :], memory.row, blocks, strict=True))
    parted = [(grid // size, count) for grid, size, count in inner if count > 1]
    outer = list(zip(grids, leading, strict=False))
    for index, count in [*outer, *parted] if memory.interleaved else [*parted, *outer]:
        row = row * count + index
    return row, *(grid % size for grid, size, _ in inner)


def _within(at: Place) -> tuple[np.ndarray, ...]:
    """Does as `_elements`, but numbers rows from the first that the box touches."""
    rows, *lanes = _elements(at)
    return np.unique(rows, return_inverse=True)[1].reshape(rows.shape), *lanes


def _count(at: Place) -> int:
    """Counts the rows that a box touches."""
    return sum(high - low for low, high in at.rows())

"""Runs programs on a machine as its description says: each call on the rows of its memories.

What a call computes is what the block of its instruction means, evaluated on what lies in the rows
that it reads. Memories have the sizes that were declared, and hold nothing of use at first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, ConstantOp, IntrinsicOp
from byocir.dialects.types import Ints, dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.scalar import number
from byocir.machine.batches import Step, step_of, steps_in
from byocir.machine.calls import calls_in
from byocir.machine.description import Machine
from byocir.machine.instructions import Call, Kind
from byocir.machine.operand_places import Place
from byocir.machine.parts import Memory, Unit

_UNWRITTEN = 0x5A
"""The bytes of memory that no call has written yet."""


class Simulator:
    """Holds a machine's memories and runs calls on them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.memories: dict[Memory, np.ndarray] = {}
        for memory in (each for each in machine.memories if not each.fifo):
            is_view = memory.viewed is not None
            rows = self.memories[memory.storage] if is_view else _new(memory)
            self.memories[memory] = rows.reshape(-1).view(_dtype_of(memory))
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
        body, given = function.body.block, list(arrays)
        self._main = dict(zip(body.args, map(np.ascontiguousarray, given), strict=True))
        for op in body.ops:
            if isinstance(op, ConstantOp):
                self._main[op.result] = op.value.data.values()
            elif isinstance(op, AllocOp):
                self._allocate(op)
            elif op is not body.last_op and not isinstance(op, IntrinsicOp):
                told = f"expected instructions of {self.machine.name}, found {op.name}"
                raise ByocirError("B271", told, where=place(op.location))
        if calls is None:
            for step in steps_in(self.machine, calls_in(self.machine, body)):
                self._do(step)
        else:
            for part in (part for call in calls for part in call.parts):
                self._do(step_of(self.machine, part))
        for array, own in zip(given, self._main.values(), strict=False):
            if array.flags.writeable and not np.may_share_memory(array, own):
                array[...] = own.reshape(array.shape)

    def _do(self, step: Step) -> None:
        """Does the calls of a step."""
        kind, pairs = step.kind, list(zip(step.places, step.cells, strict=True))
        unit, kept = kind.fit.instruction.unit, kind.fit.operands.get(kind.fit.instruction.keeps)
        held = kept if step.is_kept.all() else None  # a FIFO no longer has what the unit holds
        read = [
            np.broadcast_to(self._kept[unit], cells.shape) if n == held else self._read(at, cells)
            for n, (at, cells) in enumerate(pairs[:-1])
        ]
        if kept is not None:
            if held is None and step.is_kept.any():
                read[kept][step.is_kept] = self._kept[unit]
            if step.ends is not None:
                one = read[kept].shape[step.is_kept.ndim :]
                self._kept[unit] = read[kept].reshape(-1, *one)[step.ends]
        result = self._old(kind, *pairs[-1])
        with np.errstate(all="ignore"):
            step.plan.run(read, [result], ())
        self._write(*pairs[-1], result)

    def _old(self, kind: Kind, at: Place, cells: Ints) -> np.ndarray:
        """Gives what a result is before the calls: the number that it begins with, if it does."""
        dtype = dtype_of(element_type_of(at.buffer.type))
        if kind.start is not None:
            return np.full(cells.shape, number(kind.start), dtype)
        if at.memory.fifo and not kind.reads_old:
            return np.zeros(cells.shape, dtype)
        return self._read(at, cells)

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

    def _array(self, at: Place) -> np.ndarray:
        """Gives all elements of the memory of an operand, or of its array, in a row."""
        return self._main[at.buffer].reshape(-1) if at.memory.is_main else self.memories[at.memory]

    def _read(self, at: Place, cells: Ints) -> np.ndarray:
        if at.memory.fifo:
            rows, cells = _within(at.memory, cells)
            return self._leaving(at.memory, rows).reshape(-1)[cells]
        return self._array(at).take(cells)

    def _leaving(self, memory: Memory, wanted: int) -> np.ndarray:
        """Takes from a FIFO as many rows as an operand needs. Raises ByocirError B274 where there
        are fewer.
        """
        queue = self._queues[memory]
        if len(queue) < wanted:
            told = f"expected {wanted} rows in {memory.scope}, found {len(queue)}"
            raise ByocirError("B274", told)
        return np.stack([queue.popleft() for _ in range(wanted)])

    def _write(self, at: Place, cells: Ints, values: np.ndarray) -> None:
        if at.memory.fifo:
            self._enter(at.memory, cells, values)
        else:
            self._array(at)[cells] = values

    def _enter(self, memory: Memory, cells: Ints, values: np.ndarray) -> None:
        """Puts the rows of a result into a FIFO. Raises ByocirError B272 where it is full."""
        count, cells = _within(memory, cells)
        queue, rows = self._queues[memory], _new(replace(memory, rows=count))
        rows.reshape(-1)[cells] = values
        if len(queue) + count > memory.rows:
            told = f"expected room for {count} rows in {memory.scope}, found {len(queue)} of "
            raise ByocirError("B272", f"{told}{memory.rows} taken")
        queue.extend(rows)


def _new(memory: Memory) -> np.ndarray:
    dtype, shape = _dtype_of(memory), (memory.rows, *memory.row)
    return np.full(prod(shape) * dtype.itemsize, _UNWRITTEN, np.uint8).view(dtype).reshape(shape)


def _dtype_of(memory: Memory) -> np.dtype[Any]:
    return np.dtype(np.uint8) if memory.element is None else dtype_of(memory.element)


def _within(memory: Memory, cells: Ints) -> tuple[int, Ints]:
    """Counts the rows that elements touch, and numbers these from the first of those rows."""
    size = prod(memory.row)
    rows, lies = np.unique(cells // size, return_inverse=True)
    return len(rows), lies.reshape(cells.shape) * size + cells % size

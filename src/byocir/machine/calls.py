"""Calls of instructions: what encoders, simulators and the passes that order them read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, IntrinsicOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.types import Shape, shape_of
from byocir.errors import ByocirError
from byocir.machine.description import Instruction, Machine, Register
from byocir.machine.fits import Fit, block_key, fits
from byocir.machine.parts import Memory, Unit

ROW = "row"
"""The attribute of a `tir.alloc` with the first row of its memory that the buffer takes."""

Run = tuple[int, int]
"""The first of some numbers, and the first after them."""


@dataclass(frozen=True)
class Place:
    """The place of an operand of a call: a box of a buffer in a memory."""

    memory: Memory
    buffer: SSAValue
    box: tuple[Run, ...]
    """Of each dimension of the buffer."""
    steps: Mapping[str, Shape]
    """By how much the index moves when an iterator of the instruction moves by one, by name."""

    @property
    def has_rows(self) -> bool:
        """Tells whether the buffer was given rows of its memory."""
        owner = self.buffer.owner
        return isinstance(owner, AllocOp) and ROW in owner.attributes

    @property
    def first(self) -> int:
        """The first row of the memory that the buffer takes; 0 for one that has none yet."""
        owner = self.buffer.owner
        row = owner.attributes.get(ROW) if isinstance(owner, AllocOp) else None
        return row.value.data if isinstance(row, IntegerAttr) else 0

    @property
    def shape(self) -> Shape:
        """The shape of the whole buffer."""
        return shape_of(self.buffer.type)

    @cached_property
    def _row_steps(self) -> Shape:
        """The rows, or elements of main memory, from one index of each dimension to the next."""
        shape = self.shape
        if self.memory.is_main:
            return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))
        leading, _ = self.memory.cut(shape)
        rows = [prod(leading[d + 1 :]) for d in range(len(leading))]
        return tuple([*rows, *[0] * len(self.memory.row)][-len(shape) :]) if shape else ()

    @property
    def address(self) -> int:
        """The row that the box begins in or, in main memory, its first element in the array."""
        starts = [low for low, _ in self.box]
        if self.memory.is_main:
            return sum(s * step for s, step in zip(starts, self._row_steps, strict=True))
        return self.first + next(iter(self._row_starts()))

    @property
    def array(self) -> int:
        """The number of an array in main memory: that of the function's argument; constants and
        buffers come after these, in order."""
        owner = self.buffer.owner
        if isinstance(self.buffer, BlockArgument):
            return self.buffer.index
        assert isinstance(owner, AllocOp | ConstantOp)
        assert owner.parent is not None
        others = (op for op in owner.parent.ops if isinstance(op, AllocOp | ConstantOp))
        main = [op for op in others if not scope_of(op.results[0].type)]
        return len(owner.parent.args) + main.index(owner)

    @property
    def block_rows(self) -> int:
        """The rows from one block of lanes of the buffer's last dimension to the next."""
        return prod(self.memory.cut(self.shape)[0])

    def stride(self, iterator: str) -> int:
        """The rows, or elements of main memory, by which the operand moves with an iterator."""
        moved = self.steps.get(iterator, (0,) * len(self.shape))
        return sum(m * step for m, step in zip(moved, self._row_steps, strict=True))

    def rows(self) -> tuple[Run, ...]:
        """The rows that the box touches, as intervals; elements of the array in main memory."""
        if self.memory.is_main:
            return tuple(self._runs())
        starts = self._row_starts()
        run = self._box(len(self.shape) - len(self.memory.row) - 1)
        length = run[1] - run[0]
        return _joined((self.first + start, self.first + start + length) for start in starts)

    def _box(self, dimension: int) -> Run:
        """The side of a dimension; those in front of the first are one index."""
        return self.box[dimension] if dimension >= 0 else (0, 1)

    def _row_starts(self) -> Iterator[int]:
        """The first row of each run along the last dimension that counts rows."""
        rank, count = len(self.memory.row), len(self.shape)
        leading, blocks = self.memory.cut(self.shape)
        per_block, steps = prod(leading), self._row_steps
        sides = [range(lo // n, -(-hi // n)) for (lo, hi), n in self._lanes()]
        outer = [range(*self.box[d]) for d in range(max(count - rank - 1, 0))]
        inside = self._box(count - rank - 1)[0] * (steps[count - rank - 1] if count > rank else 0)
        for block in product(*sides):
            number = 0
            for index, size in zip(block, blocks, strict=True):
                number = number * size + index
            for at in product(*outer):
                moved = sum(i * step for i, step in zip(at, steps, strict=False))
                yield number * per_block + moved + inside

    def _lanes(self) -> list[tuple[Run, int]]:
        """The sides of the dimensions that are cut into rows, with the lanes of a row."""
        rank, count = len(self.memory.row), len(self.shape)
        boxes = [self._box(d) for d in range(count - rank, count)]
        return list(zip(boxes, self.memory.row, strict=True))

    def _runs(self) -> Iterator[Run]:
        if not self.box:
            yield 0, 1
            return
        low, high = self.box[-1]
        for at in product(*(range(*side) for side in self.box[:-1])):
            start = sum(i * step for i, step in zip(at, self._row_steps, strict=False))
            yield start + low, start + high

    def overlaps(self, other: Place) -> bool:
        """Tells whether a row, or an element of main memory, is in both. Buffers share rows only
        once they were given the same ones."""
        if self.buffer is other.buffer:
            return all(a < d and c < b for (a, b), (c, d) in zip(self.box, other.box, strict=True))
        if self.memory.is_main or self.memory != other.memory:
            return False
        if not (self.has_rows and other.has_rows):
            return False
        return any(a < d and c < b for a, b in self.rows() for c, d in other.rows())


def _joined(runs: Iterator[Run]) -> tuple[Run, ...]:
    found: list[Run] = []
    for low, high in sorted(runs):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


@dataclass(frozen=True)
class Call:
    """One call of an instruction in a program: its sizes, numbers and operands by the names that
    its pattern gives them; the result is called as what it starts from, or `out`."""

    op: IntrinsicOp
    fit: Fit
    block: BlockOp
    start: Attribute | None
    """The number that the result begins with in place of what it was, if it does."""

    @property
    def instruction(self) -> Instruction:
        return self.fit.instruction

    @property
    def unit(self) -> Unit:
        return self.instruction.unit

    @cached_property
    def sizes(self) -> dict[str, int]:
        return self.fit.sizes(self.block.extents)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers that the pattern left open, by name."""
        return self.fit.numbers

    @property
    def cycles(self) -> float:
        return self.instruction.cost(self.sizes)

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """The places of the operands, by name."""
        return {name: self._place(position) for name, position in self.fit.operands.items()}

    @property
    def result(self) -> Place:
        """The place of the result."""
        return [*self.places.values()][-1]

    @property
    def read(self) -> list[Place]:
        """The places that the call reads: its operands and, unless it begins anew, its result."""
        *inputs, result = self.places.values()
        old = self.block.body.block.args[-1].first_use is not None and self.start is None
        return [*inputs, result] if old else inputs

    @property
    def registers(self) -> Mapping[Register, Any]:
        """The contents of the machine's registers that it needs."""
        return self.instruction.registers(self) if self.instruction.registers else {}

    def _place(self, position: int) -> Place:
        value = [*self.block.ins, *self.block.outs][position]
        forms = [linear(e) for e in self.block.maps.data[position].data.results]
        found = [form for form in forms if form is not None]
        extents = self.block.extents
        ends = [form.interval(spans(extents).__getitem__) for form in found]
        steps = {name: _step(found, at) for name, at in self.fit.iterators.items()}
        box = tuple((low, high + 1) for low, high in ends)
        return Place(self.fit.memories[position], value, box, steps)


def _step(forms: Sequence[Linear[int]], positions: Sequence[int]) -> Shape:
    if not positions:
        return (0,) * len(forms)
    return tuple(form.coefficient(positions[-1]) for form in forms)


def parts_of(op: IntrinsicOp) -> tuple[BlockOp, Attribute | None]:
    """The block of an instruction, and the number that its result begins with, if it does."""
    *before, work = op.body.block.ops
    assert isinstance(work, BlockOp)
    if not before or not isinstance(before[0], BlockOp):
        return work, None
    number = before[0].yielded[0].owner
    return work, number.properties["value"] if isinstance(number, Operation) else None


def call_of(machine: Machine, op: IntrinsicOp) -> Call:
    """The call that an op of a program is. Raises ByocirError B271 for one that the machine does
    not have or that does not do this."""
    block, start = parts_of(op)
    key = (op.callee.data, block_key(block), start)
    if key not in machine.plans.calls:
        found = list(fits(machine, block, start=start))
        fit = next((f for f in found if f.instruction.name == op.callee.data), None)
        machine.plans.calls[key] = fit
    fit = machine.plans.calls[key]
    if isinstance(fit, Fit):
        return Call(op, fit, block, start)
    why = fit.reason if fit is not None else f"{machine.name} has none of this name"
    told = f"expected what instruction {op.callee.data} does, found another block: {why}"
    raise ByocirError("B271", told, where=place(op.location))


def calls_in(machine: Machine, body: Block) -> list[Call]:
    """The calls of a program, in order."""
    return [call_of(machine, op) for op in body.ops if isinstance(op, IntrinsicOp)]


def buffers_in(machine: Machine, body: Block) -> list[AllocOp]:
    """The buffers of a program that lie in the machine's memories, in order."""
    scopes = {memory.scope for memory in machine.memories}
    return [op for op in body.ops if isinstance(op, AllocOp) and scope_of(op.result.type) in scopes]

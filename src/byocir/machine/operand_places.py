"""Describes the places of operands: boxes of buffers in memories, and the rows that they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from byocir.dialects.locations import place as place_of
from byocir.dialects.tir import AllocOp, ConstantOp
from byocir.dialects.types import Ints, Shape, dtype_of, element_type_of, shape_of, strides_of
from byocir.errors import ByocirError
from byocir.machine.parts import Memory

ROW = "row"
"""The attribute of a `tir.alloc` with the first row of its memory that the buffer takes."""

Span = tuple[int, int]
"""The first of some numbers, and the first after them."""

Box = tuple[Span, ...]
"""For each dimension of a buffer, from where to where."""


def meet(one: Box, other: Box) -> bool:
    """Tells whether two boxes of a buffer share an element."""
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


@dataclass(frozen=True)
class Place:
    """Names the place of an operand of a call: a box of a buffer in a memory."""

    memory: Memory
    buffer: SSAValue
    box: Box
    """The part of the buffer."""
    steps: Mapping[str, Shape]
    """By how much the index moves when an iterator of the instruction moves by one, by name."""
    array: int = -1
    """The number of an array in main memory: that of the function's argument; constants and
    buffers come after these, in order."""

    @property
    def has_rows(self) -> bool:
        """Tells whether the buffer was given rows of its memory."""
        owner = self.buffer.owner
        return isinstance(owner, AllocOp) and ROW in owner.attributes

    @property
    def first(self) -> int:
        """Gives the first row of the memory that the buffer takes; 0 for one that has none yet."""
        owner = self.buffer.owner
        row = owner.attributes.get(ROW) if isinstance(owner, AllocOp) else None
        return row.value.data if isinstance(row, IntegerAttr) else 0

    @cached_property
    def bytes(self) -> int:
        """Counts the bytes of one element."""
        return dtype_of(element_type_of(self.buffer.type)).itemsize

    def values(self) -> np.ndarray:
        """Gives the numbers of the buffer, if it is a constant: encoders put them into words.
        Raises ByocirError B271 for another buffer.
        """
        owner = self.buffer.owner
        if isinstance(owner, ConstantOp):
            return owner.value.data.values()
        where = place_of(owner.location) if isinstance(owner, Operation) else ""
        raise ByocirError("B271", "expected a constant, found another array", where=where)

    def over(self, box: Box, steps: Mapping[str, Shape]) -> Place:
        """Gives the place of another box of the buffer, sharing what is known of the buffer."""
        made = object.__new__(Place)
        vars(made).update(self._shared, box=box, steps=steps)
        return made

    @cached_property
    def _shared(self) -> Mapping[str, Any]:
        known = {"memory": self.memory, "buffer": self.buffer, "array": self.array}
        return {**known, "_layout": self._layout, "bytes": self.bytes, "home": self.home}

    @cached_property
    def home(self) -> str:
        """Names what the rows are counted in: the memory that has them or, in main memory, the
        array."""
        return self.memory.storage.scope or f"main memory, array {self.array}"

    @property
    def shape(self) -> Shape:
        """Gives the shape of the whole buffer."""
        return self._layout.shape

    @cached_property
    def _layout(self) -> _Layout:
        return _layout_of(self.memory, shape_of(self.buffer.type))

    @cached_property
    def address(self) -> int:
        """Gives the row at which the box begins or, in main memory, its first element in the array.
        Raises ByocirError B271 for a box that begins inside a row: `row` and `lane` tell both.
        """
        if self.memory.is_main:
            starts = zip(self.box, self._layout.steps, strict=True)
            return sum([low * step for (low, _), step in starts])
        if self.lane:
            owner, told = self.buffer.owner, "expected an operand that begins with a row of "
            raise ByocirError(
                "B271",
                f"{told}{self.memory.scope}, found one that begins at lane {self.lane}",
                where=place_of(owner.location) if isinstance(owner, Operation) else "",
                help="schedule tiles of whole rows, or encode the row and the lane of its place",
            )
        return self.row

    @property
    def row(self) -> int:
        """Gives the row of the memory in which the box begins."""
        return self._rows[0][0]

    @property
    def lane(self) -> int:
        """Gives the element of its row at which the box begins; 0 in main memory, which has no
        rows."""
        if self.memory.is_main:
            return 0
        sides = self.memory.row
        if len(sides) == 1:
            return self.box[-1][0] % sides[0] if self.box else 0
        starts = [0] * len(sides) + [low for low, _ in self.box]
        number = 0
        for at, size in zip(starts[-len(sides) :], sides, strict=True):
            number = number * size + at % size
        return number

    def stride(self, iterator: str, by: int = 1) -> int:
        """Counts the rows, or elements of main memory, by which the operand moves when an iterator
        moves by so many: by one, or by a block of lanes.
        """
        layout, steps = self._layout, self.steps.get(iterator, ())
        moved = 0
        for step, unit, rows in zip(steps, layout.units, layout.steps, strict=False):
            if step:
                moved += int(by * step / unit) * rows
        return moved

    def rows(self) -> tuple[Span, ...]:
        """Lists the rows that the box touches, as intervals; in main memory the elements of the
        array.
        """
        return self._rows

    @property
    def own_rows(self) -> tuple[Span, ...]:
        """Lists these rows, counted from the buffer's first one."""
        layout = self._layout
        found = layout.rows.get(self.box)
        if found is None:
            found = layout.rows[self.box] = layout.rows_of(self.box)
        return found

    @cached_property
    def _rows(self) -> tuple[Span, ...]:
        found, first = self.own_rows, self.first
        return tuple([(first + low, first + high) for low, high in found]) if first else found

    @property
    def cells(self) -> Ints:
        """Numbers the elements of the box as they lie in the memory, row by row, or in the
        array."""
        return _cells_of(self.memory, self.shape, self.box) + self.first * prod(self.memory.row)

    def cells_of(self, boxes: Ints) -> Ints:
        """Numbers the elements of several boxes of the buffer, which have the same sizes. The last
        two axes of `boxes` have for each dimension from where to where; the result has those of a
        box instead.
        """
        return self._layout.cells(boxes) + self.first * prod(self.memory.row)

    def overlaps(self, other: Place) -> bool:
        """Tells whether two places share a row, or an element of main memory. Buffers share rows
        only once they were given the same ones.
        """
        if self.buffer is other.buffer:
            return meet(self.box, other.box)
        if self.memory.is_main or self.home != other.home:
            return False
        if not (self.has_rows and other.has_rows):
            return False
        return any(a < d and c < b for a, b in self.rows() for c, d in other.rows())


class Places(Place):
    """Names the places of an operand in calls that differ in nothing else: boxes of one buffer, of
    which `address`, `row` and `lane` are arrays with a number for each call.
    """

    each: Sequence[Place]

    @staticmethod
    def of(each: Sequence[Place]) -> Place:
        """Gives several places, or the one place that all of them are."""
        first = each[0]
        if all(place is first for place in each):
            return first
        made = object.__new__(Places)
        vars(made).update(first._shared, each=each, steps=first.steps)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and self.each == other.each

    def __hash__(self) -> int:
        return hash(tuple(self.each))

    @property
    def address(self) -> Any:
        return self._column("address")

    @property
    def row(self) -> Any:
        return self._column("row")

    @property
    def lane(self) -> Any:
        return self._column("lane")

    def _column(self, name: str) -> np.ndarray:
        """Lists a number of each place; numbers of Python do not overflow."""
        return np.array([getattr(place, name) for place in self.each], object)

    @property
    def box(self) -> Any:  # pyrefly: ignore[bad-override]
        raise self._several("box")

    @property
    def _rows(self) -> Any:
        raise self._several("rows()")

    def _several(self, asked: str) -> ByocirError:
        owner = self.buffer.owner
        return ByocirError(
            "B271",
            f"expected address, row or lane of the places of {len(self.each)} calls, found {asked}",
            where=place_of(owner.location) if isinstance(owner, Operation) else "",
            help="without Machine.in_columns, hooks are asked about one call after the other",
        )


@dataclass(frozen=True)
class _Layout:
    """Says how buffers of a shape lie in their memory: the dimensions that count rows, the blocks
    of rows, and the rows, or elements of main memory, from one index of each dimension to that
    which is so many `units` further: lanes of a block, or one. It keeps the rows of boxes once they
    are found.
    """

    memory: Memory
    shape: Shape
    leading: Shape
    blocks: Shape
    units: Shape
    steps: Shape
    rows: dict[Box, tuple[Span, ...]] = field(default_factory=dict[Box, tuple[Span, ...]])
    """The rows of boxes that were asked for, as tiles are alike; it changes, the rest does not."""

    def rows_of(self, box: Box) -> tuple[Span, ...]:
        """Lists the rows that a box touches, as intervals, counted from the buffer's first row; in
        main memory the elements.
        """
        if self.memory.is_main:
            return tuple(self._runs(box))
        row = self.memory.row
        if len(box) == 2 and len(row) == 1 and not self.memory.interleaved:
            return self._matrix_rows(box)
        count = len(self.shape) - len(row)
        lanes = [_side(box, d) for d in range(count, len(self.shape))]
        blocks = [range(lo // n, -(-hi // n)) for (lo, hi), n in zip(lanes, row, strict=True)]
        if self.memory.interleaved:
            return self._interleaved_rows([*map(_span, blocks)], box)
        outer = [range(*box[d]) for d in range(max(count - 1, 0))]
        low, high = _side(box, count - 1)
        starts = (
            self.row_at([*at, *[low] * (count > 0), *(b * n for b, n in chosen)])
            for block in product(*blocks)
            for chosen in [list(zip(block, row, strict=True))]
            for at in product(*outer)
        )
        return _joined((start, start + high - low) for start in starts)

    def _matrix_rows(self, box: Box) -> tuple[Span, ...]:
        """Lists the rows of a box of a matrix, which is the most frequent case."""
        (low, high), (left, right) = box
        height, lanes = self.shape[0], self.memory.row[0]
        starts = [n * height for n in range(left // lanes, -(-right // lanes))]
        if high - low == height:
            return ((starts[0] + low, starts[-1] + high),)
        return tuple((start + low, start + high) for start in starts)

    def _interleaved_rows(self, blocks: Sequence[Span], box: Box) -> tuple[Span, ...]:
        """Lists the rows of a box in a memory where rows of the same index follow each other."""
        sides = [*box[: len(self.leading)], *blocks]
        sizes = (*self.leading, *self.blocks)
        whole = len(sides) - 1
        while whole and sides[whole] == (0, sizes[whole]):
            whole -= 1
        steps, (low, high) = strides_of(sizes), sides[whole]
        outer = product(*(range(*side) for side in sides[:whole]))
        starts = (sum(i * n for i, n in zip(at, steps, strict=False)) for at in outer)
        step = steps[whole]
        return _joined((start + low * step, start + high * step) for start in starts)

    def row_at(self, index: list[int]) -> int:
        """Finds the row that holds an element of the buffer, counted from the buffer's first
        row.
        """
        rank, number = len(self.memory.row), 0
        whole = [0] * (len(self.leading) + rank - len(index)) + index
        for at, count, lanes in zip(whole[-rank:], self.blocks, self.memory.row, strict=True):
            number = number * count + at // lanes
        for at, size in zip(whole, self.leading, strict=False):
            number = number * size + at
        return number

    def cells(self, boxes: Ints) -> Ints:
        """Numbers elements as `Place.cells_of`, from the buffer's first row on."""
        rank, row = len(self.shape), self.memory.row
        strides = ((0,) * rank + strides_of(row))[len(row) :] if rank else ()
        found: Ints = np.zeros(boxes.shape[:-2] + (1,) * rank, np.int64)
        for d, (unit, step) in enumerate(zip(self.units, self.steps, strict=True)):
            low, high = boxes[..., d, 0], boxes[..., d, 1]
            size = int((high - low).flat[0])
            at = low.reshape((*low.shape, *(1,) * rank))
            at = at + np.arange(size).reshape((size, *(1,) * (rank - d - 1)))
            found = found + at // unit * (step * prod(row)) + at % unit * strides[d]
        return found

    def _runs(self, box: Box) -> Iterator[Span]:
        rank = len(box)
        while rank and box[rank - 1] == (0, self.shape[rank - 1]):
            rank -= 1
        if not rank:
            yield 0, prod(self.shape)
            return
        (low, high), step = box[rank - 1], self.steps[rank - 1]
        for at in product(*(range(*side) for side in box[: rank - 1])):
            start = sum(i * step for i, step in zip(at, self.steps, strict=False))
            yield start + low * step, start + high * step


def _span(numbers: range) -> Span:
    return numbers.start, numbers.stop


def _side(box: Box, dimension: int) -> Span:
    """Gives the interval of a box along a dimension; missing dimensions in front have one index."""
    return box[dimension] if dimension >= 0 else (0, 1)


@lru_cache(256)
def _cells_of(memory: Memory, shape: Shape, box: Box) -> Ints:
    """Numbers elements as `Place.cells`, from the buffer's first row on: boxes at other rows, as
    those of the next tile, are alike."""
    return _layout_of(memory, shape).cells(np.array(box, np.int64).reshape(-1, 2))


@lru_cache(1024)
def _layout_of(memory: Memory, shape: Shape) -> _Layout:
    """Makes the layout of buffers of a shape, once for all that are alive at about one time."""
    leading, blocks = memory.cut(shape)
    if memory.is_main:
        return _Layout(memory, shape, leading, blocks, (1,) * len(shape), strides_of(shape))
    units = (*(1,) * len(leading), *memory.row)[-len(shape) :] if shape else ()
    if memory.interleaved:
        steps = strides_of((*leading, *blocks))[-len(shape) :] if shape else ()
        return _Layout(memory, shape, leading, blocks, units, steps)
    height = prod(leading)
    steps = (*strides_of(leading), *(height * step for step in strides_of(blocks)))[-len(shape) :]
    return _Layout(memory, shape, leading, blocks, units, steps if shape else ())


def _joined(runs: Iterator[Span]) -> tuple[Span, ...]:
    found: list[Span] = []
    for low, high in sorted(runs):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)

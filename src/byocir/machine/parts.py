"""Defines the parts of a machine: memories, units, limits of sizes, and what orders its units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np
from xdsl.ir import Attribute

from byocir.dialects.types import Bools, Ints, Shape, nbytes, tensor
from byocir.errors import ByocirError
from byocir.patterns.nodes import WildcardPattern
from byocir.vendor.places import caller

Sizes = Mapping[str, int]
"""The extents of an instruction's iterators, by name."""


@dataclass(frozen=True)
class Unit:
    """Describes a part of a machine that runs its instructions one after the other, in order. Up to
    `queue` instructions may wait in front of it.
    """

    name: str
    queue: int = 1


@dataclass(frozen=True)
class Channel:
    """Describes a way for data that several units share, such as the port to main memory. It serves
    one instruction at a time.
    """

    name: str


@dataclass(frozen=True)
class Transfer:
    """Says that an instruction moves its data over a channel, and takes longer while others do. It
    asks for the channel `lead` cycles after its start and keeps it for the rest of its own cycles.
    Of the instructions that ask, the one of the lowest `rank` goes first, even before one that is
    being served.
    """

    channel: Channel
    lead: int = 0
    rank: int = 0


@dataclass(frozen=True)
class Memory:
    """Describes a memory: `rows` rows, each an array of shape `row`, all of one element type.

    `scope` is what buffers in it are marked with (`memref<16x8xi8, "engine.near">`). A buffer
    begins at a multiple of `granule` rows and lies within one of `banks` equal parts or, if it is
    larger than these, begins with one. Its trailing dimensions are cut into rows, those before
    count rows: a buffer of 20 by 40 in rows of 16 lanes is three times 20 rows or, if the memory is
    `interleaved`, 20 times three: rows of the same index follow each other, as channels of a pixel
    do in an image with channels last.

    Rows of a `fifo` leave it in the order in which they came, each once. The hardware holds back an
    instruction that finds it full or empty. So a tile in it is exactly what one call reads; only
    one unit writes it, and only one reads it.

    What a call reads or writes begins with a row or, with `inside_rows`, also inside one, at the
    `lane` of its place: for machines whose code names both.

    A view of another memory, `viewed`, has the same rows, with elements of its own type in them.

    A `hidden` memory is inside of a unit: it holds what the first block of an instruction hands to
    the second, as long as a call takes.

    Called with a name it is an operand of a pattern: `near("a")["m k"]`.
    """

    scope: str
    element: Attribute | None = None
    row: Shape = (1,)
    rows: int = 0
    banks: int = 1
    granule: int = 1
    fifo: bool = False
    inside_rows: bool = False
    interleaved: bool = False
    viewed: Memory | None = None
    hidden: bool = False

    def __call__(self, label: str) -> Operand:
        return Operand(label, self)

    def __getitem__(self, index: object) -> NoReturn:
        told = f"expected a name for what lies in {self.called}, found an index alone"
        help = f'operands have names: near("x")[{index!r}], for near = npu.memory("near", …)'
        raise ByocirError("B270", told, where=caller(), help=help)

    def __repr__(self) -> str:
        return f"<memory {self.scope}>" if self.scope else "<main memory>"

    def __hash__(self) -> int:
        return hash(self.scope)  # memories are looked up often, and few have the same scope

    @property
    def is_main(self) -> bool:
        """Tells whether it is main memory, where arguments are and everything fits."""
        return not self.scope

    @property
    def storage(self) -> Memory:
        """Gives the memory that has the rows: itself or, for a view, the memory that it shows."""
        return self.viewed or self

    @property
    def called(self) -> str:
        """Gives the name of the memory in messages."""
        return self.scope or "main memory"

    @property
    def row_bytes(self) -> int:
        """Counts the bytes of a row; 0 for main memory."""
        return 0 if self.element is None else nbytes(tensor(self.element, self.row))

    def cut(self, shape: Shape) -> tuple[Shape, Shape]:
        """Splits the shape of a buffer into the leading dimensions, which count rows, and the
        number of blocks of lanes along the others: [20, 40] in rows of 16 lanes → [20], [3].
        """
        rank = len(self.row)
        whole = (1,) * (rank - len(shape)) + shape
        trailing = whole[len(whole) - rank :]
        blocks = tuple(-(-size // lanes) for size, lanes in zip(trailing, self.row, strict=True))
        return whole[: len(whole) - rank], blocks

    def rows_of(self, shape: Shape) -> int:
        """Counts the rows that a buffer takes, in whole granules."""
        leading, blocks = self.cut(shape)
        rows = prod((*leading, *blocks))
        return -(-rows // self.granule) * self.granule

    def rows_of_all(self, shape: Sequence[Ints]) -> Ints:
        """Counts the rows that each of many buffers takes; `shape` has an array of sizes for each
        dimension.
        """
        counting = max(len(shape) - len(self.row), 0)
        lanes = self.row[len(self.row) - (len(shape) - counting) :]
        blocks = [-(-size // n) for size, n in zip(shape[counting:], lanes, strict=True)]
        rows = prod([*shape[:counting], *blocks], start=np.ones((), np.int64))
        return -(-rows // self.granule) * self.granule

    @property
    def bank(self) -> int:
        """Counts the rows of each bank."""
        return self.rows // self.banks

    @property
    def there(self) -> str:
        """Words, for messages, how many rows the memory has."""
        return f"{self.rows} there" + (f" in {self.banks} banks" if self.banks > 1 else "")

    def holds(self, buffers: Sequence[int]) -> bool:
        """Tells whether buffers of so many rows find room at once, when the largest are placed
        first, each in the first bank that has room.
        """
        return bool(self.holds_all([np.array(rows, np.int64) for rows in buffers]))

    def holds_all(self, buffers: Sequence[Ints]) -> Bools:
        """Tells of many choices of buffers whether they find room; the rows of each buffer are an
        array.
        """
        shape = np.broadcast_shapes(*(rows.shape for rows in buffers))
        total = sum(buffers, start=np.zeros(shape, np.int64))
        placed = np.asarray(total <= self.bank)
        unclear = ~placed & (total <= self.rows)
        given = [np.broadcast_to(rows, shape)[unclear] for rows in buffers]
        if self.banks == 1 or not np.any(unclear):
            return placed
        placed[unclear] = self._find_room([*np.sort(np.stack(given), axis=0)[::-1]])
        return placed

    def _find_room(self, buffers: Sequence[Ints]) -> Bools:
        """Tells whether buffers, the largest first, find room in banks: those larger than a bank
        from the start of the next bank on, others in the first bank that has room.
        """
        starts = np.arange(self.banks)[:, None] * self.bank
        left = np.full((self.banks, buffers[0].size), self.bank, np.int64)
        begin = np.zeros_like(buffers[0])
        fits = np.ones(buffers[0].shape, np.bool_)
        for rows in buffers:
            large = rows > self.bank
            end = begin + np.where(large, rows, 0)
            taken = np.minimum(end, starts + self.bank) - np.maximum(begin, starts)
            left -= np.maximum(taken, 0)
            begin = -(-end // self.bank) * self.bank
            first = np.argmax(left >= rows, axis=0)[None]
            room = np.take_along_axis(left, first, 0) - np.where(large, 0, rows)
            np.put_along_axis(left, first, room, 0)
            fits = fits & np.where(large, end <= self.rows, room[0] >= 0)
        return fits


MAIN = Memory("")
"""Main memory: where what the machine is given lies, and what it gives."""


class Operand(WildcardPattern):
    """Describes a value of a pattern that lies in a memory."""

    def __init__(self, label: str, memory: Memory) -> None:
        super().__init__(label, memory.element, ())
        self.memory = memory


@dataclass(frozen=True)
class Limit:
    """Describes the extents that an iterator of an instruction may have: multiples of `step`, at
    most `most`."""

    most: int
    step: int = 1

    def allows(self, extent: int) -> bool:
        return 0 < extent <= self.most and extent % self.step == 0

    @property
    def least(self) -> int:
        """Gives the smallest extent that is allowed."""
        return self.step

    def __str__(self) -> str:
        if self.step == self.most:
            return f"exactly {self.most}"
        return f"up to {self.most}" + (f" in steps of {self.step}" if self.step > 1 else "")


def exactly(size: int) -> Limit:
    """Makes the limit to this extent and no other."""
    return Limit(size, size)


def up_to(most: int) -> Limit:
    """Makes the limit to any extent up to this."""
    return Limit(most)


def multiples_of(step: int, most: int) -> Limit:
    """Makes the limit to multiples of a number, up to another."""
    return Limit(most, step)


@dataclass(frozen=True)
class InOrder:
    """Says that an instruction begins when the one before it has ended, whatever its unit."""


@dataclass(frozen=True)
class Interlocked:
    """Says that the machine itself holds an instruction back until those before it that touch the
    same rows of these memories have ended. Elsewhere programs wait for units.
    """

    memories: tuple[Memory, ...]


@dataclass(frozen=True)
class Tokens:
    """Says that instructions push tokens to other units and pop tokens from them, between these
    pairs of units alone: (who pushes, who pops). At most `capacity` tokens of a pair are on their
    way.
    """

    pairs: tuple[tuple[Unit, Unit], ...]
    capacity: int = 256


@dataclass(frozen=True)
class Counted:
    """Says that an instruction may wait until at most so many instructions of another unit are
    outstanding. Those after it wait with it, for instructions are issued in order.
    """


Order = InOrder | Interlocked | Tokens | Counted
"""The kinds of order between instructions of several units: `Machine.order` takes one of these."""

"""Joins transfers that follow each other in main memory and in a scratchpad.

Calls of a described machine move one run of vectors each, and each kernel of micro-ops is loaded
where it is first needed. Runs at equal distances are one LOAD or STORE of two dimensions, which
asks memory once.
"""

from __future__ import annotations

from collections.abc import Sequence

from byocir.dialects.locations import fuse
from byocir.dialects.vta.assemble import Word
from byocir.lowering.tir_to_vta.copies import MAX_SIZE
from byocir.vta_sim import Memory, Opcode, VTAConfig
from byocir.vta_sim.isa import Queue

MOST_BYTES = 1024
"""The most that a joined transfer moves. Memory serves one request at a time: what the compute unit
loads for itself would wait for longer ones."""


def joined(words: Sequence[Word], config: VTAConfig) -> list[Word]:
    """Gives words that do the same, with transfers joined; it changes those that grow.

    A transfer joins one before it in its queue where no tokens tell when either has ended. All
    micro-ops are loaded by the first load of them, until one overwrites others.
    """
    kept: list[Word] = []
    last: dict[Queue, Word] = {}
    queues, micro_ops = {queue: _Transfers(config) for queue in Queue}, _MicroOps()
    for word in words:
        moves = word.opcode in (Opcode.LOAD, Opcode.STORE)
        if moves and word.memory is Memory.UOP:
            kept += [] if micro_ops.joins(word) else [word]
            continue
        own = queues[word.queue]
        if not moves or not word.fields.keys().isdisjoint(POPS):
            own.clear()
        pushes = word.fields.keys() & PUSHES
        if moves and own.joins(word):
            last[word.queue].fields |= dict.fromkeys(word.fields.keys() & TOKENS, 1)
        else:
            kept.append(word)
            last[word.queue] = word
        if pushes:
            own.clear()
    return kept


PUSHES, POPS = {"push_prev", "push_next"}, {"pop_prev", "pop_next"}
TOKENS = PUSHES | POPS


class _Transfers:
    """Holds the transfers of a queue that later ones may join."""

    def __init__(self, config: VTAConfig) -> None:
        self._bytes = {memory: config.element_bytes(memory) for memory in Memory}
        self._ends: dict[tuple[Memory, int], Word] = {}
        """The transfers by where they end in their scratchpad."""
        self._rows: set[tuple[Memory, int]] = set()

    def clear(self) -> None:
        self._ends.clear()
        self._rows.clear()

    def joins(self, word: Word) -> bool:
        """Joins a transfer to one before it, if it can; tells if it does. Loads of the load unit
        may pass others, which fill other rows; elsewhere the order is kept.
        """
        memory, start = word.memory, word.fields["sram_base"]
        end = start + _size(word)
        rows = {(memory, row) for row in range(start, end)}
        one = self._ends.pop((memory, start), None)
        if one is not None and (not self._rows.isdisjoint(rows) or not self._grows(one, word)):
            one = None
        if one is None and word.queue is not Queue.LOAD:
            self.clear()
        self._rows |= rows
        self._ends[memory, end] = one or word
        return one is not None

    def _grows(self, one: Word, word: Word) -> bool:
        size = (_size(one) + _size(word)) * self._bytes[word.memory]
        return size <= MOST_BYTES and _grow(one, word)


class _MicroOps:
    """Joins loads of micro-ops, whatever is between them: as long as each is put behind those
    before it, nothing uses what it overwrites.
    """

    def __init__(self) -> None:
        self._last: Word | None = None
        self._end = 0

    def joins(self, word: Word) -> bool:
        """Tells whether the load before this one does what it does, too."""
        start = word.fields["sram_base"]
        joins = start >= self._end and self._last is not None and _grow(self._last, word)
        if not joins:
            self._last = word if start >= self._end else None
        self._end = max(self._end, start + _size(word))
        return joins


def _size(word: Word) -> int:
    """Counts the elements that are moved, and zeros, which follow each other in the scratchpad."""
    fields = word.fields
    rows, columns = fields["y_size"], fields["x_size"]
    rows += fields.get("y_pad_0", 0) + fields.get("y_pad_1", 0)
    return rows * (columns + fields.get("x_pad_0", 0) + fields.get("x_pad_1", 0))


def _grow(one: Word, word: Word) -> bool:
    """Lets a transfer do what the next one does, too, if it can; tells if it does."""
    first, then = one.fields, word.fields
    if "y_pad_0" in first or "y_pad_0" in then:
        return False
    rows, columns, more, wide = first["y_size"], first["x_size"], then["y_size"], then["x_size"]
    follows = then["sram_base"] == first["sram_base"] + rows * columns
    if one.array is not word.array or one.memory is not word.memory or not follows:
        return False
    apart = then["dram_base"] - first["dram_base"]
    stride = first["x_stride"] if rows > 1 else apart
    size = 1, columns + wide
    if not (rows == more == 1 and apart == columns):
        follows = columns == wide and apart == rows * stride
        if not follows or (more > 1 and then["x_stride"] != stride) or not 0 < stride <= MAX_SIZE:
            return False
        size = rows + more, columns
    if max(size) > MAX_SIZE:
        return False
    first["y_size"], first["x_size"] = size
    first["x_stride"] = stride if size[0] > 1 else size[1]
    if one.location is not word.location and one.location != word.location:
        one.location = fuse(one.location, word.location)
    return True

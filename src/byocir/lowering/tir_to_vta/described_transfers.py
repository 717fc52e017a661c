"""Joins transfers that follow each other in main memory and in a scratchpad.

Calls of a described machine move one run of vectors each, and each kernel of micro-ops is loaded
where it is first needed. Runs at equal distances are one LOAD or STORE of two dimensions, which
asks memory once.
"""

from __future__ import annotations

from collections.abc import Sequence

from byocir.dialects.locations import fuse
from byocir.dialects.vta import InstructionOp, TransferOp
from byocir.dialects.vta.base import integer, integers
from byocir.lowering.tir_to_vta.copies import MAX_SIZE
from byocir.vta_sim import Memory, VTAConfig
from byocir.vta_sim.isa import Queue

MOST_BYTES = 1024
"""The most that a joined transfer moves. Memory serves one request at a time: what the compute unit
loads for itself would wait for longer ones."""


def joined(instructions: Sequence[InstructionOp], config: VTAConfig) -> list[InstructionOp]:
    """Gives instructions that do the same, with transfers joined; it changes those that grow.

    A transfer joins one before it in its queue where no tokens tell when either has ended. All
    micro-ops are loaded by the first load of them, until one overwrites others.
    """
    kept: list[InstructionOp] = []
    last: dict[Queue, InstructionOp] = {}
    queues, micro_ops = {queue: _Transfers(config) for queue in Queue}, _MicroOps()
    for op in instructions:
        if isinstance(op, TransferOp) and op.memory_id is Memory.UOP:
            kept += [] if micro_ops.joins(op) else [op]
            continue
        own = queues[op.queue]
        if not isinstance(op, TransferOp) or any(each.startswith("pop") for each in op.tokens):
            own.clear()
        if isinstance(op, TransferOp) and own.joins(op):
            for token in op.tokens:
                last[op.queue].set_token(token)
        else:
            kept.append(op)
            last[op.queue] = op
        if any(each.startswith("push") for each in op.tokens):
            own.clear()
    return kept


class _Transfers:
    """Holds the transfers of a queue that later ones may join."""

    def __init__(self, config: VTAConfig) -> None:
        self._config = config
        self._ends: dict[tuple[Memory, int], TransferOp] = {}
        """The transfers by where they end in their scratchpad."""
        self._rows: set[tuple[Memory, int]] = set()

    def clear(self) -> None:
        self._ends.clear()
        self._rows.clear()

    def joins(self, op: TransferOp) -> bool:
        """Joins a transfer to one before it, if it can; tells if it does. Loads of the load unit
        may pass others, which fill other rows; elsewhere the order is kept.
        """
        memory, start = op.memory_id, op.operation_fields()["sram_base"]
        rows = {(memory, start + i) for i in range(op.sram_size)}
        one = self._ends.pop((memory, start), None)
        if one is not None and (not self._rows.isdisjoint(rows) or not self._grows(one, op)):
            one = None
        if one is None and op.queue is not Queue.LOAD:
            self.clear()
        self._rows |= rows
        self._ends[memory, start + len(rows)] = one or op
        return one is not None

    def _grows(self, one: TransferOp, op: TransferOp) -> bool:
        size = (one.sram_size + op.sram_size) * self._config.element_bytes(op.memory_id)
        return size <= MOST_BYTES and _grow(one, op)


class _MicroOps:
    """Joins loads of micro-ops, whatever is between them: as long as each is put behind those
    before it, nothing uses what it overwrites.
    """

    def __init__(self) -> None:
        self._last: TransferOp | None = None
        self._end = 0

    def joins(self, op: TransferOp) -> bool:
        """Tells whether the load before this one does what it does, too."""
        start = op.operation_fields()["sram_base"]
        joins = start >= self._end and self._last is not None and _grow(self._last, op)
        if not joins:
            self._last = op if start >= self._end else None
        self._end = max(self._end, start + op.sram_size)
        return joins


def _grow(one: TransferOp, op: TransferOp) -> bool:
    """Lets a transfer do what the next one does, too, if it can; tells if it does."""
    (rows, columns), (more, wide) = one.box, op.box
    first, then = one.operation_fields(), op.operation_fields()
    follows = then["sram_base"] == first["sram_base"] + one.sram_size
    padded = one.sram_size != rows * columns or op.sram_size != more * wide
    if one.dram is not op.dram or one.memory_id is not op.memory_id or padded or not follows:
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
    if size[0] > 1:
        one.properties["stride"] = integer(stride)
    one.properties["size"] = integers(size)
    one.location = one.location if one.location == op.location else fuse(one, op)
    return True

"""Counts the elements of each scratchpad that may be in use, over time.

Which elements GEMM and ALU touch is written in micro-ops, and those are data: the instructions
alone give bounds only. An element of UOP, INP or WGT counts from the start of the LOAD that writes
it to the end of the last instruction that may read it before the next such LOAD. An element of ACC
counts from the start of the first instruction that may write it after the last STORE of it to the
end of the next STORE.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import Memory
from byocir.vta_sim.isa import Decoded, Opcode
from byocir.vta_sim.timing import Timeline, loop_steps
from byocir.vta_sim.timing.instruction_costs import padding

Cycles = NDArray[np.int64]
Mask = NDArray[np.bool_]


def occupancy(decoded: Decoded, times: Timeline) -> dict[str, list[tuple[int, int]]]:
    """(cycle, elements from then on) where the count changes, by memory: uop, wgt, inp, acc."""
    columns, opcode = decoded.columns, decoded.opcode
    steps = loop_steps(decoded) > 0
    gemm = (opcode == Opcode.GEMM) & steps & (columns["reset_reg"] == 0)
    readers = {Memory.UOP: steps, Memory.WGT: gemm, Memory.INP: gemm}
    result: dict[str, list[tuple[int, int]]] = {}
    for memory, reads in readers.items():
        loads = (opcode == Opcode.LOAD) & (columns["memory_type"] == memory)
        written = columns["x_size"] * columns["y_size"] + padding(decoded)
        changes = _loaded(_ranges(decoded, loads, written, memory), times, reads)
        result[memory.name.lower()] = _levels(changes)
    acc = np.isin(columns["memory_type"], (Memory.ACC, Memory.ACC_8BIT))
    writes = steps | ((opcode == Opcode.LOAD) & acc & (columns["x_size"] != 0))
    stores = _ranges(
        decoded, opcode == Opcode.STORE, columns["x_size"] * columns["y_size"], Memory.ACC
    )
    result["acc"] = _levels(_stored(stores, times, writes))
    return result


class _Ranges:
    """Instructions in order of time, each with a range of elements, and the last owner of each."""

    def __init__(self, rows: list[int], first: list[int], last: list[int], depth: int) -> None:
        self.rows, self.first, self.last = rows, first, last
        self.owner = np.full(depth, -1, np.int64)

    def take(self, number: int) -> Counter[int]:
        """Give range ``number`` to its instruction; how many elements each owner loses."""
        part = self.owner[self.first[number] : self.last[number]]
        owners, counts = np.unique(part, return_counts=True)
        part[:] = self.rows[number]
        return Counter(dict(zip(owners.tolist(), counts.tolist(), strict=True)))

    def rest(self) -> Counter[int]:
        """Counts the elements that each instruction owns in the end."""
        owners, counts = np.unique(self.owner[self.owner >= 0], return_counts=True)
        return Counter(dict(zip(owners.tolist(), counts.tolist(), strict=True)))


def _ranges(decoded: Decoded, chosen: Mask, size: Cycles, memory: Memory) -> _Ranges:
    rows = np.flatnonzero(chosen & (size > 0))
    depth, first = decoded.config.depth(memory), decoded.columns["sram_base"][rows]
    last = np.minimum(first + size[rows], depth)
    kept = first < last
    return _Ranges(rows[kept].tolist(), first[kept].tolist(), last[kept].tolist(), depth)


def _loaded(ranges: _Ranges, times: Timeline, reads: Mask) -> Counter[int]:
    """Changes of the count, by cycle, of a memory that LOADs write."""
    readers = np.flatnonzero(reads)
    starts, ends = times.start[readers], times.end[readers]

    def released(owner: int, before: int | None) -> int:
        """Gives the end of the last reader that starts before a cycle, but no later than that
        cycle.
        """
        index = len(starts) if before is None else int(np.searchsorted(starts, before))
        end = max(int(ends[index - 1]) if index else 0, int(times.end[owner]))
        return end if before is None else min(end, before)

    changes: Counter[int] = Counter()
    for number, row in enumerate(ranges.rows):
        start = int(times.start[row])
        for owner, count in ranges.take(number).items():
            if owner >= 0:
                changes[released(owner, start)] -= count
        changes[start] += ranges.last[number] - ranges.first[number]
    for owner, count in ranges.rest().items():
        changes[released(owner, None)] -= count
    return changes


def _stored(ranges: _Ranges, times: Timeline, writes: Mask) -> Counter[int]:
    """Changes of the count, by cycle, of the memory that STOREs read."""
    starts = times.start[np.flatnonzero(writes)]
    changes: Counter[int] = Counter()
    for number, row in enumerate(ranges.rows):
        for owner, count in ranges.take(number).items():
            since = int(times.end[owner]) if owner >= 0 else 0
            index = int(np.searchsorted(starts, since))
            first = int(starts[index]) if index < len(starts) else int(times.start[row])
            changes[min(first, int(times.start[row]))] += count
            changes[int(times.end[row])] -= count
    return changes


def _levels(changes: Counter[int]) -> list[tuple[int, int]]:
    level, result = 0, [(0, 0)] if changes and 0 not in changes else []
    for cycle in sorted(changes):
        if changes[cycle]:
            level += changes[cycle]
            result.append((cycle, level))
    return result

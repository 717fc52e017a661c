"""Writes a run as a trace for Perfetto, in the form that ``trace.schema.json`` describes.

What any machine has, slices, arrows and channels, is ``byocir.machine_sim.trace``; here is what VTA
adds: the chunks that fetch reads, scratchpads in use and the bytes of stores.

Which elements GEMM and ALU touch is written in micro-ops, and those are data: the instructions
alone give bounds only. An element of UOP, INP or WGT counts as in use from the start of the LOAD
that writes it to the end of the last instruction that may read it before the next such LOAD. An
element of ACC counts from the start of the first instruction that may write it after the last STORE
of it to the end of the next STORE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim.trace import (
    Event,
    Tracks,
    channel_events,
    counter,
    trace_of,
    trace_text,
    unit_slices,
    write_trace,
)
from byocir.vta_sim.asm import format_instruction
from byocir.vta_sim.config import Memory
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded, Opcode, Queue
from byocir.vta_sim.simulation import Program
from byocir.vta_sim.timing import Timeline, TimingModel, loop_steps
from byocir.vta_sim.timing.instruction_costs import padding
from byocir.vta_sim.token_order import TOKEN_FIFOS, Links, fifo_users, link

__all__ = ["trace_events", "trace_text", "write_trace"]

TRACKS = Tracks("VTA", ["fetch", *(queue.name.lower() for queue in Queue)])
READ_CLIENTS = {int(Queue.LOAD): "load", int(Queue.COMPUTE): "compute", len(Queue): "fetch"}


def trace_events(
    program: Program,
    model: TimingModel | None = None,
    locations: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Makes the trace of one run of ``program`` under ``model`` (default ``TimingModel.de10()``).

    ``locations`` names, for each of the N instructions, what it serves (nodes of a model, tiles);
    "" is none. Raises VTAError V005 for another number of locations, V306 as the timing does.
    """
    decoded = program.decoded
    if locations is not None and len(locations) != len(decoded):
        raise VTAError("V005", f"{len(decoded)} locations", str(len(locations)))
    times = program.time(model or TimingModel.de10())
    links, texts = link(decoded), [format_instruction(i) for i in decoded.instructions()]
    parts = times.start, times.end, times.waits
    events = list(_fetches(times))
    for queue in Queue:
        rows = np.flatnonzero(links.queue == queue).tolist()
        events += unit_slices(TRACKS, queue.name.lower(), rows, parts, texts, locations)
    events += [*_flows(decoded, links, times), *_occupancy(decoded, times)]
    bus = times.model.bus_bytes or 0
    events += channel_events("dram read (bytes per cycle)", times.read_channel, READ_CLIENTS, bus)
    events += _write_bandwidth(decoded, times)
    return trace_of(times.model.name, TRACKS, events, times.cycles)


def _fetches(times: Timeline) -> Iterator[Event]:
    """Makes a slice for each chunk that is fetched, from its request until its last instruction is
    delivered.
    """
    delivered, chunk = times.delivered.tolist(), times.model.fetch_chunk
    for first in range(0, len(delivered), chunk):
        last = min(first + chunk, len(delivered)) - 1
        begin = delivered[first - 1] if first else 0
        name = f"fetch {first}" if first == last else f"fetch {first} to {last}"
        yield TRACKS.slice("fetch", name, "fetch", begin, delivered[last], {})


def _flows(decoded: Decoded, links: Links, times: Timeline) -> Iterator[Event]:
    """Makes an arrow for each token, from the last cycle of the push to the start of the pop."""
    number = 0
    for fifo in TOKEN_FIFOS:
        ends = fifo.producer.name.lower(), fifo.consumer.name.lower()
        for push, pop in zip(*fifo_users(decoded, links, fifo), strict=True):
            number += 1
            cycles = int(times.end[push]) - 1, int(times.start[pop])
            yield from TRACKS.arrow(fifo.name, number, *zip(ends, cycles, strict=True))


def _occupancy(decoded: Decoded, times: Timeline) -> Iterator[Event]:
    for memory, levels in occupancy(decoded, times).items():
        for cycle, level in levels:
            yield counter(f"{memory} elements", cycle, {"elements": level})


def _write_bandwidth(decoded: Decoded, times: Timeline) -> Iterator[Event]:
    """Counts the bytes per cycle on the write channel, averaged over each store."""
    elements = decoded.columns["x_size"] * decoded.columns["y_size"]
    stores = np.flatnonzero((decoded.opcode == Opcode.STORE) & (elements != 0))
    size = decoded.config.element_bytes(Memory.OUT)
    for row, count in zip(stores.tolist(), elements[stores].tolist(), strict=True):
        begin, end = int(times.start[row]), int(times.end[row])
        rate = round(count * size / (end - begin), 3)
        yield counter("dram write (bytes per cycle)", begin, {"store": rate})
        yield counter("dram write (bytes per cycle)", end, {"store": 0})


Cycles = NDArray[np.int64]
Mask = NDArray[np.bool_]


def occupancy(decoded: Decoded, times: Timeline) -> dict[str, list[tuple[int, int]]]:
    """Counts the elements in use by memory (uop, wgt, inp, acc): (cycle, elements from then on),
    where the count changes.
    """
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
    """Keeps which instruction last took each element: instructions come in order of time, each with
    a range of elements.
    """

    def __init__(self, rows: list[int], first: list[int], last: list[int], depth: int) -> None:
        self.rows, self.first, self.last = rows, first, last
        self.owner = np.full(depth, -1, np.int64)

    def take(self, number: int) -> Counter[int]:
        """Gives range ``number`` to its instruction; counts how many elements each owner loses by
        that.
        """
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
    """Gives the changes of the count of elements in use, by cycle, for a memory that LOADs
    write.
    """
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
    """Gives the changes of the count of elements in use, by cycle, for the memory that STOREs
    read.
    """
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

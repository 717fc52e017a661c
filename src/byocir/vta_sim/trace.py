"""A run as a trace for Perfetto, in the form that ``trace.schema.json`` describes.

What any machine has, slices, arrows and channels, is ``byocir.machine_sim.trace``; here is what VTA
adds: the chunks that fetch reads, scratchpads in use and the bytes of stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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
from byocir.vta_sim.occupancy import occupancy
from byocir.vta_sim.simulation import Program
from byocir.vta_sim.timing import Timeline, TimingModel
from byocir.vta_sim.token_order import TOKEN_FIFOS, Links, fifo_users, link

__all__ = ["trace_events", "trace_text", "write_trace"]

TRACKS = Tracks("VTA", ["fetch", *(queue.name.lower() for queue in Queue)])
READ_CLIENTS = {int(Queue.LOAD): "load", int(Queue.COMPUTE): "compute", len(Queue): "fetch"}


def trace_events(
    program: Program,
    model: TimingModel | None = None,
    locations: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Gives the trace of one run of ``program`` under ``model`` (default ``TimingModel.de10()``).

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
    """Gives a slice for each chunk, from its request until its last instruction is delivered."""
    delivered, chunk = times.delivered.tolist(), times.model.fetch_chunk
    for first in range(0, len(delivered), chunk):
        last = min(first + chunk, len(delivered)) - 1
        begin = delivered[first - 1] if first else 0
        name = f"fetch {first}" if first == last else f"fetch {first} to {last}"
        yield TRACKS.slice("fetch", name, "fetch", begin, delivered[last], {})


def _flows(decoded: Decoded, links: Links, times: Timeline) -> Iterator[Event]:
    """Gives an arrow for each token, from the last cycle of the push to the start of the pop."""
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
    """Gives the bytes per cycle on the write channel, averaged over each store."""
    elements = decoded.columns["x_size"] * decoded.columns["y_size"]
    stores = np.flatnonzero((decoded.opcode == Opcode.STORE) & (elements != 0))
    size = decoded.config.element_bytes(Memory.OUT)
    for row, count in zip(stores.tolist(), elements[stores].tolist(), strict=True):
        begin, end = int(times.start[row]), int(times.end[row])
        rate = round(count * size / (end - begin), 3)
        yield counter("dram write (bytes per cycle)", begin, {"store": rate})
        yield counter("dram write (bytes per cycle)", end, {"store": 0})

"""A run as a trace in Chrome's event format, for Perfetto (ui.perfetto.dev) or chrome://tracing.

One track per unit with a slice per instruction, inside a slice per location if there are some;
arrows for tokens; counters for scratchpads and DRAM. One microsecond stands for one cycle. The
form is described by ``trace.schema.json``, the format by "Trace Event Format" (Google, catapult
project).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from byocir.vta_sim.asm import format_instruction
from byocir.vta_sim.config import Memory
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded, Opcode
from byocir.vta_sim.occupancy import occupancy
from byocir.vta_sim.simulation import Program
from byocir.vta_sim.timing import Timeline, TimingModel
from byocir.vta_sim.tokens import TOKEN_FIFOS, Links, Queue, link

Event = dict[str, Any]
PROCESS = 1
TRACKS = {"fetch": 1, "load": 2, "compute": 3, "store": 4}
READ_CLIENTS = {Queue.LOAD: "load", Queue.COMPUTE: "compute"}


def trace_events(
    program: Program,
    model: TimingModel | None = None,
    locations: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The trace of one run of ``program`` under ``model`` (default ``TimingModel.de10()``).

    ``locations`` names, for each of the N instructions, what it serves (nodes of a model, tiles);
    "" is none. Raises VTAError V005 for another number of locations, V306 as the timing does.
    """
    decoded = program.decoded
    if locations is not None and len(locations) != len(decoded):
        raise VTAError("V005", f"{len(decoded)} locations", str(len(locations)))
    times = program.time(model or TimingModel.de10())
    links = link(decoded)
    events = [*_fetches(times), *_slices(decoded, links, times, locations)]
    events += [*_flows(decoded, links, times), *_occupancy(decoded, times)]
    events += [*_read_bandwidth(times), *_write_bandwidth(decoded, times)]
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
    other = {"cycles": times.cycles, "model": times.model.name, "time unit": "1 us is 1 cycle"}
    return {"traceEvents": [*_names(), *events], "displayTimeUnit": "ns", "otherData": other}


def trace_text(trace: dict[str, Any]) -> str:
    """A trace as JSON, one event a line; the same trace gives the same text."""
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    lines = ",\n".join(json.dumps(event, sort_keys=True) for event in trace["traceEvents"])
    fields = json.dumps(head, sort_keys=True).removeprefix("{")
    return f'{{"traceEvents": [\n{lines}\n], {fields}\n'


def write_trace(trace: dict[str, Any], path: Path) -> None:
    """Write a trace as JSON; see ``trace_text``."""
    path.write_text(trace_text(trace), encoding="utf-8")


def _names() -> Iterator[Event]:
    common = {"ph": "M", "pid": PROCESS}
    yield common | {"name": "process_name", "tid": 0, "args": {"name": "VTA"}}
    for name, track in TRACKS.items():
        yield common | {"name": "thread_name", "tid": track, "args": {"name": name}}
        yield common | {"name": "thread_sort_index", "tid": track, "args": {"sort_index": track}}


def _slice(track: str, name: str, category: str, begin: int, end: int, args: Event) -> Event:
    place: Event = {"pid": PROCESS, "tid": TRACKS[track], "ts": begin, "dur": end - begin}
    return {"ph": "X", "name": name, "cat": category, "args": args} | place


def _fetches(times: Timeline) -> Iterator[Event]:
    """A slice for each chunk, from its request until its last instruction is delivered."""
    delivered, chunk = times.delivered.tolist(), times.model.fetch_chunk
    for first in range(0, len(delivered), chunk):
        last = min(first + chunk, len(delivered)) - 1
        begin = delivered[first - 1] if first else 0
        name = f"fetch {first}" if first == last else f"fetch {first} to {last}"
        yield _slice("fetch", name, "fetch", begin, delivered[last], {})


def _slices(
    decoded: Decoded, links: Links, times: Timeline, locations: Sequence[str] | None
) -> Iterator[Event]:
    """The slices of load, compute and store."""
    instructions = decoded.instructions()
    start, end = times.start.tolist(), times.end.tolist()
    waits = {cause: waited.tolist() for cause, waited in times.waits.items()}
    for queue in Queue:
        track, rows = queue.name.lower(), np.flatnonzero(links.queue == queue).tolist()
        if locations is not None:
            for location, members in groupby(rows, key=lambda row: locations[row]):
                group = list(members)
                if location:
                    begin, stop = start[group[0]], end[group[-1]]
                    yield _slice(track, location, "location", begin, stop, {})
        for row in rows:
            args: Event = {"index": row}
            args |= {f"waited for {cause}": w[row] for cause, w in waits.items() if w[row]}
            if locations is not None and locations[row]:
                args["location"] = locations[row]
            name = format_instruction(instructions[row])
            yield _slice(track, name, "instruction", start[row], end[row], args)


def _flows(decoded: Decoded, links: Links, times: Timeline) -> Iterator[Event]:
    """An arrow for each token, from the last cycle of the push to the start of the pop."""
    number = 0
    for fifo in TOKEN_FIFOS:
        pushing = (links.queue == fifo.producer) & (decoded.columns[fifo.push] != 0)
        popping = (links.queue == fifo.consumer) & (decoded.columns[fifo.pop] != 0)
        pushed, popped = times.end[pushing].tolist(), times.start[popping].tolist()
        for begin, stop in zip(pushed, popped, strict=True):
            number += 1
            common: Event = {"name": fifo.name, "cat": "token", "id": number, "pid": PROCESS}
            yield common | {"ph": "s", "ts": begin - 1, "tid": TRACKS[fifo.producer.name.lower()]}
            stop_at = {"ph": "f", "bp": "e", "ts": stop}
            yield common | stop_at | {"tid": TRACKS[fifo.consumer.name.lower()]}


def _counter(name: str, cycle: int, values: dict[str, int | float]) -> Event:
    return {"ph": "C", "name": name, "pid": PROCESS, "ts": cycle, "args": values}


def _occupancy(decoded: Decoded, times: Timeline) -> Iterator[Event]:
    for memory, levels in occupancy(decoded, times).items():
        for cycle, level in levels:
            yield _counter(f"{memory} elements", cycle, {"elements": level})


def _read_bandwidth(times: Timeline) -> Iterator[Event]:
    """Bytes per cycle on the read channel by client: the whole bus for one, or nothing."""
    bus = times.model.bus_bytes or 0
    clients = [*READ_CLIENTS.values(), "fetch"]
    spans: list[list[int]] = times.read_channel.tolist()
    for number, (client, begin, end) in enumerate(spans):
        served = READ_CLIENTS.get(Queue(client), "") if client in READ_CLIENTS else "fetch"
        values: dict[str, int | float] = {name: bus * (name == served) for name in clients}
        yield _counter("dram read (bytes per cycle)", begin, values)
        if number + 1 == len(spans) or spans[number + 1][1] > end:
            idle: dict[str, int | float] = dict.fromkeys(clients, 0)
            yield _counter("dram read (bytes per cycle)", end, idle)


def _write_bandwidth(decoded: Decoded, times: Timeline) -> Iterator[Event]:
    """Bytes per cycle on the write channel, averaged over each store."""
    elements = decoded.columns["x_size"] * decoded.columns["y_size"]
    stores = np.flatnonzero((decoded.opcode == Opcode.STORE) & (elements != 0))
    size = decoded.config.element_bytes(Memory.OUT)
    for row, count in zip(stores.tolist(), elements[stores].tolist(), strict=True):
        begin, end = int(times.start[row]), int(times.end[row])
        rate = round(count * size / (end - begin), 3)
        yield _counter("dram write (bytes per cycle)", begin, {"store": rate})
        yield _counter("dram write (bytes per cycle)", end, {"store": 0})

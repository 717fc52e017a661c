"""Writes a run as a trace in Chrome's event format, for Perfetto (ui.perfetto.dev) or
chrome://tracing.

One track for the sequencer and one for each unit with a slice for each instruction, inside a slice
for each location if there are some; arrows for tokens; counters for channels. One microsecond
stands for one cycle. The format is described by "Trace Event Format" (Google, catapult project).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from byocir.machine_sim.model import MachineModel, Program
from byocir.machine_sim.order import token_users
from byocir.machine_sim.timing import Cycles, Times

Event = dict[str, Any]
PROCESS = 1


@dataclass(frozen=True)
class Tracks:
    """Makes the events of a machine whose tracks have these names, from the topmost one down."""

    machine: str
    names: Sequence[str]

    def _number(self, track: str) -> int:
        return 1 + self.names.index(track)

    def heads(self) -> Iterator[Event]:
        """Makes the events that name all tracks, in their order."""
        common = {"ph": "M", "pid": PROCESS}
        yield common | {"name": "process_name", "tid": 0, "args": {"name": self.machine}}
        for track, name in enumerate(self.names, 1):
            yield common | {"name": "thread_name", "tid": track, "args": {"name": name}}
            yield common | {
                "name": "thread_sort_index",
                "tid": track,
                "args": {"sort_index": track},
            }

    def slice(
        self, track: str, name: str, category: str, begin: int, end: int, args: Event
    ) -> Event:
        """Makes a slice, which stands for something that takes cycles."""
        place: Event = {"pid": PROCESS, "tid": self._number(track), "ts": begin, "dur": end - begin}
        return {"ph": "X", "name": name, "cat": category, "args": args} | place

    def arrow(
        self, name: str, number: int, start: tuple[str, int], stop: tuple[str, int]
    ) -> Iterator[Event]:
        """Makes an arrow from one track in some cycle to another track in another cycle."""
        common: Event = {"name": name, "cat": "token", "id": number, "pid": PROCESS}
        yield common | {"ph": "s", "ts": start[1], "tid": self._number(start[0])}
        yield common | {"ph": "f", "bp": "e", "ts": stop[1], "tid": self._number(stop[0])}


def counter(name: str, cycle: int, values: Mapping[str, int | float]) -> Event:
    """Makes the event that shows these numbers from a cycle on."""
    return {"ph": "C", "name": name, "pid": PROCESS, "ts": cycle, "args": dict(values)}


def channel_events(
    name: str, spans: Cycles, clients: Mapping[int, str], rate: int = 1
) -> Iterator[Event]:
    """Makes events that count the share of a channel which each client has: all of it, `rate`, or
    nothing. `spans` are as in Times.
    """
    served: list[list[int]] = spans.tolist()
    for number, (client, begin, end) in enumerate(served):
        yield counter(name, begin, {n: rate * (i == client) for i, n in clients.items()})
        if number + 1 == len(served) or served[number + 1][1] > end:
            yield counter(name, end, dict.fromkeys(clients.values(), 0))


def unit_slices(
    tracks: Tracks,
    track: str,
    rows: Sequence[int],
    times: tuple[Cycles, Cycles, Mapping[str, Cycles]],
    texts: Sequence[str],
    locations: Sequence[str] | None = None,
) -> Iterator[Event]:
    """Makes the slices of the instructions `rows` of a unit. `times` are all starts and ends, and
    the cycles waited by cause; `texts` and `locations` say what each instruction is and serves (""
    for nothing).
    """
    start, end = times[0].tolist(), times[1].tolist()
    waits = {cause: waited[rows].tolist() for cause, waited in times[2].items()}
    if locations is not None:
        for location, members in groupby(rows, key=lambda row: locations[row]):
            group = list(members)
            if location:
                yield tracks.slice(track, location, "location", start[group[0]], end[group[-1]], {})
    for number, row in enumerate(rows):
        args: Event = {"index": row}
        args |= {f"waited for {cause}": w[number] for cause, w in waits.items() if w[number]}
        if locations is not None and locations[row]:
            args["location"] = locations[row]
        yield tracks.slice(track, texts[row], "instruction", start[row], end[row], args)


def trace_of(machine: str, tracks: Tracks, events: Sequence[Event], cycles: int) -> dict[str, Any]:
    """Makes the trace of some events; `machine` names the model by which they were timed."""
    ordered = sorted(events, key=lambda event: (event["ts"], -event.get("dur", 0)))
    other = {"cycles": cycles, "model": machine, "time unit": "1 us is 1 cycle"}
    heads = list(tracks.heads())
    return {"traceEvents": [*heads, *ordered], "displayTimeUnit": "ns", "otherData": other}


def program_trace(
    name: str,
    model: MachineModel,
    program: Program,
    times: Times,
    texts: Sequence[str],
    locations: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Makes the trace of one run of a program on a machine of some `name`. `texts` say what each
    instruction is, `locations` what it serves, such as nodes of a model; "" is nothing.
    """
    units = [unit.name for unit in model.units]
    tracks = Tracks(name, units)
    events: list[Event] = []
    for unit, track in enumerate(units):
        rows = np.flatnonzero(program.unit == unit).tolist()
        parts = times.start, times.end, times.waits
        events += unit_slices(tracks, track, rows, parts, texts, locations)
    events += _tokens(model, program, times, tracks)
    clients = {**dict(enumerate(units)), len(units): "sequencer"}
    for channel, spans in zip(model.channels, times.channels, strict=True):
        events += channel_events(channel, spans, clients)
    return trace_of(name, tracks, events, times.cycles)


def _tokens(model: MachineModel, program: Program, times: Times, tracks: Tracks) -> Iterator[Event]:
    """Makes an arrow for each token, from the last cycle of the push to the start of the pop."""
    number = 0
    for index, queue in enumerate(model.tokens):
        for push, pop in zip(*token_users(program, index), strict=False):
            number += 1
            ends = (model.units[int(program.unit[each])].name for each in (push, pop))
            cycles = int(times.end[push]) - 1, int(times.start[pop])
            yield from tracks.arrow(queue.name, number, *zip(ends, cycles, strict=True))


def trace_text(trace: dict[str, Any]) -> str:
    """Writes a trace as JSON, one event a line; the same trace gives the same text."""
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    lines = ",\n".join(json.dumps(event, sort_keys=True) for event in trace["traceEvents"])
    fields = json.dumps(head, sort_keys=True).removeprefix("{")
    return f'{{"traceEvents": [\n{lines}\n], {fields}\n'


def write_trace(trace: dict[str, Any], path: Path) -> None:
    """Writes a trace as JSON to a file; see ``trace_text``."""
    path.write_text(trace_text(trace), encoding="utf-8")

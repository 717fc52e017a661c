"""When every instruction of a stream runs, and what every cycle of every unit goes to."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.isa import INSN_BYTES, Decoded, Opcode, decode
from byocir.vta_sim.timing.model import TimingModel
from byocir.vta_sim.timing.servers import Servers
from byocir.vta_sim.timing.work import (
    Cycles,
    Work,
    element_bytes,
    fetch_beats,
    loop_cycles,
    store_cycles,
    work_of,
)
from byocir.vta_sim.tokens import Links, Queue, check_finish, check_form, link, schedule


@dataclass(frozen=True)
class UnitTime:
    """Where the cycles of one unit go; the six add up to the cycles of the run.

    ``busy``: it works. Else it waits: for a ``token``; for ``dram`` (latency, and other units'
    turns on the read channel); for ``fetch`` to deliver; for room in a full ``queue`` of commands
    or tokens; or it is ``drained``, with nothing left to do.
    """

    busy: int
    token: int
    dram: int
    fetch: int
    queue: int
    drained: int

    def to_dict(self) -> dict[str, int]:
        """The six by name."""
        return asdict(self)


@dataclass(frozen=True)
class Timeline:
    """Times of N instructions in cycles; int64 [N] arrays are in stream order.

    ``delivered``: when fetch hands the instruction to its queue; ``start``, ``end``: when it runs.
    ``waits``: by cause, what its unit waited before, in (``dram``) or after (``queue``) it.
    ``cycles``: the whole run. ``units``: by ``fetch``, ``load``, ``compute`` and ``store``.
    ``busy``: cycles of work by kind of instruction, see ``units_of``. ``bounds``: cycles that the
    run takes at least, see ``bounds_of``. ``read_channel`` int64 [S, 3]: spans in which the DRAM
    read channel serves a client (0 load, 1 compute, 3 fetch): client, first cycle, last cycle + 1.
    """

    model: TimingModel
    delivered: Cycles
    start: Cycles
    end: Cycles
    waits: dict[str, Cycles]
    cycles: int
    units: dict[str, UnitTime]
    busy: dict[str, int]
    bounds: dict[str, int]
    read_channel: NDArray[np.int64]

    @property
    def worked(self) -> Cycles:
        """Cycles in which each instruction's unit worked on it; int64 [N]."""
        return self.end - self.start - self.waits["dram"]

    @property
    def efficiency(self) -> float:
        """The largest bound as a share of the cycles; 1 cannot be exceeded."""
        return max(self.bounds.values()) / self.cycles if self.cycles else 1.0


def estimate(
    insns: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    model: TimingModel | None = None,
) -> Timeline:
    """Time a stream (uint8 [N, 16]) without running it.

    Raises VTAError for a stream that is malformed, deadlocks or does not end in FINISH.
    """
    decoded = decode(insns, config)
    check_form(decoded)
    links = link(decoded)
    schedule(decoded, links)
    check_finish(decoded, links)
    return timeline(decoded, links, model)


def timeline(decoded: Decoded, links: Links, model: TimingModel | None = None) -> Timeline:
    """As ``estimate``, for a stream already decoded, linked and found correct.

    Raises VTAError V306 if it deadlocks because the model's queues are full.
    """
    model = model or TimingModel.de10()
    work = work_of(decoded, model)
    servers = Servers(decoded, links, work, model)
    servers.run()
    delivered, start, end = (
        np.array(times, np.int64) for times in (servers.delivered, servers.start, servers.end)
    )
    freed, ready = np.array(servers.freed, np.int64), np.array(servers.ready, np.int64)
    free = _free_before(links, freed)
    waits = {
        "token": start - np.maximum(free, delivered),
        "dram": end - start - work.busy,
        "fetch": np.maximum(delivered - free, 0),
        "queue": freed - end,
    }
    cycles = int(freed.max(initial=0))
    units = {"fetch": _fetch_time(delivered, ready, model, cycles)}
    for queue in Queue:
        units[queue.name.lower()] = _unit_time(links.queue == queue, work, waits, cycles)
    kinds = units_of(decoded)
    busy = {name: int(work.busy[rows].sum()) for name, rows in kinds.items()}
    spans = np.array(servers.channel.spans, np.int64).reshape(-1, 3)
    bounds = bounds_of(decoded, model)
    return Timeline(model, delivered, start, end, waits, cycles, units, busy, bounds, spans)


def _free_before(links: Links, freed: Cycles) -> Cycles:
    """When the unit of each instruction was done with the one before."""
    free = np.zeros_like(freed)
    for queue in Queue:
        rows = np.flatnonzero(links.queue == queue)
        free[rows[1:]] = freed[rows[:-1]]
    return free


def _unit_time(
    rows: NDArray[np.bool_], work: Work, waits: dict[str, Cycles], cycles: int
) -> UnitTime:
    busy = int(work.busy[rows].sum())
    waited = {cause: int(times[rows].sum()) for cause, times in waits.items()}
    return UnitTime(busy=busy, drained=cycles - busy - sum(waited.values()), **waited)


def _fetch_time(delivered: Cycles, ready: Cycles, model: TimingModel, cycles: int) -> UnitTime:
    count = len(delivered)
    last = int(delivered.max(initial=0))
    busy = _fetch_channel(count, model) + count * model.issue
    queue = int((delivered - ready).sum())
    return UnitTime(busy, 0, last - busy - queue, 0, queue, cycles - last)


def _fetch_channel(count: int, model: TimingModel) -> int:
    """Beats of the read channel to fetch ``count`` instructions."""
    chunks, rest = divmod(count, model.fetch_chunk)
    return chunks * fetch_beats(model, model.fetch_chunk) + fetch_beats(model, rest)


def units_of(decoded: Decoded) -> dict[str, NDArray[np.bool_]]:
    """The instructions of each kind, bool [N] by kind; each instruction is of one kind.

    ``load`` and ``store`` are all that those units do; compute does the others.
    """
    opcode, memory = decoded.opcode, decoded.columns["memory_type"]
    loads = opcode == Opcode.LOAD
    return {
        "load": loads & ((memory == Memory.INP) | (memory == Memory.WGT)),
        "gemm": opcode == Opcode.GEMM,
        "alu": opcode == Opcode.ALU,
        "store": opcode == Opcode.STORE,
        "uop_load": loads & (memory == Memory.UOP),
        "acc_load": loads & ((memory == Memory.ACC) | (memory == Memory.ACC_8BIT)),
        "finish": opcode == Opcode.FINISH,
    }


def bounds_of(decoded: Decoded, model: TimingModel) -> dict[str, int]:
    """Cycles that no order of the instructions can undercut.

    ``load``: the bytes of all loads and instructions over one read channel; ``gemm``, ``alu``: the
    steps of all loops of that kind; ``store``: the elements of all stores.
    """
    columns, opcode = decoded.columns, decoded.opcode
    moved = columns["x_size"] * columns["y_size"] * element_bytes(decoded)
    read = int(moved[opcode == Opcode.LOAD].sum()) + INSN_BYTES * len(decoded)
    steps = loop_cycles(decoded, model)
    return {
        "load": -(-read // model.bus_bytes) if model.bus_bytes else 0,
        "gemm": int(steps[opcode == Opcode.GEMM].sum()),
        "alu": int(steps[opcode == Opcode.ALU].sum()),
        "store": int(store_cycles(decoded, model).sum()),
    }

"""A first cycle model: three servers, a fetch unit, a shared read channel and a write channel.

Time depends on the instructions and not on data. Load, compute and store run in parallel, each in
stream order; tokens and fetch hold an instruction back, and loads of all modules share one DRAM
read channel, granted in order of start. The only user of the write channel is store, which is
serial, so it is never contended. Initiation intervals, beats and the DRAM latency are read from
tvm-vta's Chisel sources (``hardware/chisel``); values marked estimate are not measured. Fetch is
not charged for the read channel, and command queues are unbounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.isa import Decoded, Opcode, decode
from byocir.vta_sim.tokens import Links, Queue, check_finish, check_form, link, schedule

Cycles = NDArray[np.int64]


@dataclass(frozen=True)
class TimingModel:
    """Constants in cycles and bytes; the defaults are those of upstream's tsim (DefaultDe10Config).

    An element-wise unit takes ``interval`` cycles per micro-op step plus ``pipeline_fill``.
    """

    fetch: int = 2  # 16 bytes per instruction at 8 bytes per cycle
    nop: int = 2  # compute FSM: idle, sync
    finish: int = 2
    pipeline_fill: int = 7  # GEMM, ALU: start, generator, drain, done (estimate)
    gemm_interval: int = 1
    alu_immediate_interval: int = 1
    alu_register_interval: int = 2  # one read port of ACC
    bus_bytes: int = 8  # per cycle and direction
    read_latency: int = 24  # 16 of DRAM plus FSM and queues (estimate)
    burst_bytes: int = 128  # 16 beats; bursts do not cross a multiple of it
    write_burst: int = 7  # request and acknowledge of one write burst (estimate)
    store_element: int = 1  # SRAM read before the beats of each element


@dataclass(frozen=True)
class Timeline:
    """Cycle in which each instruction starts and ends (int64 [N]), and the totals.

    ``cycles``: end of the last instruction. ``busy``: cycles per unit (``load``, ``gemm``, ``alu``,
    ``store``, ``uop_load``, ``acc_load``, ``finish``) during which one of its instructions ran,
    waiting for the read channel included.
    """

    start: Cycles
    end: Cycles
    cycles: int
    busy: dict[str, int]


@dataclass(frozen=True)
class _Work:
    """Per instruction, int64 [N]: cycles in its module, of them ``lead`` before its ``beats``."""

    cycles: Cycles
    lead: Cycles
    beats: Cycles


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
    """As ``estimate``, for a stream already decoded, linked and known not to deadlock."""
    work = _work(decoded, model or TimingModel())
    start, end = _serve(links, work, (model or TimingModel()).fetch)
    cycles = int(end.max()) if len(end) else 0
    units = units_of(decoded)
    busy = {name: int((end - start)[rows].sum()) for name, rows in units.items()}
    return Timeline(start, end, cycles, busy)


def units_of(decoded: Decoded) -> dict[str, NDArray[np.bool_]]:
    """Which instructions each unit executes; bool [N] by unit, each instruction in one unit."""
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


def loop_steps(decoded: Decoded) -> Cycles:
    """Micro-op executions of each GEMM and ALU instruction, 0 for the others; int64 [N]."""
    columns = decoded.columns
    uops = np.maximum(columns["uop_end"] - columns["uop_bgn"], 0)
    return columns["iter_out"] * columns["iter_in"] * uops


def _work(decoded: Decoded, model: TimingModel) -> _Work:
    opcode, columns = decoded.opcode, decoded.columns
    steps = loop_steps(decoded)
    register = model.alu_register_interval, model.alu_immediate_interval
    interval = np.where(columns["use_imm"] != 0, register[1], register[0])
    cycles = np.full(len(decoded), model.nop, np.int64)
    cycles[opcode == Opcode.FINISH] = model.finish
    gemm, alu = opcode == Opcode.GEMM, opcode == Opcode.ALU
    cycles[gemm] = steps[gemm] * model.gemm_interval + model.pipeline_fill
    cycles[alu] = steps[alu] * interval[alu] + model.pipeline_fill
    lead, beats = np.zeros_like(cycles), np.zeros_like(cycles)
    busy = columns["x_size"] != 0
    loads = np.flatnonzero((opcode == Opcode.LOAD) & busy)
    beats[loads], pads = _load_work(decoded, loads, model)
    lead[loads] = model.read_latency
    cycles[loads] = model.read_latency + np.maximum(beats[loads], pads)
    stores = np.flatnonzero((opcode == Opcode.STORE) & busy)
    cycles[stores] = np.maximum(_store_work(decoded, stores, model), model.nop)
    return _Work(cycles, lead, beats)


def _element_bytes(decoded: Decoded, rows: Cycles) -> Cycles:
    sizes = np.array([decoded.config.element_bytes(memory) for memory in Memory], np.int64)
    return sizes[decoded.columns["memory_type"][rows]]


def _load_work(decoded: Decoded, rows: Cycles, model: TimingModel) -> tuple[Cycles, Cycles]:
    """Data beats and padding elements (one a cycle) of the LOADs at ``rows``."""
    c = {name: column[rows] for name, column in decoded.columns.items()}
    row_bytes = c["x_size"] * _element_bytes(decoded, rows)
    beats = c["y_size"] * -(-row_bytes // model.bus_bytes)
    width = c["x_pad_0"] + c["x_size"] + c["x_pad_1"]
    height = c["y_pad_0"] + c["y_size"] + c["y_pad_1"]
    return beats, width * height - c["x_size"] * c["y_size"]


def _store_work(decoded: Decoded, rows: Cycles, model: TimingModel) -> Cycles:
    """Cycles of the STOREs at ``rows``: each DRAM row is cut into bursts, one at a time."""
    c = {name: column[rows] for name, column in decoded.columns.items()}
    size, heights = _element_bytes(decoded, rows), c["y_size"]
    owner = np.repeat(np.arange(len(rows)), heights)
    row = np.arange(len(owner)) - np.repeat(np.cumsum(heights) - heights, heights)
    first = (c["dram_base"][owner] + row * c["x_stride"][owner]) * size[owner]
    last = first + (c["x_size"] * size)[owner] - 1
    touched = last // model.burst_bytes - first // model.burst_bytes + 1
    bursts = np.zeros(len(rows), np.int64)
    np.add.at(bursts, owner, touched)
    per_element = -(-size // model.bus_bytes) + model.store_element
    return bursts * model.write_burst + c["x_size"] * heights * per_element


def _serve(links: Links, work: _Work, fetch: int) -> tuple[Cycles, Cycles]:
    """Start and end of each instruction: always serve the queue head that can start first.

    Heads whose tokens are not made yet start no earlier than the one served, so the read channel
    is granted in order of time.
    """
    cycles, lead, beats = work.cycles.tolist(), work.lead.tolist(), work.beats.tolist()
    rows = [np.flatnonzero(links.queue == queue).tolist() for queue in Queue]
    pairs: list[list[int]] = links.waits.tolist()
    waits = [[wait for wait in pair if wait >= 0] for pair in pairs]
    start, end = [-1] * len(cycles), [-1] * len(cycles)
    heads, free, channel = [0, 0, 0], [0, 0, 0], 0
    for _ in range(len(cycles)):
        best, chosen = -1, -1
        for queue in Queue:
            if heads[queue] == len(rows[queue]):
                continue
            index = rows[queue][heads[queue]]
            if any(end[wait] < 0 for wait in waits[index]):
                continue
            at = max(free[queue], fetch * (index + 1), *(end[wait] for wait in waits[index]), 0)
            if chosen < 0 or at < best:
                best, chosen = at, int(queue)
        index = rows[chosen][heads[chosen]]
        begin = max(best + lead[index], channel) if beats[index] else best + lead[index]
        start[index], end[index] = best, begin + cycles[index] - lead[index]
        if beats[index]:
            channel = begin + beats[index]
        free[chosen] = end[index]
        heads[chosen] += 1
    return np.array(start, np.int64), np.array(end, np.int64)

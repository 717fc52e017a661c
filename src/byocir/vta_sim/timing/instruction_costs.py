"""Computes the costs of each instruction by itself: cycles of its unit and beats of the read
channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim import Costs
from byocir.vta_sim.config import Memory
from byocir.vta_sim.isa import INSN_BYTES, Decoded, Opcode
from byocir.vta_sim.timing.parameters import TimingModel

Cycles = NDArray[np.int64]


class Rank(IntEnum):
    """Orders the clients of the read channel by priority (``core/Core.scala`` wires fetch, uop,
    inp, wgt, acc).
    """

    FETCH = 0
    UOP = 1
    LOAD = 2
    ACC = 3


@dataclass(frozen=True)
class StreamWork:
    """Counts the work of a stream, per instruction: int64 [N].

    ``busy``: cycles in which its unit works. ``lead``: cycles from its start to its request of the
    read channel; the instruction takes at least ``max(busy, lead)``. ``beats``: cycles of the read
    channel; ``rank`` of its request.
    """

    busy: Cycles
    lead: Cycles
    beats: Cycles
    rank: Cycles

    @property
    def costs(self) -> Costs:
        """Gives the costs as lists: results are there when an instruction ends, and all reads share
        one channel.
        """
        columns = (self.busy, self.lead, self.beats, self.rank)
        zeros = [0] * len(self.busy)
        return Costs(*(column.tolist() for column in columns), channel=zeros, latency=zeros)


def work_of(decoded: Decoded, model: TimingModel) -> StreamWork:
    """Computes the work of each instruction of a stream."""
    opcode, columns = decoded.opcode, decoded.columns
    memory = columns["memory_type"]
    busy = np.full(len(decoded), model.nop, np.int64)
    busy[opcode == Opcode.FINISH] = model.finish
    computing = (opcode == Opcode.GEMM) | (opcode == Opcode.ALU)
    busy[computing] = (loop_cycles(decoded, model) + model.pipeline_fill)[computing]
    lead, beats = np.zeros_like(busy), np.zeros_like(busy)
    moving = columns["x_size"] != 0
    loads = (opcode == Opcode.LOAD) & moving
    beats[loads] = _load_beats(decoded, model)[loads]
    busy[loads] = model.load_overhead + beats[loads] + padding(decoded)[loads]
    lead[loads & (columns["y_size"] != 0)] = model.load_overhead + model.dram_latency
    stores = np.flatnonzero((opcode == Opcode.STORE) & moving & (columns["y_size"] != 0))
    busy[stores] = store_cycles(decoded, model)[stores]
    busy = np.maximum(busy, 1)
    waiting = model.write_latency + model.write_burst * _bursts(decoded, stores, model)
    lead[stores] = busy[stores] + waiting
    rank = np.full(len(decoded), Rank.LOAD, np.int64)
    rank[memory == Memory.UOP] = Rank.UOP
    rank[(memory == Memory.ACC) | (memory == Memory.ACC_8BIT)] = Rank.ACC
    return StreamWork(busy, lead, beats, rank)


def fetch_beats(model: TimingModel, instructions: int) -> int:
    """Counts the cycles of the read channel that fetching so many instructions in one request
    takes.
    """
    return -(-instructions * INSN_BYTES // model.bus_bytes) if model.bus_bytes else 0


def loop_steps(decoded: Decoded) -> Cycles:
    """Counts how often each GEMM and ALU instruction executes a micro-op, 0 for the others; int64
    [N].
    """
    columns = decoded.columns
    uops = np.maximum(columns["uop_end"] - columns["uop_bgn"], 0)
    return columns["iter_out"] * columns["iter_in"] * uops


def loop_cycles(decoded: Decoded, model: TimingModel) -> Cycles:
    """Counts the cycles of the steps of each GEMM and ALU instruction, without filling the
    pipeline.
    """
    alu = decoded.opcode == Opcode.ALU
    immediate = decoded.columns["use_imm"] != 0
    interval = np.where(immediate, model.alu_immediate_interval, model.alu_register_interval)
    return loop_steps(decoded) * np.where(alu, interval, model.gemm_interval)


def padding(decoded: Decoded) -> Cycles:
    """Counts the zero elements that each LOAD writes, one a cycle; 0 for the others; int64 [N]."""
    c = decoded.columns
    width = c["x_pad_0"] + c["x_size"] + c["x_pad_1"]
    height = c["y_pad_0"] + c["y_size"] + c["y_pad_1"]
    writes = (decoded.opcode == Opcode.LOAD) & (c["x_size"] != 0)
    return np.where(writes, width * height - c["x_size"] * c["y_size"], 0)


def element_bytes(decoded: Decoded) -> Cycles:
    """Gives the bytes in DRAM of one element that each LOAD and STORE moves; int64 [N]."""
    sizes = np.zeros(8, np.int64)  # memory ids 6 and 7 occur on instructions that move nothing
    sizes[: len(Memory)] = [decoded.config.element_bytes(memory) for memory in Memory]
    return sizes[decoded.columns["memory_type"]]


def store_cycles(decoded: Decoded, model: TimingModel) -> Cycles:
    """Counts the cycles of each STORE without waiting for DRAM: its elements, one after the
    other.
    """
    c = decoded.columns
    per_element = _beats(element_bytes(decoded), model) + model.store_element
    return np.where(decoded.opcode == Opcode.STORE, c["x_size"] * c["y_size"] * per_element, 0)


def _beats(size: Cycles, model: TimingModel) -> Cycles:
    return -(-size // model.bus_bytes) if model.bus_bytes else np.zeros_like(size)


def _load_beats(decoded: Decoded, model: TimingModel) -> Cycles:
    c = decoded.columns
    return c["y_size"] * _beats(c["x_size"] * element_bytes(decoded), model)


def _bursts(decoded: Decoded, rows: Cycles, model: TimingModel) -> Cycles:
    """Counts the write bursts of the STOREs at ``rows``: each DRAM row is cut at multiples of a
    burst.

    Where a row begins inside a burst repeats after at most ``burst_bytes`` rows, so only that many
    are looked at, each with the number of times it occurs.
    """
    c = {name: column[rows] for name, column in decoded.columns.items()}
    size, burst = element_bytes(decoded)[rows], model.burst_bytes
    pitch, height = c["x_stride"] * size, c["y_size"]
    period = np.minimum(height, burst // np.gcd(pitch, burst))
    owner = np.repeat(np.arange(len(rows)), period)
    row = np.arange(len(owner)) - np.repeat(np.cumsum(period) - period, period)
    times = (height[owner] - row - 1) // period[owner] + 1
    first = (c["dram_base"] * size)[owner] + row * pitch[owner]
    last = first + (c["x_size"] * size)[owner] - 1
    bursts = np.zeros(len(rows), np.int64)
    np.add.at(bursts, owner, (last // burst - first // burst + 1) * times)
    return bursts

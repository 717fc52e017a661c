"""Times every instruction of a stream, and counts the cycles of every unit by cause."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from byocir import machine_sim
from byocir.errors import Lines
from byocir.machine_sim import MachineModel, Sequencer, Stuck, Times, TokenQueue, Unit, Waits
from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import INSN_BYTES, Decoded, Opcode, Queue, decode
from byocir.vta_sim.timing.instruction_costs import (
    Cycles,
    Rank,
    element_bytes,
    fetch_beats,
    loop_cycles,
    store_cycles,
    work_of,
)
from byocir.vta_sim.timing.parameters import TimingModel
from byocir.vta_sim.token_order import (
    TOKEN_FIFOS,
    Links,
    check_finish,
    check_form,
    fifo_users,
    link,
    schedule,
)


@dataclass(frozen=True)
class UnitTime:
    """Counts the cycles of one unit by cause; the six add up to the cycles of the run.

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
        """Gives the six causes by name."""
        return asdict(self)


@dataclass(frozen=True)
class Timeline:
    """Lists the times at which N instructions run, in cycles; int64 [N] arrays are in stream order.

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
        """Counts the cycles in which each instruction's unit worked on it; int64 [N]."""
        return self.end - self.start - self.waits["dram"]

    @property
    def efficiency(self) -> float:
        """Gives the largest lower bound as a share of the cycles; it is 1 at most."""
        return max(self.bounds.values()) / self.cycles if self.cycles else 1.0


def estimate(
    insns: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    model: TimingModel | None = None,
) -> Timeline:
    """Times a stream (uint8 [N, 16]) without running it.

    Raises VTAError for a stream that is malformed, deadlocks or does not end in FINISH.
    """
    decoded = decode(insns, config)
    check_form(decoded)
    links = link(decoded)
    schedule(decoded, links)
    check_finish(decoded, links)
    return timeline(decoded, links, model)


def timeline(decoded: Decoded, links: Links, model: TimingModel | None = None) -> Timeline:
    """Times a stream as ``estimate`` does, which is already decoded, linked and found correct.

    Raises VTAError V306 if it deadlocks because the model's queues are full.
    """
    model = model or TimingModel.de10()
    times, busy = _times(decoded, links, model)
    waits = {CAUSES[cause]: waited for cause, waited in times.waits.items()}
    units = {"fetch": _unit_time(times.sequencer)}
    units |= {q.name.lower(): _unit_time(times.units[q]) for q in Queue}
    works = {name: int(busy[rows].sum()) for name, rows in units_of(decoded).items()}
    return Timeline(
        model,
        times.delivered,
        times.start,
        times.end,
        waits,
        times.cycles,
        units,
        works,
        bounds_of(decoded, model),
        times.channels[0],
    )


CAUSES = {"order": "token", "channel": "dram", "issue": "fetch", "queue": "queue"}
"""Maps the causes of waits on any machine to VTA's, where order comes from tokens alone."""


def _unit_time(unit: machine_sim.UnitCycles) -> UnitTime:
    return UnitTime(unit.busy, unit.order, unit.channel, unit.issue, unit.queue, unit.drained)


def _times(decoded: Decoded, links: Links, model: TimingModel) -> tuple[Times, Cycles]:
    """Gives the times of a stream, and how long each instruction works."""
    count, work = len(decoded), work_of(decoded, model)
    queues = [(*fifo_users(decoded, links, fifo), model.token_queue) for fifo in TOKEN_FIFOS]
    waits = Waits.of(count, {}, {}, queues)
    try:
        times = machine_sim.times_of(_machine(model), links.queue.tolist(), waits, work.costs)
    except Stuck as stuck:
        raise _deadlock(stuck, model, count) from None
    return times, work.busy


def _machine(model: TimingModel) -> MachineModel:
    """Describes VTA's modules, FIFOs and read channel."""
    chunk = model.fetch_chunk
    return MachineModel(
        [Unit(queue.name.lower(), model.command_queue) for queue in Queue],
        [TokenQueue(fifo.name, model.token_queue) for fifo in TOKEN_FIFOS],
        channels=["read"],
        sequencer=Sequencer(
            model.issue,
            chunk,
            model.fetch_latency,
            [fetch_beats(model, instructions) for instructions in range(chunk + 1)],
            rank=Rank.FETCH,
        ),
    )


def _deadlock(stuck: Stuck, model: TimingModel, count: int) -> VTAError:
    """Makes the V306 report. Tokens alone do not deadlock, as ``schedule`` has shown before."""
    lines: list[str] = []
    for halt in stuck.halts:
        if halt.unit is None:
            lines.append(f"fetch holds instruction {halt.index} for a full command queue")
            continue
        name = Queue(halt.unit).name.lower()
        if halt.cause == "queue":
            lines.append(f"{name} holds instruction {halt.index} for a full token queue")
        else:
            lines.append(f"{name} waits for a token at instruction {halt.index}")
    depths = f"{model.command_queue} commands, {model.token_queue} tokens"
    found = f"a deadlock after {stuck.ran} of {count} with queues of {depths}"
    return VTAError("V306", "a queue with room", found, Lines.of(lines, 5))


def units_of(decoded: Decoded) -> dict[str, NDArray[np.bool_]]:
    """Marks the instructions of each kind, bool [N] by kind; each instruction is of one kind.

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
    """Computes bounds on the cycles that no order of the instructions can undercut.

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

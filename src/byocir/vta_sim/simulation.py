"""Offers the public way in: a ``Program`` is a checked stream, to be run on any number of DRAM
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.energy import Energy, energy_of
from byocir.vta_sim.engine_native import NativeMachine, native_stream, require
from byocir.vta_sim.engine_numpy import Machine, Plans
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded, Instruction, Opcode, as_stream, decode
from byocir.vta_sim.sanitizer import hazards
from byocir.vta_sim.sanitizer_report import Hazard, as_error
from byocir.vta_sim.timing import Timeline, TimingModel, loop_steps, timeline
from byocir.vta_sim.token_order import Links, link, order_of

# "auto" is the native engine where there is a C compiler; results are the same bytes.
ENGINES = ("auto", "native", "numpy")


@dataclass(frozen=True)
class Counters:
    """Counts what upstream's functional simulator counts (sim_driver.cc ``Profiler``), and
    instructions.

    Bytes are x_size * y_size elements without padding, ACC_8BIT at the size of ACC elements;
    ``gemm_counter`` and ``alu_counter`` are micro-op executions, GEMM resets not counted;
    ``instructions`` is the count per opcode name.
    """

    inp_load_nbytes: int
    wgt_load_nbytes: int
    acc_load_nbytes: int
    uop_load_nbytes: int
    out_store_nbytes: int
    gemm_counter: int
    alu_counter: int
    instructions: dict[str, int]


@dataclass(frozen=True)
class SimResult:
    """Holds the result of a run: ``dram`` uint8 [B] after it; ``cycles``, ``timeline`` and
    ``energy`` (an estimate) are None unless timed.
    """

    dram: NDArray[np.uint8]
    counters: Counters
    cycles: int | None = None
    timeline: Timeline | None = None
    energy: Energy | None = None


class Program:
    """Holds a stream that was checked and ordered once; ``run`` it on as many images as you like.

    ``insns`` uint8 [N, 16]. ``seed`` picks a random legal interleaving of the queues, for tests; a
    program whose tokens cover its hazards gives the same result under all. ``locations`` says where
    each instruction came from, for reports of hazards. Raises VTAError V0xx,
    V1xx and V3xx.
    """

    def __init__(
        self,
        insns: NDArray[np.uint8],
        config: VTAConfig = DEFAULT_CONFIG,
        *,
        seed: int | None = None,
        locations: Sequence[str] | None = None,
    ) -> None:
        self.config = config
        self._insns = as_stream(insns).copy()
        self._plans = Plans()
        self._locations = locations
        self._native = native_stream(self._insns, config, seed)
        if self._native is None:
            self.order = order_of(self.decoded, self._links, seed)

    @cached_property
    def decoded(self) -> Decoded:
        """Gives the instructions, decoded into columns."""
        return decode(self._insns, self.config)

    @cached_property
    def _links(self) -> Links:
        return link(self.decoded)

    @cached_property
    def order(self) -> list[int]:
        """Gives the order in which the instructions run."""
        assert self._native is not None
        return self._native.order.tolist()

    @cached_property
    def _ordered(self) -> list[Instruction]:
        instructions = self.decoded.instructions()
        return [instructions[index] for index in self.order]

    @cached_property
    def counters(self) -> Counters:
        """Gives the counts of one run, which depend on the instructions only."""
        if self._native is None:
            return count(self.decoded)
        kinds = dict(zip((kind.name for kind in Opcode), self._native.instructions, strict=True))
        return Counters(**self._native.counts, instructions=kinds)

    @cached_property
    def timeline(self) -> Timeline:
        """Gives the cycles under the default TimingModel, which depend on the instructions only."""
        return self.time(TimingModel.de10())

    def time(self, model: TimingModel) -> Timeline:
        """Times the program under ``model``; raises VTAError V306 if its queues are too short."""
        return timeline(self.decoded, self._links, model)

    @cached_property
    def energy(self) -> Energy:
        """Gives the energy under the default EnergyModel, an estimate that depends on the
        instructions only.
        """
        return energy_of(self.decoded)

    def hazards(self, dram: NDArray[np.uint8]) -> list[Hazard]:
        """Lists the findings of ``sanitize`` in this stream on an image (uint8 [B])."""
        return hazards(self.decoded, self._links, dram, self._locations)

    def run(
        self,
        dram: NDArray[np.uint8],
        *,
        engine: str = "auto",
        check: bool = False,
        timing: bool | TimingModel = False,
    ) -> SimResult:
        """Runs the program on an image (uint8 [B], not modified).

        With ``check``, raises VTAError S2xx for hazards that ``sanitize`` finds, before anything
        runs, and V206 for a shift that the device leaves undefined.

        Raises VTAError V002, V003, V2xx and V306, and for ``engine="native"`` ByocirError B4xx
        where there is no working C compiler.
        """
        if engine not in ENGINES:
            raise VTAError("V003", f"an engine of {', '.join(ENGINES)}", repr(engine))
        if engine == "native":
            require(self.config)
        if check and (found := self.hazards(dram)):
            raise as_error(found)
        if self._native is None or engine == "numpy":
            machine = Machine(dram, self.config, check=check, plans=self._plans)
            machine.run(self._ordered)
        else:
            machine = NativeMachine(dram, self.config, check=check)
            machine.run(self._native)
        if not timing:
            return SimResult(machine.dram, self.counters)
        times = self.timeline if timing is True else self.time(timing)
        return SimResult(machine.dram, self.counters, times.cycles, times, self.energy)


def simulate(
    insns: NDArray[np.uint8],
    dram: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    engine: str = "auto",
    check: bool = False,
    timing: bool | TimingModel = False,
) -> SimResult:
    """Runs a stream (uint8 [N, 16]) once on a flat image (uint8 [B], index = byte address).

    ``engine`` is "native" (compiled on first use), "numpy", or "auto": native if it can be built.
    ``check`` refuses streams with hazards (``sanitize``); ``timing`` adds cycles
    and energy, under the model given or TimingModel.de10(). The input image is left alone. Every
    mistake in the arguments or the stream is a VTAError.
    """
    return Program(insns, config).run(dram, engine=engine, check=check, timing=timing)


def run_in_order(
    insns: NDArray[np.uint8],
    dram: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    check: bool = False,
) -> NDArray[np.uint8]:
    """Runs a stream in program order, ignoring tokens and FINISH; gives the image after it."""
    machine = Machine(dram, config, check=check)
    machine.run_in_order(insns)
    return machine.dram


def count(decoded: Decoded) -> Counters:
    """Counts what a stream does, without running it."""
    opcode, columns, config = decoded.opcode, decoded.columns, decoded.config
    memory, elements = columns["memory_type"], columns["x_size"] * columns["y_size"]
    loads, steps = opcode == Opcode.LOAD, loop_steps(decoded)

    def loaded(*memories: Memory) -> int:
        size = config.element_bytes(memories[0])
        return int(elements[loads & np.isin(memory, memories)].sum()) * size

    stored = int(elements[opcode == Opcode.STORE].sum())
    return Counters(
        inp_load_nbytes=loaded(Memory.INP),
        wgt_load_nbytes=loaded(Memory.WGT),
        acc_load_nbytes=loaded(Memory.ACC, Memory.ACC_8BIT),
        uop_load_nbytes=loaded(Memory.UOP),
        out_store_nbytes=stored * config.element_bytes(Memory.OUT),
        gemm_counter=int(steps[(opcode == Opcode.GEMM) & (columns["reset_reg"] == 0)].sum()),
        alu_counter=int(steps[opcode == Opcode.ALU].sum()),
        instructions={kind.name: int((opcode == kind).sum()) for kind in Opcode},
    )

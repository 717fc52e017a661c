"""Defines the parameters of the cycle model, with a preset per published implementation of VTA."""

from __future__ import annotations

from dataclasses import dataclass, fields

from byocir.vta_sim.errors import VTAError

MAY_BE_ZERO = frozenset(
    {"dram_latency", "load_overhead", "fetch_latency", "issue", "pipeline_fill"}
    | {"write_latency", "write_burst", "store_element"}
)


@dataclass(frozen=True)
class TimingModel:
    """Holds the constants of the model, in cycles, bytes and entries. The defaults are ``de10()``.

    Initiation intervals, beats, chunk and burst sizes and queue depths are read from tvm-vta's
    sources; those marked *estimate* are not. Raises VTAError V009 for a value out of range.
    """

    name: str = "de10"
    clock_mhz: int = 100
    bus_bytes: int | None = 8
    """Bytes per cycle of the read channel, and of the write channel; None: unlimited."""
    dram_latency: int = 16
    """The cycles from a load's request to its first data."""
    load_overhead: int = 8
    """State machine and queues of a load, before its request (estimate)."""
    fetch_chunk: int = 8
    """Instructions read in one request; the next is made when all of them are delivered."""
    fetch_latency: int = 16
    """The cycles from the request of a chunk to its first data."""
    issue: int = 1
    """Cycles to hand one instruction to its queue."""
    command_queue: int = 512
    """Instructions that one queue holds."""
    token_queue: int = 255
    """Tokens that one FIFO holds."""
    nop: int = 2
    """An instruction that only carries tokens."""
    finish: int = 2
    pipeline_fill: int = 7
    """The cycles of GEMM and ALU beside their steps: start, index generator, drain, done
    (estimate)."""
    gemm_interval: int = 1
    """Cycles per step, that is per micro-op of every iteration."""
    alu_immediate_interval: int = 1
    alu_register_interval: int = 2
    burst_bytes: int = 128
    """Write bursts are no longer than this and do not cross a multiple of it."""
    write_latency: int = 0
    """Once per store, waiting for DRAM."""
    write_burst: int = 7
    """Once per write burst, waiting for DRAM: request and acknowledge (estimate)."""
    store_element: int = 1
    """Read of the scratchpad before the beats of each element."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if field.name == "name" or (field.name == "bus_bytes" and value is None):
                continue
            lowest = 0 if field.name in MAY_BE_ZERO else 1
            if not isinstance(value, int) or value < lowest:
                raise VTAError("V009", f"{field.name} to be an integer >= {lowest}", repr(value))

    @staticmethod
    def de10() -> TimingModel:
        """Makes the model of upstream's ``tsim``: the Chisel core with ``DefaultDe10Config``.

        Sources: ``hardware/chisel`` of tvm-vta (``shell/Configs``, ``FetchVME64``,
        ``TensorLoadNarrowVME``, ``TensorStoreNarrowVME``, ``TensorGemm``, ``TensorAlu``,
        ``Semaphore``, ``dpi/VTAMemDPI``).
        """
        return TimingModel()

    @staticmethod
    def pynq() -> TimingModel:
        """Makes the model of the HLS design on a Pynq board (``hardware/xilinx/src/vta.cc``,
        ``scripts/vivado.tcl``).

        Fetch is a pipelined burst: its latency is hidden. Both latencies are estimates.
        """
        return TimingModel(
            name="pynq",
            dram_latency=32,
            load_overhead=1,
            fetch_chunk=1,
            fetch_latency=0,
            issue=0,
            token_queue=1024,
            nop=1,
            finish=1,
            pipeline_fill=10,
            alu_immediate_interval=2,
            burst_bytes=2048,
            write_latency=32,
            write_burst=0,
            store_element=0,
        )

    @staticmethod
    def named(name: str) -> TimingModel:
        """Gives the preset ``de10`` or ``pynq``; raises VTAError V009 for another name."""
        presets = {model.name: model for model in (TimingModel.de10(), TimingModel.pynq())}
        if name not in presets:
            raise VTAError("V009", f"a timing model of {', '.join(presets)}", repr(name))
        return presets[name]

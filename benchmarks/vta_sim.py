"""How fast the VTA simulator is, beside plain scalar C loops.

    python benchmarks/vta_sim.py [ROUNDS]

Streams of one kind of instruction, on one thread. `engine`: the run alone; `simulate`: with
decoding, checks, token scheduling and the copy of the image; `scalar`: benchmarks/vta_scalar.c
compiled -O2, which runs in stream order and checks nothing. Rounds are interleaved, medians of CPU
time are printed. `M insn/s` are millions of instructions a second; `work` is GMAC/s for GEMM and
10^9 lane operations a second for ALU. All three must leave the same image.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from byocir.toolchain import build_shared, load_shared
from byocir.vta_sim import Program, assemble, encode_uops, simulate
from byocir.vta_sim.engine_native import NativeMachine

SMALL = 1_000_000
SETUP = """
load.uop y=1 x=144
load.acc_8bit dram=0x100 y=1 x=2048
load.uop {push_prev}
load.inp dram=0x100 y=1 x=2048 {pop_next}
load.wgt dram=0x10 y=1 x=1024 {push_next}
load.uop {pop_prev}
"""
END = """
load.uop {push_next}
store.out dram=0x100 y=1 x=2048 stride=2048 {pop_prev,push_prev}
load.uop {pop_next}
load.inp {push_next}
finish {pop_prev}
"""
CONV = "dst=14,1 src=16,1"


@dataclass(frozen=True)
class Stream:
    """`body` repeated between SETUP and END."""

    name: str
    body: str
    times: int

    def insns(self) -> np.ndarray:
        body = assemble(self.body)
        return np.concatenate([assemble(SETUP), np.tile(body, (self.times, 1)), assemble(END)])


STREAMS = (
    Stream("GEMM, 72 micro-ops x 14 x 14", f"gemm uop=0,72 out=14 in=14 {CONV}", 100),
    Stream("GEMM, as many, no sum in a row", f"gemm uop=72,144 out=14 in=14 {CONV}", 100),
    Stream("GEMM, one micro-op", "gemm uop=5,6 out=1 in=1", SMALL),
    Stream("ALU, one element, immediate", "alu.add.imm uop=5,6 out=1 in=1 imm=3", SMALL),
    Stream("LOAD INP, one element", "load.inp sram=3 dram=0x105 y=1 x=1", SMALL),
    Stream("LOAD WGT, one element", "load.wgt sram=3 dram=0x15 y=1 x=1", SMALL),
    Stream("NOP pairs with a token", "load.inp {push_next}\nload.uop {pop_prev}", SMALL // 2),
    Stream("ALU, long loops, immediate", f"alu.max.imm uop=0,1 out=14 in=140 {CONV} imm=3", 1000),
    Stream("ALU, long loops, register", f"alu.add uop=0,1 out=14 in=140 {CONV}", 1000),
    Stream("ALU, long loops, shift", f"alu.shr.imm uop=0,1 out=14 in=140 {CONV} imm=1", 1000),
    Stream("STORE, 1024 elements", "store.out dram=0x100 y=16 x=64 stride=64", 500),
)


def image() -> np.ndarray:
    """Micro-ops of a 3x3 kernel over 8 blocks of channels, the same with an accumulator for each,
    then random bytes."""
    dram = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    number = np.arange(72)
    row, column, block = number // 3 % 3, number % 3, number // 9
    source = block * 200 + row * 16 + column
    uops = np.stack([encode_uops(0, source, number), encode_uops(number, source, number)])
    dram[: uops.nbytes] = uops.view(np.uint8).ravel()
    return dram


def scalar() -> Callable[[np.ndarray, np.ndarray], None]:
    """The rival: (instructions, image to change)."""
    source = Path(__file__).with_name("vta_scalar.c")
    path = build_shared("vta_scalar", {source.name: source.read_bytes()}, ["-std=c99", "-O2"])
    run = load_shared(path).vta_scalar_run
    run.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    return lambda insns, dram: run(insns.ctypes.data, len(insns), dram.ctypes.data)


def seconds(run: Callable[[], object]) -> float:
    """CPU time of one call on this thread: other processes' turns are not counted."""
    began = time.thread_time()
    run()
    return time.thread_time() - began


def measure(stream: Stream, rounds: int) -> str:
    """A line of the table."""
    insns, dram, rival = stream.insns(), image(), scalar()
    program = Program(insns)
    native = program._native
    assert native is not None, "expected a C compiler"
    engine: list[float] = []
    whole: list[float] = []
    plain: list[float] = []
    for _ in range(rounds):
        machine, rivals = NativeMachine(dram), dram.copy()
        engine.append(seconds(lambda machine=machine: machine.run(native)))
        whole.append(seconds(lambda: simulate(insns, dram, engine="native")))
        plain.append(seconds(lambda rivals=rivals: rival(insns, rivals)))
        assert np.array_equal(machine.dram, rivals), f"expected equal images after {stream.name}"
    ours, both, theirs = (statistics.median(times) for times in (engine, whole, plain))
    counters = program.counters
    work = (counters.gemm_counter * 256 + counters.alu_counter * 16) / ours / 1e9
    return (
        f"{stream.name:32}{len(insns) / ours / 1e6:10.2f}{len(insns) / both / 1e6:10.2f}"
        f"{work:10.2f}{theirs / ours:10.1f}{theirs / both:10.1f}"
    )


def main(rounds: int) -> None:
    """Prints the table."""
    print(f"{'':32}{'M insn/s':>20}{'work':>10}{'times scalar C':>20}")
    print(
        f"{'':32}" + "".join(f"{n:>10}" for n in ("engine", "simulate", "", "engine", "simulate"))
    )
    for stream in STREAMS:
        print(measure(stream, rounds), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)

"""Estimates roughly what ops cost on a processor, for targets and the host that run on one.

An op is called, which takes a while however small it is; then it computes at the rate of the
kernels that do it, or is as fast as memory gives and takes its arrays, whichever is slower. The
processor is a server core of some 3 GHz, and memory as one core has it. Energies are rough costs at
45 nm of M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014,
doi:10.1109/ISSCC.2014.6757323, the source of the figures that VTA's estimate takes: 70 pJ to fetch,
decode and control an instruction of 8 lanes, 4.6 pJ for an f32 multiply and add, 1.3 nJ for 8 bytes
of DRAM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import static_shape
from byocir.rewrites.byoc.count_work import crossing, macs_of, size_of

HERTZ = 3e9
BYTES_PER_SECOND = 1e10
"""The bytes that come from memory in a second; what fits a cache comes faster."""
CACHE_BYTES = 2**20
"""The bytes of the cache that one core has."""
LANES = 8
INSTRUCTION_JOULES = 70e-12
MAC_JOULES = 4.6e-12
BYTE_JOULES = 1300e-12 / 8


@dataclass(frozen=True)
class Kernels:
    """Describes the speed of kernels on a processor: the seconds that a call takes, the
    multiply-accumulates of one thread in a clock, and the bytes per second that kernels read and
    write, for more than a cache holds and for less. Kernels that fuse do all ops of a match in one
    call, and move only what that reads, weights included, and gives.
    """

    call_seconds: float
    macs_per_clock: float
    bytes_per_second: float = BYTES_PER_SECOND
    cached_bytes_per_second: float = BYTES_PER_SECOND
    fuse: bool = False

    def cost_of(self, ops: Sequence[Operation], threads: int) -> dict[str, float]:
        """Estimates seconds as "latency", joules as "energy", and as "bytes" what is read and
        given, constants aside. Empty for ops of open shape, whose size nobody knows. More threads
        compute faster, but call and move as one does.
        """
        values = [value for op in ops for value in (*op.operands, *op.results)]
        sizes = {value: size_of(value.type) for value in values}
        if any(static_shape(value.type) is None for value in values) or None in sizes.values():
            return {}
        across = sum(sizes[value] or 0 for value in crossing(ops))
        moved = [sum(sizes[v] or 0 for v in {*op.operands, *op.results}) for op in ops]
        weights = {value for op in ops for value in op.operands if is_constant_value(value)}
        moved = [across + sum(sizes[v] or 0 for v in weights)] if self.fuse else moved
        work = [macs_of(ops)] if self.fuse else [macs_of([op]) for op in ops]
        rate = HERTZ * self.macs_per_clock * threads
        seconds = (
            self.call_seconds + max(macs / rate, self._seconds_of(size))
            for macs, size in zip(work, moved, strict=True)
        )
        each = INSTRUCTION_JOULES / LANES + MAC_JOULES
        return {
            "latency": sum(seconds),
            "energy": sum(work) * each + sum(moved) * BYTE_JOULES,
            "bytes": float(across),
        }

    def _seconds_of(self, nbytes: int) -> float:
        """Estimates the seconds in which so many bytes are moved."""
        is_cached = nbytes <= CACHE_BYTES
        return nbytes / (self.cached_bytes_per_second if is_cached else self.bytes_per_second)

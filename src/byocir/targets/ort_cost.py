"""Estimates the cost of an op on ONNX Runtime, roughly, so that it can compete with accelerators.

An op is called, which takes a while however small it is; then it computes at the rate of the
processor's vector units, or is as fast as memory gives and takes its arrays, whichever is slower.
The processor is a server core of some 3 GHz with 8 f32 lanes, of which graph kernels reach about
half, and memory as one core has it. Energies are rough costs at 45 nm of M. Horowitz, "Computing's
energy problem (and what we can do about it)", ISSCC 2014, doi:10.1109/ISSCC.2014.6757323, the
source of the figures that VTA's estimate takes: 70 pJ to fetch, decode and control an instruction
of 8 lanes, 4.6 pJ for an f32 multiply and add, 1.3 nJ for 8 bytes of DRAM.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from byocir.dialects.graph.macs import macs
from byocir.dialects.types import nbytes, static_shape
from byocir.rewrites.byoc.work import crossing

CALL_SECONDS = 5e-6
"""Of an op: to find its kernel, to check its inputs and to hold its outputs."""
LANES = 8
MACS_PER_SECOND = 3e9 * LANES / 2
BYTES_PER_SECOND = 1e10
INSTRUCTION_JOULES = 70e-12
MAC_JOULES = 4.6e-12
BYTE_JOULES = 1300e-12 / 8


def cost_of(ops: Sequence[Operation], threads: int) -> dict[str, float]:
    """Seconds by "latency", joules by "energy" and bytes of what is read and given, constants
    aside, by "bytes". Empty for ops of open shape, of which nobody knows how large they are. More
    threads compute faster, and call and move as one does."""
    inside = {result for op in ops for result in op.results}
    inputs = [v for v in dict.fromkeys(v for op in ops for v in op.operands) if v not in inside]
    if any(static_shape(value.type) is None for value in [*inputs, *inside]):
        return {}
    sizes = {value: nbytes(value.type) for value in [*inputs, *inside]}
    moved = [sum(sizes[v] for v in {*op.operands, *op.results}) for op in ops]
    work = [macs(op) for op in ops]
    seconds = (
        CALL_SECONDS + max(mac / (MACS_PER_SECOND * threads), size / BYTES_PER_SECOND)
        for mac, size in zip(work, moved, strict=True)
    )
    each = INSTRUCTION_JOULES / LANES + MAC_JOULES
    return {
        "latency": sum(seconds),
        "energy": sum(work) * each + sum(moved) * BYTE_JOULES,
        "bytes": float(sum(sizes[value] for value in crossing(ops))),
    }

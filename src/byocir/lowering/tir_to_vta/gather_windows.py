"""vta-gather-windows: lets convolutions of few channels read their windows as channels.

Does: `byocir.rewrites.gather_windows`, for arrays of less than a block of channels, where the steps
of GEMM that it saves take longer than the loads of INP that it adds.

Requires: `vta-arrange`, before `vta-legalise`. What is gathered has no other reader.
Guarantees: the same results. What is read outside of an array is gathered with it, so that the
array needs no border.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.types import shape_of
from byocir.dialects.vta_config import config_of
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.pack_blocks import blocks
from byocir.rewrites.gather_windows import NarrowRead, gather_windows

LOAD = 2
"""Cycles that the load of an element of INP takes, beside one for a step of GEMM (vta-isa.md)."""


@dataclass(frozen=True)
class VtaGatherWindowsPass(ModulePass):
    """Lets the host gather the windows of convolutions of few channels."""

    name = "vta-gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = vta_functions(op)
        gather_windows(op, [(f, partial(_choose, config_of(f).block_in)) for f in functions])


def _choose(block: int, read: NarrowRead) -> NarrowRead | None:
    """Gives a read where the steps of GEMM that gathering saves outweigh the loads that it adds."""
    n, channels, *pixels = shape_of(read.image.type)
    _, depth, *positions = read.shape
    if channels >= block:
        return None
    gathered, outputs = blocks(depth, block), blocks(read.op.extents[read.out], block)
    taps = prod(read.op.extents[i] for i in read.op.reductions) // channels
    steps = n * prod(positions) * outputs * (taps - gathered)
    loads = n * (prod(positions) * gathered - prod(pixels))
    return read if steps > LOAD * loads else None

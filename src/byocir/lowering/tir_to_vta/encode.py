"""vta-encode: encodes instructions as the bytes that the accelerator runs.

Requires: functions for VTA that hold `vta` instructions with their dependency flags, constants and
DRAM buffers (after `vta-insert-tokens`); arguments are inputs, then outputs.
Guarantees: each is replaced by a `vta.program` of the same name and attributes, with the addresses
of everything in DRAM settled; the calls stay as they are. The same function gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.uses import erase
from byocir.dialects.vta.assemble import assemble
from byocir.lowering.tir_to_vta.composites import vta_functions


@dataclass(frozen=True)
class VtaEncodePass(ModulePass):
    """Encodes the functions for VTA."""

    name = "vta-encode"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises ByocirError B336 for a function that holds anything else."""
        for function in vta_functions(op):
            op.body.block.insert_op_before(assemble(function), function)
            erase(function)

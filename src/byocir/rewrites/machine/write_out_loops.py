"""write-out-loops: writes out loops of a machine's functions, one iteration after the other.

Does: `byocir.rewrites.schedule.write_out` for each function of a described machine. Pads of blocks
that an instruction does with their pads stay.

Requires: loops that carry nothing, pads that one iterator decides about, and copies that are
blocks, as `route-copies` makes them. Raises ByocirError B251 and B262.

Guarantees: the same results, bit for bit; no loops, guards and other pads are left, and no buffers
of which guards leave nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.machine import Machine
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.cut_blocks import parts_of
from byocir.rewrites.schedule.write_out import write_out


@dataclass(frozen=True)
class WriteOutLoopsPass(ModulePass):
    """Writes out the loops of functions of machines."""

    name = "write-out-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            _expect_blocks(function)
            write_out(function.body.block, _keeps_pads(machine) if machine.pads else None)
            for each in list(function.body.block.ops):
                if isinstance(each, AllocOp) and not each.result.uses:
                    erase(each)


def _keeps_pads(machine: Machine) -> Callable[[BlockOp], bool]:
    """Makes the test whether instructions of a machine do a block with its pads."""
    return lambda block: parts_of(machine, block, None) is not None


def _expect_blocks(function: FuncOp) -> None:
    """Raises ByocirError B262 for a function with copies, fills or composites."""
    for op in function.walk():
        if isinstance(op, CopyOp | FillOp | CompositeOp):
            raise ByocirError(
                "B262",
                f"expected loops around blocks, found {op.name}",
                where=place(op.location),
                help="run route-copies first",
            )

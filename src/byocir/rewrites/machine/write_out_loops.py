"""write-out-loops: writes out loops of a machine's functions, one iteration after the other.

Does: `byocir.rewrites.schedule.write_out` for each function of a described machine. Pads of blocks
that an instruction does with their pads stay.

Requires: loops that carry nothing, pads that one iterator decides about, and copies that are
blocks, as `route-copies` makes them. Raises ByocirError B251 and B262.

Guarantees: the same results, bit for bit; no loops, guards and other pads are left, and no buffers
of which guards leave nothing. If a machine has loads that set pads and none of them sets any in the
module, a note at a call says why.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CallOp, CompositeOp
from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp, scope_of
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.machine import Machine
from byocir.machine.cut_plans import plans_of
from byocir.machine.find_instruction import kind_of
from byocir.machine.nearest_misses import Misfit, nearest_first
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.cut_blocks import parts_of
from byocir.rewrites.schedule.write_out import write_out


@dataclass(frozen=True)
class WriteOutLoopsPass(ModulePass):
    """Writes out the loops of functions of machines."""

    name = "write-out-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known: dict[Machine, _PaddedLoads] = {}
        for function, machine in machines_in(op):
            _expect_blocks(function)
            loads = known.setdefault(machine, _PaddedLoads(machine))
            loads.function = function.sym_name.data
            write_out(function.body.block, loads.keeps if machine.pads else None)
            for each in list(function.body.block.ops):
                if isinstance(each, AllocOp) and not each.result.uses:
                    erase(each)
        for loads in known.values():
            loads.tell(op)


@dataclass
class _PaddedLoads:
    """Keeps which blocks with pads the loads of a machine refuse, each once and with the function
    that has it, until they do one.
    """

    machine: Machine
    function: str = ""
    has_kept: bool = False
    refused: dict[Hashable, tuple[BlockOp, str]] = field(
        default_factory=dict[Hashable, "tuple[BlockOp, str]"]
    )

    def keeps(self, block: BlockOp) -> bool:
        """Tells whether instructions of the machine do a block with its pads."""
        if parts_of(self.machine, block, None) is not None:
            self.has_kept = True
            return True
        if not self.has_kept:
            key = self.machine.keys.block(block)
            self.refused.setdefault(key, (block, self.function))
        return False

    def tell(self, module: ModuleOp) -> None:
        """Notes at a call, if no load sets pads, what the nearest says to those that are read."""
        told = (
            (is_far, reason, function)
            for block, function in self.refused.values()
            for is_far, reason in _refusals(self.machine, block)
        )
        if self.has_kept or (nearest := min(told, key=itemgetter(0), default=None)) is None:
            return
        _, reason, function = nearest
        for call in module.walk():
            if isinstance(call, CallOp) and call.callee.string_value() == function:
                call.add_note(f"no load sets the pads that are read; {reason}")
                return


def _refusals(machine: Machine, block: BlockOp) -> Iterator[tuple[bool, str]]:
    """Yields what loads that set pads say to a block with pads, and whether that is about its form
    alone.
    """
    key, into = machine.keys.block(block), scope_of(block.outs[0].type)
    for each in machine.instructions:
        if each.pad is None or each.into.scope != into:
            continue
        misfits = list[Misfit]()
        plans = plans_of(machine, block, block.extents, "memories", misfits, only=each)
        for plan in plans:
            kind = kind_of(machine, each.name, block, key, plan.sizes, None)
            if isinstance(kind, str):
                yield False, f"{each.name}: {kind}"
        yield from ((True, str(misfit)) for misfit in nearest_first(misfits))


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

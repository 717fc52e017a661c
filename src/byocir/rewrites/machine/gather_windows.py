"""gather-windows: lets convolutions of few channels read their windows as channels.

Does: `byocir.rewrites.gather_windows`, where the search for a schedule finds one of at most
nine tenths of the cycles for the windows. The rest is what the host's work is worth, and the bytes
that cross.

Requires: composites on tensors in functions of described machines, before `fuse-epilogues`. What is
gathered has no other reader. A target with `gathers_windows = False` keeps its images.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.machine import Machine
from byocir.patterns.targets import find
from byocir.rewrites.gather_windows import Gains, NarrowRead, gather_windows, narrow_reads
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.search_schedule import least_cycles

GAIN = 0.9


@dataclass(frozen=True)
class GatherWindowsPass(ModulePass):
    """Lets the host gather the windows of convolutions of few channels."""

    name = "gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gather_windows(op, list(_functions(op)))


def _functions(module: ModuleOp) -> Iterator[tuple[FuncOp, Gains]]:
    for function, machine in machines_in(module, in_memory=False):
        attribute = function.attributes[TARGET]
        assert isinstance(attribute, TargetAttr)
        target = find(attribute)
        if target.is_searched and target.gathers_windows:
            yield function, partial(_gains, machine)


def _gains(machine: Machine, read: NarrowRead) -> bool:
    """Tells if the composite takes fewer cycles with windows as channels."""
    number = [each.op for each in narrow_reads(read.composite)].index(read.op)
    restated = read.composite.clone()
    [*narrow_reads(restated)][number].restate()
    before, after = (
        least_cycles(machine, each.body.block.ops) for each in (read.composite, restated)
    )
    restated.erase()
    return after <= GAIN * before

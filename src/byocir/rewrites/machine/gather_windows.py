"""gather-windows: lets convolutions of few channels read their windows as channels.

Does: `byocir.rewrites.gather_windows`, where the search for a schedule finds one of less than
nine tenths of the cycles for the windows, as they are or as whole rows of a memory. The rest is
what the host's work is worth, and the bytes that cross.

Requires: composites on tensors in functions of described machines, before `fuse-epilogues`. What is
gathered has no other reader. A target with `gathers_windows = False` keeps its images.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.machine import Machine
from byocir.patterns.targets import find
from byocir.rewrites.gather_windows import Chooser, NarrowRead, gather_windows, narrow_reads
from byocir.rewrites.machine import is_searched, machines_in
from byocir.rewrites.machine.search_schedule import scheduled_cycles
from byocir.vendor.hooks import ask, expect_given

GAIN = 0.9
"""The part of the cycles without gathered windows that must not be reached with them."""


@dataclass(frozen=True)
class GatherWindowsPass(ModulePass):
    """Lets the host gather the windows of convolutions of few channels."""

    name = "gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gather_windows(op, list(_functions(op)))


def _functions(module: ModuleOp) -> Iterator[tuple[FuncOp, Chooser]]:
    for function, machine in machines_in(module, in_memory=False):
        attribute = function.attributes[TARGET]
        assert isinstance(attribute, TargetAttr)
        target = find(attribute)
        wanted: Any = ask(target, "gathers_windows")
        fits = isinstance(wanted, bool)
        expect_given(target, "gathers_windows", fits, "True or False", wanted)
        if wanted:
            yield function, partial(_choose, target, machine)


def _choose(target: Any, machine: Machine, read: NarrowRead) -> NarrowRead | None:
    """Gives a read with windows as deep as takes the fewest cycles, as they are or in whole rows of
    a memory; None where that gains too little, and for a schedule of the target's own.
    """
    if not is_searched(target, read.composite):
        return None
    lanes = {memory.row[-1] for memory in machine.memories if not memory.is_main}
    if all(read.used_channels % each == 0 for each in lanes):
        return None  # no lane is idle
    multiples = sorted({1, *lanes}) if read.may_add_zeros else [1]
    forms = [replace(read, multiple=each) for each in multiples]
    cycles = [_cycles(machine, form) for form in forms]
    before = scheduled_cycles(machine, read.composite.body.block.ops)
    return forms[cycles.index(min(cycles))] if min(cycles) < GAIN * before else None


def _cycles(machine: Machine, read: NarrowRead) -> float:
    """Computes the cycles of a read's composite with gathered windows."""
    number = [each.op for each in narrow_reads(read.composite)].index(read.op)
    restated = read.composite.clone()
    twin = [*narrow_reads(restated)][number]
    replace(twin, channels=read.channels, multiple=read.multiple).restate()
    cycles = scheduled_cycles(machine, restated.body.block.ops)
    restated.erase()
    return cycles

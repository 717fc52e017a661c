"""Holds the passes that bring functions in memory down to the instructions of a described machine.

```
copy-pads              images with their pads, which the host sets
gather-windows         windows of few channels as channels, which the host gathers
fuse-epilogues         what follows sums in composites as one block, biases as what sums begin with
split-bodies           chains of blocks that instructions do one by one
apply-schedules        tiles, and the buffers of the machine that they are staged in
route-copies           copies by way of the memories between, and as blocks
write-out-loops        one iteration after the other, with numbers as bases
keep-on-chip           what passes between composites in buffers of the machine
overlap-stores         the last work in parts, each of which is stored beside the next
select-instructions    tir.intrinsic for each block, cut into what one call does
load-constants-once    constants in whole, where the unit that computes loads them
overlap-loads          loads before the work of the tiles in front of theirs
allocate-memories      a row of its memory for each buffer
synchronise            what each instruction waits for
```

All but the first work on functions of targets whose `machine` is a `byocir.machine.Machine`, and
name none. Each keeps what is computed, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import TARGET, CompositeOp, TargetAttr, composites_in
from byocir.evaluate.ports import is_in_memory
from byocir.machine import Machine
from byocir.patterns.targets import find
from byocir.vendor.hooks import ask, expect_given

PASSES = (
    "route-copies,write-out-loops,keep-on-chip,overlap-stores,select-instructions,"
    "load-constants-once,overlap-loads,allocate-memories,synchronise"
)
"""The passes that follow the schedules of a machine's functions."""

_LEFT = "byoc.left"
"""The attribute of a composite whose schedule its target left to the search."""


def machine_of(attribute: TargetAttr) -> Machine | None:
    """Gives the machine that a target describes; None if it describes none."""
    machine: Any = find(attribute).machine
    return machine if isinstance(machine, Machine) else None


def machines_in(module: ModuleOp, *, in_memory: bool = True) -> Iterator[tuple[FuncOp, Machine]]:
    """Lists the functions in memory, or those on tensors, that are for described machines, each
    with its machine.
    """
    for function in list(module.body.block.ops):
        attribute = function.attributes.get(TARGET)
        if not isinstance(function, FuncOp) or not isinstance(attribute, TargetAttr):
            continue
        if function.is_declaration or is_in_memory(function) != in_memory:
            continue
        machine = machine_of(attribute)
        if machine is not None:
            yield function, machine


def searched_composites(module: ModuleOp) -> Iterator[tuple[CompositeOp, Machine]]:
    """Lists the composites on tensors whose schedules byocir finds, each with its machine."""
    for function, machine in machines_in(module, in_memory=False):
        attribute = function.attributes[TARGET]
        assert isinstance(attribute, TargetAttr)
        target, composites = find(attribute), composites_in(function)
        yield from ((op, machine) for op in composites if is_searched(target, op))


def is_searched(target: Any, composite: CompositeOp) -> bool:
    """Tells whether the target of a described machine leaves the schedule of a composite to byocir.
    A script of its own names the blocks of its pattern, which stay as they are.
    """
    return composite.schedule is None and own_script(target, composite) is None


def own_script(target: Any, composite: CompositeOp) -> str | None:
    """Asks a target for its own script of a composite; None for one without steps. A target that
    leaves it to the search is not asked again: by then the composite may have other blocks than its
    pattern. Raises ByocirError B219 and B228.
    """
    if _LEFT in composite.attributes:
        return None
    text: Any = ask(target, "schedule", composite)
    expect_given(target, "schedule", isinstance(text, str | None), "text or None", text)
    if not text and isinstance(target.machine, Machine):
        composite.attributes[_LEFT] = UnitAttr()
    return text or None

"""choose-schedules, apply-schedules: schedule the composites of targets as the targets want.

`choose-schedules` asks each target for the script of its composites (`Target.schedule`) and writes
it into the module: `byoc.composite "npu.gemm" at "tensor" by "m, = tile(gemm, m=4)" …`. Calls keep
what was chosen when the function has become code. A script that is there stays as it is. Its holes,
and knobs of targets without scripts (`Target.knobs`), have their first values.

Requires: region functions on tensors; those with graph ops get knobs alone, for these have no
loops. Raises ByocirError B219, B228 and B265 for a hook that fails, or gives something else.

`apply-schedules` puts functions with such composites into memory and does what the scripts say.
Blocks that a pattern names (`block(…) @ "gemm"`) have that name in a script; their iterators are
called as in the pattern (those of a group of several `m0`, `m1`, …), and their inputs are in the
order of the pattern's. `tensorise` finds the target's instructions by name.

Requires: composites on tensors. Raises ByocirError B261 for a script that cannot be followed, which
names the target, the composite and the primitive.

Guarantees: the same results, bit for bit; composites with scripts are in buffer form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, CallOp, CompositeOp, TargetAttr, composites_in
from byocir.dialects.graph import ForeignOp, GraphOp
from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp, IteratorAttr
from byocir.dialects.uses import reorder_arguments
from byocir.errors import ByocirError
from byocir.evaluate.ports import is_in_memory
from byocir.machine import Machine
from byocir.patterns import BoundBlock, Composite
from byocir.patterns.knobs import KnobChoices, read_knobs, space_of
from byocir.patterns.targets import composites_of, find, instructions_of
from byocir.rewrites.bufferize import Routines, bufferize
from byocir.rewrites.machine import own_script
from byocir.rewrites.machine.search_schedule import schedule_for
from byocir.rewrites.schedule.blocks import Parts
from byocir.rewrites.schedule.handles import Schedule
from byocir.rewrites.schedule.script import steps_of

_NAME = "byoc.named"
"""The attribute with a block's name in its pattern, while its function moves to memory."""


@dataclass(frozen=True)
class ChooseSchedulesPass(ModulePass):
    """Asks targets how the blocks of their composites are to run."""

    name = "choose-schedules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = [each for each in op.walk() if isinstance(each, CallOp)]
        for function, attribute in region_functions(op):
            composites = composites_in(function)
            patterns = {each.name: each for each in composites_of(attribute)}
            for composite in composites:
                if composite.schedule is None:
                    if not has_graph_ops(function):
                        _call_as(composite, patterns.get(composite.pattern.data))
                    _choose(composite, attribute)
            record(calls, function)


@dataclass(frozen=True)
class ApplySchedulesPass(ModulePass):
    """Puts the composites of targets into memory and applies the schedules that were chosen."""

    name = "apply-schedules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        routines = Routines(op)
        for function, attribute in region_functions(op):
            if not is_scheduled(function):
                continue
            patterns = {each.name: each for each in composites_of(attribute)}
            for composite in composites_in(function):
                _name_blocks(composite, patterns.get(composite.pattern.data))
            bufferize(function, routines)
            for composite in composites_in(function):
                _follow(composite, attribute)


def is_scheduled(function: FuncOp) -> bool:
    """Tells if a function has composites whose schedules are still to be applied."""
    if function.is_declaration or is_in_memory(function):
        return False
    return any(read_knobs(composite.schedule) is None for composite in composites_in(function))


def has_graph_ops(function: FuncOp) -> bool:
    """Tells if a function has operators in it, which have no loops to schedule."""
    return any(isinstance(inner, GraphOp | ForeignOp) for inner in function.walk())


def region_functions(module: ModuleOp) -> Iterator[tuple[FuncOp, TargetAttr]]:
    """Gives the functions on tensors that targets have taken."""
    for function in list(module.body.block.ops):
        attribute = function.attributes.get(TARGET)
        if not isinstance(function, FuncOp) or not isinstance(attribute, TargetAttr):
            continue
        if not function.is_declaration and not is_in_memory(function):
            yield function, attribute


def _choose(composite: CompositeOp, attribute: TargetAttr) -> None:
    target = find(attribute)
    text = space_for(target, composite).default
    if text:
        composite.schedule = StringAttr(text)


def space_for(target: Any, composite: CompositeOp) -> KnobChoices:
    """Gives the script of a target for a composite, with the ways to fill its holes; for composites
    of operators the knobs alone. Raises ByocirError B219, B228 and B265.
    """
    function = composite.parent_op()
    if isinstance(function, FuncOp) and has_graph_ops(function):
        return space_of(target, composite, None)
    text = own_script(target, composite)
    if text is None and isinstance(target.machine, Machine):
        text = schedule_for(target.machine, composite)
    return space_of(target, composite, text)


def record(calls: Sequence[CallOp], function: FuncOp) -> None:
    """Writes the scripts of a function's composites into those of these calls that call it."""
    composites = composites_in(function)
    if all(composite.schedule is None for composite in composites):
        return
    scripts = ArrayAttr([each.schedule or StringAttr("") for each in composites])
    for call in calls:
        if call.callee.string_value() == function.sym_name.data:
            call.schedules = scripts


# -- names


def _name_blocks(composite: CompositeOp, pattern: Composite | None) -> None:
    """Names blocks and their iterators as the pattern does that took the composite."""
    if composite.schedule is not None:
        for name, found in _call_as(composite, pattern).items():
            found.block.attributes[_NAME] = StringAttr(name)


def _call_as(composite: CompositeOp, pattern: Composite | None) -> Mapping[str, BoundBlock]:
    """Names the iterators of blocks as the pattern does; gives the blocks by the pattern's
    names.
    """
    if pattern is None or pattern.level != composite.level.data:
        return {}
    match = pattern.matched_in(composite)
    named = {} if match is None else {name: match[name] for name in match}
    blocks = {name: b for name, b in named.items() if isinstance(b, BoundBlock)}
    for found in blocks.values():
        _restate(found)
    return blocks


def _restate(found: BoundBlock) -> None:
    """Gives a block the iterator names of its pattern, and puts its inputs into the pattern's
    order.
    """
    block = found.block
    called = list(block.names)
    for name, positions in found.iterators.items():
        for i, position in enumerate(positions):
            called[position] = name if len(positions) == 1 else f"{name}{i}"
    parts = Parts.of(block)
    if len({*called}) == len(called):
        pairs = zip(parts.iterators, called, strict=True)
        renamed = (IteratorAttr.of(name, it.kind.data, it.extent.data) for it, name in pairs)
        parts = replace(parts, iterators=tuple(renamed))
    count = len(block.ins)
    order = list(dict.fromkeys([*found.operands, *range(count)]))
    maps = [*(parts.maps[i] for i in order), *parts.maps[count:]]
    pads = [*(parts.pads[i] for i in order), *parts.pads[count:]]
    reorder_arguments(block.body.block, [*order, *range(count, count + len(block.outs))])
    ins = tuple(parts.ins[i] for i in order)
    replace(parts, ins=ins, maps=tuple(maps), pads=tuple(pads)).put(block)


# -- scripts


def _follow(composite: CompositeOp, attribute: TargetAttr) -> None:
    """Runs the script of a composite."""
    blocks: dict[str, BlockOp] = {}
    for op in composite.walk():
        name = op.attributes.pop(_NAME, None)
        if isinstance(op, BlockOp) and isinstance(name, StringAttr):
            blocks[name.data] = op
    if composite.schedule is None or read_knobs(composite.schedule) is not None:
        return
    text = composite.schedule.data
    known = (*composites_of(attribute), *instructions_of(attribute))
    patterns: Mapping[str, Composite] = {each.name: each for each in known}
    machine, said = find(attribute).machine, f"'{text}'"
    scopes = [each.scope for each in machine.memories] if isinstance(machine, Machine) else []
    try:
        for call, run in steps_of(Schedule(composite, scopes), text, blocks, patterns):
            said = call
            run()
    except ByocirError as error:
        raise ByocirError(
            "B261",
            f"expected a schedule of {composite.pattern.data} that target "
            f"'{attribute.target_name.data}' can follow, found {said} refused ({error.code}): "
            f"{error.message}",
            where=", ".join(names(composite.location)),
            help=error.help,
        ) from error

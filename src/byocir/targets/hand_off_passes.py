"""Chooses the passes that partition a module: all of them, or those left for one that was saved.

```
signed-bytes                     when a target computes on signed bytes alone, else
unsigned-bytes                   when one is faster on bytes without a zero point
fold-constants, clean-up, normalize-qdq, fold-constants, qdq-to-integer, fold-constants, clean-up
tabulate-bytes                                  when a target has tables
fix-point                                       when a target computes in fixed point
round-operands                                  when a target multiplies floats as halves
split-groups                                    when a target wants convolutions without groups
pad-channels                                    when a target wants a multiple of channels
match-composites, assign-targets, merge-regions, place-constants, outline-regions,
clean-up                                                                            first hand-off
convert-graph-to-tir
match-composites{level=tensor}, … as above                                          second hand-off
choose-schedules                  when a target schedules its composites, or describes its machine
```
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from byocir.arguments import shown
from byocir.dialects.byoc import IN_CODE, LEVELS, SPLIT, TARGETS, CallOp, CompositeOp, RegionOp
from byocir.dialects.graph.base import is_defined
from byocir.dialects.types import i32, is_float
from byocir.errors import ByocirError, did_you_mean
from byocir.machine import Machine
from byocir.patterns.targets import targets_of
from byocir.rewrites.byoc.costs import CostTable, set_costs
from byocir.rewrites.byoc.host_blocks import host_blocks
from byocir.rewrites.byoc.levels import levels_left, set_levels
from byocir.rewrites.byoc.place_by_hand import is_placed
from byocir.rewrites.byoc.set_targets import set_objective, set_targets
from byocir.rewrites.fix_point import FixPointPass, check_rounding
from byocir.rewrites.machine import PASSES
from byocir.rewrites.pad_channels import PadChannelsPass
from byocir.rewrites.pipeline import parse_pipeline
from byocir.rewrites.round_operands import HALVES
from byocir.rewrites.schedule.composites import is_scheduled
from byocir.rewrites.signed_bytes import SignedBytesPass, UnsignedBytesPass
from byocir.rewrites.split_groups import SplitGroupsPass
from byocir.targets.base import Target, target_of
from byocir.targets.own_passes import passes_at, passes_of
from byocir.targets.resolve_targets import Targets, attributes_of
from byocir.vendor.blame import place_in_class
from byocir.vendor.hooks import ask, expect_given

LOWERING = "convert-graph-to-tir"
GRAPH_REWRITES = (
    "fold-constants,clean-up,normalize-qdq,fold-constants,qdq-to-integer,fold-constants,clean-up"
)
APPLY = "apply-schedules"
HAND_OFF = "assign-targets,merge-regions,place-constants,outline-regions,clean-up"


def partition_pipeline(
    module: ModuleOp,
    targets: Targets,
    levels: Sequence[str],
    objective: str = "",
    costs: CostTable | None = None,
) -> list[ModulePass]:
    """Names the targets in the module and lists the passes that partition it."""
    levels = _checked_levels(levels)
    passes = rewrites_pipeline(module, targets)
    set_objective(module, objective)
    if costs is not None:
        set_costs(module, costs)
    set_levels(module, levels)
    instances = [target_of(attribute) for attribute in targets_of(module)]
    passes += passes_at(instances, "before-match")
    # First, while the markers still surround operators.
    passes += parse_pipeline(_place(module, instances))
    if "graph" in levels:
        passes += parse_pipeline("match-composites")
        passes += [*passes_at(instances, "after-match"), *parse_pipeline(HAND_OFF)]
        passes += passes_at(instances, "after-outline")
    return [*passes, *_second_hand_off(module, instances, "tensor" in levels)]


def rewrites_pipeline(module: ModuleOp, targets: Targets) -> list[ModulePass]:
    """Names the targets in the module and lists all rewrites before the first hand-off: those that
    settle its numbers, and those that give it the channels that targets want.
    """
    passes = meaning_pipeline(module, targets)
    return [*passes, *_whole_channels([target_of(each) for each in targets_of(module)])]


def meaning_pipeline(module: ModuleOp, targets: Targets) -> list[ModulePass]:
    """Names the targets in the module and lists the passes that settle its numbers: behind them, it
    computes the same ones in every placement. Arrays have the model's own channels.
    """
    attributes = attributes_of(targets)
    set_targets(module, attributes)
    instances = [target_of(attribute) for attribute in attributes]
    integers = [*_sign_of_bytes(instances), *parse_pipeline(GRAPH_REWRITES)]
    rounded = [*_fix_point(instances), *_rounds_operands(instances, "round-operands")]
    return [*integers, *rounded]


def _sign_of_bytes(instances: Sequence[Target]) -> list[ModulePass]:
    """Lists the pass that gives bytes the sign on which targets compute: targets that can do
    nothing else decide before those that are only faster so.
    """
    if any(ask(target, "signed_bytes") for target in instances):
        return [SignedBytesPass()]
    return [UnsignedBytesPass()] if any(ask(t, "unsigned_bytes") for t in instances) else []


def is_handed_over(module: ModuleOp) -> bool:
    """Tells if the first hand-off of a module has begun: it names targets, and patterns were
    matched against its operators, or it is at the tensor level.
    """
    if TARGETS not in module.attributes:
        return False
    left = levels_left(module)
    if left is not None and ("graph" in left or not left):
        return not left
    return any(
        isinstance(op, CallOp | CompositeOp | RegionOp) or op.name.startswith("tir.")
        for op in module.walk()
    )


def rest_pipeline(module: ModuleOp) -> list[ModulePass]:
    """Lists the passes that are left for a module that is handed over in part, or in whole. Passes
    of targets at points that the module has passed are not run again.
    """
    if IN_CODE in module.attributes:
        return []
    instances = [target_of(attribute) for attribute in targets_of(module)]
    kinds = {type(op) for block in host_blocks(module) for op in block.ops}
    left = levels_left(module)
    # A module that does not say: what is at the graph level was not seen by a second hand-off.
    tensor = "tensor" in left if left is not None else any(map(is_defined, kinds))
    passes: list[ModulePass] = []
    if CompositeOp in kinds:
        passes += _after_match(instances)
    if kinds & {CompositeOp, RegionOp}:
        passes += parse_pipeline(HAND_OFF)
        passes += passes_at(instances, "after-outline") if tensor else ()
    return [*passes, *_second_hand_off(module, instances, tensor), *parse_pipeline("clean-up")]


def code_pipeline(module: ModuleOp, targets: Sequence[Target]) -> list[ModulePass]:
    """Lists the passes between the hand-offs and code generation: the targets' own, with the
    schedules that they chose applied in between. For a module that was saved in the middle of
    these, it lists those that are left. Raises ByocirError B302 for one that ran other passes.
    """
    scheduled = any(isinstance(op, FuncOp) and is_scheduled(op) for op in module.body.block.ops)
    apply = parse_pipeline(APPLY if scheduled else "")
    if any(isinstance(target.machine, Machine) for target in targets):
        apply += parse_pipeline(PASSES)
    after, before = (passes_at(targets, p) for p in ("after-lowering", "before-codegen"))
    return _left([*after, *apply, *before], ran_for_code(module))


def ran_for_code(module: ModuleOp) -> list[str]:
    """Reads the names of the passes that a module notes as run on the way to code. Raises
    ByocirError B302 for a note in another form.
    """
    if IN_CODE not in module.attributes:
        return []
    ran = module.attributes[IN_CODE]
    listed = [*cast("ArrayAttr[Attribute]", ran)] if isinstance(ran, ArrayAttr) else [ran]
    names = [name.data for name in listed if isinstance(name, StringAttr)]
    if len(names) < len(listed):
        raise ByocirError(
            "B302", f"expected {IN_CODE} to name the passes that have run, found {ran}"
        )
    return names


def mark_ran(module: ModuleOp, ran: Sequence[str], split: Sequence[str]) -> None:
    """Notes in a module which passes have run on the way to code, and which nodes the host had a
    part of before.
    """
    module.attributes[IN_CODE] = ArrayAttr([StringAttr(name) for name in ran])
    module.attributes[SPLIT] = ArrayAttr([StringAttr(name) for name in split])


def note_pass(module: ModuleOp, done: ModulePass) -> None:
    """Notes that a pass has run, in a module that was saved on the way to code (it has `IN_CODE`),
    where the pass is the next one on that way. Modules whose targets are not known stay as they
    are: other passes run on them, too.
    """
    try:
        targets = [target_of(attribute) for attribute in targets_of(module)]
        ran, left = ran_for_code(module), code_pipeline(module, targets)
    except ByocirError:
        return
    if left and left[0].name == done.name:
        module.attributes[IN_CODE] = ArrayAttr([StringAttr(name) for name in (*ran, done.name)])


def unmark(module: ModuleOp) -> None:
    """Removes the notes of `mark_ran`, which are not needed once there is code."""
    module.attributes.pop(IN_CODE, None)
    module.attributes.pop(SPLIT, None)


def _left(passes: list[ModulePass], ran: Sequence[str]) -> list[ModulePass]:
    """Lists the passes that are left when some have run; raises ByocirError B302 where others ran.
    Once schedules are applied, no pass that applies them is in the list any more.
    """
    names = [pass_.name for pass_ in passes]
    done = [name for name in ran if name != APPLY or name in names]
    if names[: len(done)] != done:
        raise ByocirError(
            "B302",
            f"expected a module after passes of its targets, {', '.join(names) or 'none'}, found "
            f"one after {', '.join(done)}",
            help="save the module before: --emit partitioned",
        )
    return passes[len(done) :]


def _second_hand_off(module: ModuleOp, targets: Sequence[Target], tensor: bool) -> list[ModulePass]:
    """Lists the passes that lower the rest to the tensor level, and offer it there to targets that
    may take it.
    """
    place = _place(module, targets)
    check = parse_pipeline("check-placement" if place else "")
    if any(isinstance(target.machine, Machine) for target in targets):
        check += parse_pipeline("gather-windows,fuse-epilogues,split-bodies")
    if any(_schedules(target) for target in targets):
        check += parse_pipeline("choose-schedules")
    if not tensor:
        return [*parse_pipeline(LOWERING), *check]
    relaxed = "relax-contractions," if any(ask(t, "reassociates") for t in targets) else ""
    lowered = [*parse_pipeline(f"{LOWERING}{{bodies=true}}")]
    lowered += _rounds_operands(targets, "read-rounded")
    before = f"{relaxed}{_layouts(targets)}{place}match-composites{{level=tensor}}"
    after = [*_after_match(targets), *parse_pipeline(HAND_OFF)]
    return [*lowered, *parse_pipeline(before), *after, *check]


def _after_match(targets: Sequence[Target]) -> list[ModulePass]:
    """Lists the passes between the match at the tensor level and the hand-off."""
    machines = (target.machine for target in targets)
    may_set = any(isinstance(each, Machine) and each.pads for each in machines)
    return [*passes_at(targets, "after-match"), *parse_pipeline("copy-pads" if may_set else "")]


def _layouts(targets: Sequence[Target]) -> str:
    """Gives the passes that targets whose convolutions have channels last want before they match.
    Windows read zeros, or any number, outside of images if all these targets have machines that
    load or read them so.
    """
    asked = [target for target in targets if ask(target, "channels_last")]
    if not asked:
        return ""
    machines = [target.machine for target in asked]

    def load(pad: int | None) -> bool:
        return all(isinstance(each, Machine) and each.pads_with(pad) for each in machines)

    frames = "read" if load(None) else "zeros" if load(0) else "copied"
    return f"assign-layouts{{frames={frames} least=1 height=true pools=true}},order-weights,"


def _schedules(target: Target) -> bool:
    own = type(target).schedule is not Target.schedule or type(target).knobs is not Target.knobs
    return own or isinstance(target.machine, Machine)


def _place(module: ModuleOp, targets: Sequence[Target]) -> str:
    """Gives the pass that follows placement by hand, if there is or may be any: a target's own
    partitioner places ops by markers that it inserts before the match.
    """
    may_be = is_placed(module) or any(passes_of(target, "before-match") for target in targets)
    return "place-nodes," if may_be else ""


def _checked_levels(levels: str | Sequence[str]) -> Sequence[str]:
    levels = levels.split(",") if isinstance(levels, str) else levels
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        raise ByocirError(
            "B212",
            f"expected levels among {', '.join(LEVELS)}, found {', '.join(unknown) or 'none'}",
            help=did_you_mean(unknown[0], list(LEVELS)) if unknown else "",
        )
    return levels


def _fix_point(targets: Sequence[Target]) -> list[ModulePass]:
    roundings = sorted({_rounding(target) for target in targets} - {""})
    if len(roundings) > 1:
        raise ByocirError(
            "B215",
            f"expected targets that agree on rounding, found {' and '.join(roundings)}",
            help="the module's integers have one meaning: give the targets the same rounding",
        )
    tables = any(ask(target, "tables") for target in targets)
    machines = [target.machine for target in targets if isinstance(target.machine, Machine)]
    sums = any(machine.stores(i32) for machine in machines)
    passes = [*parse_pipeline("tabulate-bytes" if tables else "")]
    passes += [FixPointPass(rounding, tables, sums) for rounding in roundings]
    return [*passes, *parse_pipeline("fold-constants,clean-up")]


def _rounds_operands(targets: Sequence[Target], name: str) -> list[ModulePass]:
    """Gives the pass of this name, if a target multiplies floats as halves. Raises ByocirError B215
    where two do not agree on the type.
    """
    types = {_half(target) for target in targets} - {""}
    if len(types) > 1:
        raise ByocirError(
            "B215",
            f"expected targets that agree on rounding, found {' and '.join(sorted(types))}",
            help="the module's numbers have one meaning: give rounds_operands the same type",
        )
    return [each for type_ in types for each in parse_pipeline(f"{name}{{to={type_}}}")]


def _half(target: Target) -> str:
    half: Any = ask(target, "rounds_operands")
    if half not in ("", *HALVES):
        told = f"expected rounds_operands of target '{target.name}' to be {' or '.join(HALVES)}"
        where = _line(target, "rounds_operands")
        raise ByocirError("B228", f"{told}, found {shown(half)}", where=where)
    return half


def _whole_channels(targets: Sequence[Target]) -> list[ModulePass]:
    """Lists the passes that give contractions the channels that targets want: without groups, and
    a multiple of a number.
    """
    groups = [(target, channels_of(target, "split_groups", 0)) for target in targets]
    joined = max((channels for _, channels in groups), default=0)
    floats = any(channels and _has_floats(target) for target, channels in groups)
    multiple = lcm(*(channels_of(target, "channel_multiple", 1) for target in targets))
    passes: list[ModulePass] = [SplitGroupsPass(joined, floats)] if joined else []
    passes += [PadChannelsPass(multiple)] if multiple > 1 else []
    return [*passes, *parse_pipeline("clean-up")] if passes else []


def _has_floats(target: Target) -> bool:
    """Tells if a target may compute floats: a machine that keeps none anywhere does not."""
    machine = target.machine
    if not isinstance(machine, Machine):
        return True
    return any(each.element is not None and is_float(each.element) for each in machine.memories)


def channels_of(target: Target, name: str, least: int) -> int:
    """Asks a target for a number of channels; raises ByocirError B219 and B228."""
    channels: Any = ask(target, name)
    if type(channels) is not int or channels < least:
        given = f"expected {name} of target '{target.name}' to give a number of at least {least}"
        raise ByocirError("B228", f"{given}, found {shown(channels)}", where=_line(target, name))
    return channels


def _rounding(target: Target) -> str:
    rounding: Any = ask(target, "fixed_point")
    expect_given(target, "fixed_point", isinstance(rounding, str), "text", rounding)
    if rounding:
        check_rounding(rounding, _line(target, "fixed_point"))
    return rounding


def _line(target: Target, name: str) -> str:
    return place_in_class(type(target), name)

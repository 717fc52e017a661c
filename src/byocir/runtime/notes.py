"""Writes notes that tell a user the most important facts of a compilation first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineBinaryOpExpr

from byocir.dialects import tir
from byocir.dialects.byoc import DECLARED, DIMS, HOST, NAME
from byocir.dialects.decisions import Decision
from byocir.dialects.graph.fixed_point import FLOAT_SCALES
from byocir.dialects.types import bf16, element_type_of, f16, f32, i32, is_float, sizes_shown, ui8
from byocir.patterns.targets import find, objective_of, targets_of
from byocir.rewrites.byoc.choose_target import BY_ORDER
from byocir.rewrites.host.contraction import inside_groups, is_contraction, multiplies_and_adds
from byocir.vendor.hooks import ask

if TYPE_CHECKING:
    from byocir.dialects.byoc import CallOp, Node
    from byocir.dialects.decisions import RuleResult
    from byocir.machine import Machine
    from byocir.runtime.report import Report
    from byocir.targets.base import Target

NAMED = 3
"""The nodes that a note names at most."""
_BRANCH = re.compile(r"/(then|else)_branch/")
"""The part of a node's name that says that it is in a graph of an If."""

_QUANTISED = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "QGemm")
"""The beginnings of types of operators that only quantised models have."""

_FLOAT = (
    "the model's tensors are f32; quantise it to int8: byocir quantise MODEL --data SAMPLES.npz "
    "--target "
)
_QUANTISED_OTHERWISE = "the model is quantised, but not so that its sums can be integers"
_NOT_QUANTISED = "quantise what they read and what they give"


def notes_of(report: Report, module: ModuleOp, host_ops: Sequence[Operation]) -> list[str]:
    """Lists the notes for a report that is complete otherwise; `host_ops` are the ops that the host
    executes.
    """
    return [
        *_open_sizes(module),
        *_wrong_sizes(module),
        *_shares(report, module, host_ops),
        *_not_asked_for(report, module, host_ops),
        *_kept_in_float(report, module),
        *_unknown(report),
        *_branches(report),
        *_uncompared(report, module),
    ]


def notes_of_calls(calls: Iterable[CallOp]) -> list[str]:
    """Lists the notes that targets' passes left at calls of their regions, each once where a region
    is called several times."""
    notes = [f"@{op.callee.string_value()}: {note.data}" for op in calls for note in op.notes or ()]
    return list(dict.fromkeys(notes))


def _some(texts: Sequence[str]) -> str:
    """Lists the first of some texts, and how many more there are."""
    more = f" and {len(texts) - NAMED:,} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


def _branches(report: Report) -> list[str]:
    """Notes that both graphs of an If are counted where both have work, though a run takes only
    one.
    """
    sides: dict[str, set[str]] = {}
    for node in report.nodes:
        for found in _BRANCH.finditer(node.name) if node.macs else ():
            sides.setdefault(node.name[: found.start()], set()).add(found[1])
    both = [name for name, found in sides.items() if len(found) > 1]
    if not both:
        return []
    return [
        f"multiply-accumulates are those of both branches of {_some(both)}: a run takes one of them"
    ]


def _open_sizes(module: ModuleOp) -> list[str]:
    """Notes that inputs have symbolic sizes, and how to pin them."""
    pins: list[str] = []
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp) or function.arg_attrs is None:
            continue
        for entries in function.arg_attrs:
            dims, name = entries.data.get(DIMS), entries.data.get(NAME)
            if isinstance(dims, ArrayAttr) and isinstance(name, StringAttr):
                texts = cast("ArrayAttr[StringAttr]", dims)
                sizes = [size.data for size in texts]
                pins.append(f"{name.data}={','.join(sizes)}")
    if not pins:
        return []
    return [
        f"inputs have symbolic sizes ({'; '.join(pins)}), and what depends on them stays on the "
        "host as it is: pin them, --shape NAME=D,D,…"
    ]


def _wrong_sizes(module: ModuleOp) -> list[str]:
    """Notes outputs whose sizes are not those that the model states."""
    notes: list[str] = []
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp) or function.res_attrs is None:
            continue
        for entries, type_ in zip(function.res_attrs, function.function_type.outputs, strict=True):
            declared, name = entries.data.get(DECLARED), entries.data.get(NAME)
            if isinstance(declared, ArrayAttr) and isinstance(name, StringAttr):
                sizes = "x".join(size.data for size in cast("ArrayAttr[StringAttr]", declared))
                found = "x".join(sizes_shown(type_))
                notes.append(
                    f"the model says that its output '{name.data}' is {sizes or 'a scalar'}, "
                    f"its operators make it {found or 'a scalar'}"
                )
    return notes


def _shares(report: Report, module: ModuleOp, host_ops: Sequence[Operation]) -> list[str]:
    total = sum(node.macs for node in report.nodes)
    on_host = report.macs[HOST]
    if not report.targets or not on_host:
        return []
    share = 100 * on_host / total
    floats = any(map(_is_float_contraction, host_ops))
    floats = floats or (not _rescale_by_floats(module) and any(map(_rescales_in_float, host_ops)))
    if floats and not _fitted(report) and _compute_in_integers(module):
        quantised = any(node.op_type.startswith(_QUANTISED) for node in report.nodes)
        missing = _QUANTISED_OTHERWISE if quantised else _FLOAT + report.targets[0]
        return [f"nothing was offloaded to {', '.join(report.targets)}: {missing}"]
    host = set(report.host)
    macs = {node.name: node.macs for node in report.nodes if node.macs and node.name in host}
    heaviest = sorted((macs | report.host_macs).items(), key=lambda each: -each[1])
    named = _some([f"{name} ({count:,})" for name, count in heaviest])
    return [
        f"{share:.1f} % of the multiply-accumulates stay on the host: {named}; `explain` says why"
    ]


def _not_asked_for(report: Report, module: ModuleOp, host_ops: Sequence[Operation]) -> list[str]:
    """Notes, for each target with a described machine that takes less than half of what multiplies,
    what its class could ask to be changed in work that is left on the host.
    """
    total, notes = sum(report.macs.values()), list[str]()
    for target in [find(each) for each in targets_of(module)] if report.targets else []:
        if isinstance(target.machine, str) or 2 * report.macs.get(target.name, 0) >= total:
            continue
        integers = _holds_integers(target.machine)
        wanted = _in_integers(host_ops) if integers else {}
        wanted |= _in_any(host_ops, cast("Target", target))
        helpful = (text for text, helps in wanted.items() if helps)
        changes = [text for text in helpful if not ask(target, text.split()[0])]
        if changes:
            share = f"{100 * report.macs.get(target.name, 0) / total:.1f} %"
            told = f"{target.name} takes {share} of the multiply-accumulates; its class can ask for"
            notes.append(f"{told} another form of the model: {', '.join(changes)}")
        if not integers and any(node.op_type.startswith(_QUANTISED) for node in report.nodes):
            notes.append(
                f"{target.name} has memories for floats alone, and the model is quantised: "
                "give it the model before quantisation"
            )
    return notes


def _in_integers(host_ops: Sequence[Operation]) -> dict[str, bool]:
    """Words the changes that help a machine which computes integers, with whether these do."""
    inputs = [value for op in _heavy(host_ops) for value in op.ins]
    return {
        "signed_bytes = True makes its unsigned bytes signed": any(
            element_type_of(value.type) == ui8 for value in inputs
        ),
        "fixed_point scales its sums in integers": any(map(_rescales_in_float, host_ops)),
    }


def _in_any(host_ops: Sequence[Operation], target: Target) -> dict[str, bool]:
    """Words the changes of layout, of groups, of order, and to halves, with whether these help."""
    heavy = _heavy(host_ops)
    convs = [op for op in heavy if is_contraction(op)]
    floats = [op for op in convs if _is_float_contraction(op)]
    machine = cast("Machine", target.machine)
    half, slides = _half_multiplied(machine), any(map(_ends_with_windows, heavy))
    grouped = any(op.extents[i] > 1 for op in convs for i in inside_groups(op))
    wide = any(element_type_of(value.type) == f32 for op in floats for value in op.ins)
    summed = any(sum(op.extents[i] > 1 for i in op.reductions) > 1 for op in floats)
    return {
        "channels_last = True puts channels last in its images": slides,
        "split_groups splits its convolutions in groups": grouped,
        f'rounds_operands = "{half}" makes its operands of f32 halves': bool(half) and wide,
        "reassociates = True lets it sum over channels inside of windows": summed
        and _sums_windows(target, machine),
    }


def _heavy(host_ops: Sequence[Operation]) -> list[tir.BlockOp]:
    return [op for op in host_ops if isinstance(op, tir.BlockOp) and op.reductions]


def _sums_windows(target: Target, machine: Machine) -> bool:
    """Tells if a target has a pattern of a convolution with channels last, and computes floats."""
    from byocir.patterns.blocks import BlockPattern

    nodes = [node for composite in target.composites() for node in composite.walk()]
    products = [each for each in nodes if isinstance(each, BlockPattern) and len(each.reads) > 1]
    slides = any(len(each.iterators.reduction) > 1 for each in products)
    elements = [memory.element for memory in machine.memories if memory.element]
    return slides and any(map(is_float, elements)) and bool(ask(target, "channels_last"))


def _half_multiplied(machine: Machine) -> str:
    """Names the type of halves that instructions sum products of, if they do and none multiplies
    f32.
    """
    from byocir.machine.instructions import memory_of  # loaded where there is a machine

    forms = [form for each in machine.instructions for form in each.forms]
    products = [form for form in forms if form.iterators.reduction and len(form.reads) > 1]
    types = {memory_of(read).element for form in products for read in form.reads}
    if types & {f32, None}:
        return ""
    return next((str(each) for each in (f16, bf16) if each in types), "")


def _holds_integers(machine: Machine) -> bool:
    return any(not is_float(memory.element) for memory in machine.memories if memory.element)


def _ends_with_windows(op: tir.BlockOp) -> bool:
    """Tells if a block reads an image whose last dimension a window goes along, as those with
    channels first are read."""
    ends = [map_.results[-1] for map_ in op.in_maps if map_.results]
    return any(isinstance(end, AffineBinaryOpExpr) for end in ends)


def _fitted(report: Report) -> bool:
    """Tells if some pattern fitted somewhere, whoever took the ops in the end, or if rules alone
    keep one from work that multiplies: its numbers are of a type that it takes.
    """
    heavy = {node.name for node in report.nodes if node.macs}
    return any(
        d.is_match and (not d.rules or name in heavy)
        for name, each in report.reasons.items()
        for d in each
    )


def _compute_in_integers(module: ModuleOp) -> bool:
    return any(ask(find(target), "fixed_point") for target in targets_of(module))


def _rescale_by_floats(module: ModuleOp) -> bool:
    """Tells if a target brings sums to a grid by float scales itself."""
    return any(ask(find(t), "fixed_point") in FLOAT_SCALES for t in targets_of(module))


def _kept(report: Report) -> dict[str, list[tuple[Node, RuleResult | None]]]:
    """Groups by cause the heavy nodes of the host that no rewrite brought to integers, each with
    the rule that fails, if one does.
    """
    found: dict[str, list[tuple[Node, RuleResult | None]]] = {}
    host = set(report.host)
    for node in report.nodes:
        reasons = report.reasons.get(node.name, ()) if node.name in host else ()
        decision = next((d for d in reasons if not d.target), None)
        if decision is not None and node.macs:
            rule = next((rule for rule in decision.rules if not rule.holds), None)
            cause = decision.reason if rule is None else rule.sentence
            found.setdefault(cause, []).append((node, rule))
    return found


def _kept_in_float(report: Report, module: ModuleOp) -> list[str]:
    """Notes each cause that left convolutions and products in float: which ones, what was seen, and
    what to do about it."""
    found = _kept(report) if report.targets and _compute_in_integers(module) else {}
    notes: list[str] = []
    for cause, kept in found.items():
        macs = sum(node.macs for node, _ in kept)
        named = _some([node.name + (f" has {rule.seen}" if rule else "") for node, rule in kept])
        fix = next((rule.fix for _, rule in kept if rule is not None), _NOT_QUANTISED)
        notes.append(
            f"{macs:,} multiply-accumulates stay in float because of their quantisation ({cause}): "
            f"{named}{f'; {fix}' if fix else ''}"
        )
    return notes


def _is_float_contraction(op: Operation) -> bool:
    if isinstance(op, tir.BlockOp):
        return multiplies_and_adds(op) and is_float(element_type_of(op.outs[0].type))
    if op.name not in ("graph.conv", "graph.matmul"):
        return False
    return is_float(element_type_of(op.results[0].type))


def _rescales_in_float(op: Operation) -> bool:
    """Tells if an op brings integer sums to a grid by float scales."""
    if not isinstance(op, tir.BlockOp) or op.reductions:
        return False
    rounds = any(isinstance(inner, math.RoundEvenOp) for inner in op.walk())
    return rounds and any(element_type_of(value.type) == i32 for value in op.ins)


def _unknown(report: Report) -> list[str]:
    """Notes that the host has work of unknown size."""
    host = set(report.host)
    left = [name for name in report.unknown_macs if name in host]
    if not report.targets or not left:
        return []
    return [
        "how much these operators on the host multiply and accumulate is not known, for they stay "
        f"ONNX operators: {_some(left)}; `explain` says why"
    ]


def _compares(decision: Decision, objective: str) -> bool:
    """Tells if a decision was made by comparing the costs of several targets."""
    return decision.taken or decision.reason.startswith(f"{objective} ")


def _uncompared(report: Report, module: ModuleOp) -> list[str]:
    """Notes, where an objective is named, that it decided nothing, or which nodes were decided
    without it.
    """
    objective = objective_of(module)
    if not objective or not report.targets:
        return []
    told: dict[str, list[str]] = {}
    for node, decisions in report.reasons.items():
        for reason in {d.reason: None for d in decisions if d.reason and _compares(d, objective)}:
            told.setdefault(reason, []).append(node)
    if not told:
        return [
            f"{objective} decided nothing: no later target covers just what an earlier one's "
            "pattern takes"
        ]
    return [
        f"{reason}: {_some(nodes)}" for reason, nodes in told.items() if reason.endswith(BY_ORDER)
    ]

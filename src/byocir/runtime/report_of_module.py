"""Reads the report of a compilation from the module itself.

A module carries its original nodes (`byoc.source`), every decision (`byoc.trail`) and what each
call stands for, so the report can be made again from a module that was saved and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from byocir.dialects import byoc
from byocir.dialects.decisions import Decision, Padded
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.graph import ForeignOp, GraphOp
from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp
from byocir.dialects.traits import is_constant
from byocir.dialects.trip_counts import trip_count_around
from byocir.dialects.walk import ops_of
from byocir.patterns.differences import computed, copy_text
from byocir.patterns.targets import composites_of, targets_of
from byocir.rewrites.byoc.count_work import macs_of, size_of
from byocir.runtime.notes import notes_of, notes_of_calls
from byocir.runtime.report import Region, Report

CONTRACTIONS = frozenset(
    {
        *("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"),
        *("Attention", "Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"),
        *("GRU", "LSTM", "RNN", "DynamicQuantizeLSTM"),
        *("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention"),
    }
)
"""ONNX's operators that multiply and accumulate. How much is known of those that became graph ops,
which have static shapes."""


@gc_paused()
def report_of(module: ModuleOp) -> Report:
    """Makes the report of a module whose regions were outlined."""
    source = next((op for op in module.body.block.ops if isinstance(op, byoc.SourceOp)), None)
    nodes = source.entries() if source is not None else []
    type_of_crossing = cache(_crossing_type)  # a module has few different types
    ops = ops_of(module)
    calls = [op for op in ops if type(op) is byoc.CallOp]
    regions = [_region(call, type_of_crossing) for call in calls if call.handed_off]
    taken = {name for region in regions for name in region.nodes}
    host_ops = _host_ops(module)
    with_host_ops = {name for op in host_ops for name in names(op.location)}
    on_host, on_both = with_host_ops - taken, with_host_ops & taken
    before = module.attributes.get(byoc.SPLIT)
    if isinstance(before, ArrayAttr):
        on_both = {name.data for name in cast("ArrayAttr[StringAttr]", before)}
    known = [node.name for node in nodes]
    named = byoc.TARGETS in module.attributes
    foreign = _foreign(ops, known)
    report = Report(
        nodes=nodes,
        targets=[t.target_name.data for t in targets_of(module)] if named else [],
        regions=regions,
        host=[name for name in known if name in on_host],
        folded=[name for name in known if name not in on_host and name not in taken],
        decisions=[*_decisions(module)],
        foreign=foreign,
        per_turn=[] if source is None else [name.data for name in source.per_turn or ()],
        unknown_macs=[n.name for n in nodes if n.name in foreign and n.op_type in CONTRACTIONS],
        split=[name for name in known if name in on_both],
    )
    report.patterns = (
        [c.name for t in targets_of(module) for c in composites_of(t)] if named else []
    )
    report.host_macs = _host_macs(host_ops, [node for node in nodes if node.name in on_both])
    report.padded = _padded(module, nodes)
    report.host_parts = _host_parts(host_ops, report.split)
    report.notes = notes_of(report, module, host_ops)
    return report


def recount(report: Report, module: ModuleOp) -> None:
    """Counts again the bytes that calls hand over, since the passes that make a target's code may
    change them, and adds these passes' notes and the values that they kept on the chip.
    """
    calls = [
        op for op in ops_of(module) if isinstance(op, byoc.CallOp) and op.handed_off and op.notes
    ]
    found = {region.symbol: region for region in (_region(call, _crossing_type) for call in calls)}
    now = [found.get(region.symbol, region) for region in report.regions]
    kept = {
        function.sym_name.data: number.value.data
        for function in module.body.block.ops
        if isinstance(function, FuncOp)
        and isinstance(number := function.attributes.get(byoc.KEPT), IntegerAttr)
    }
    report.regions = [
        replace(region, inputs=counted.inputs, bytes=counted.bytes, kept=kept.get(region.symbol, 0))
        for region, counted in zip(report.regions, now, strict=True)
    ]
    report.notes += notes_of_calls(calls)


class _CrossingType(NamedTuple):
    """Holds the type of a value that crosses to or from a target, as the report shows it."""

    text: str
    size: int | None


def _crossing_type(type_: Attribute) -> _CrossingType:
    return _CrossingType(str(type_), size_of(type_))


def _region(call: byoc.CallOp, shown: Callable[[Attribute], _CrossingType]) -> Region:
    record = call.handed_off
    assert record is not None
    scripts = [script.data for script in call.schedules or ()] or [""] * len(record.composites)
    composites = [t.plain(script) for t, script in zip(record.composites, scripts, strict=False)]
    levels = {composite.level for composite in composites}
    inputs, outputs = [*map(shown, record.inputs)], [*map(shown, record.outputs)]
    sizes = [each.size for each in (*inputs, *outputs)]
    return Region(
        symbol=call.callee.root_reference.data,
        target=record.target.data,
        level=levels.pop() if len(levels) == 1 else "both",
        composites=composites,
        nodes=list(dict.fromkeys(n for c in composites for n in c.nodes)),
        inputs=[each.text for each in inputs],
        outputs=[each.text for each in outputs],
        bytes=sum(size or 0 for size in sizes),
        cuts=[cut.plain for cut in record.cuts],
        turns=trip_count_around(call),
        group=call.group.data if call.group is not None else "",
        is_open=None in sizes,
    )


def _host_ops(module: ModuleOp) -> list[Operation]:
    """Lists the ops that the host executes; constants are not executed."""
    return [
        op
        for function in module.body.block.ops
        if isinstance(function, FuncOp) and byoc.TARGET not in function.attributes
        for op in ops_of(function)[1:]
        if type(op) is not byoc.CallOp and not is_constant(op)
    ]


def _host_macs(host_ops: Sequence[Operation], split: Sequence[byoc.Node]) -> dict[str, int]:
    """Counts the multiply-accumulates that the host does of nodes which it shares with targets, at
    most those of the model's node.
    """
    found = dict.fromkeys((node.name for node in split if node.macs), 0)
    for op in host_ops if found else ():
        name = next((name for name in names(op.location) if name in found), None)
        if name is not None and isinstance(op, BlockOp | GraphOp):
            found[name] += macs_of([op]) * (trip_count_around(op) or 1)
    return {n.name: min(found[n.name], n.macs) for n in split if found.get(n.name)}


def _padded(module: ModuleOp, nodes: Sequence[byoc.Node]) -> dict[str, Padded]:
    """Finds the nodes that got more channels, with their own multiply-accumulates per inference."""
    found: dict[str, Padded] = {}
    listed = module.attributes.get(byoc.PADDED)
    for each in cast("ArrayAttr[byoc.PaddedAttr]", listed) if isinstance(listed, ArrayAttr) else ():
        plain = each.plain
        before, after = plain.macs
        named = {name.data for name in each.nodes}
        for node in nodes:
            if node.name in named and node.macs:
                found[node.name] = replace(plain, macs=[node.macs, node.macs * after // before])
    return found


def _host_parts(host_ops: Sequence[Operation], split: Sequence[str]) -> dict[str, list[str]]:
    """Lists which parts the host computes of nodes that it shares with targets, each kind once."""
    found: dict[str, dict[str, None]] = {name: {} for name in split}
    for op in host_ops if found else ():
        if isinstance(op, BlockOp | GraphOp):
            text = _host_part(op)
            for name in names(op.location):
                found.get(name, {})[text] = None
    return {name: [*texts] for name, texts in found.items() if texts}


def _host_part(op: BlockOp | GraphOp) -> str:
    """Words what the host computes by an op."""
    if not isinstance(op, BlockOp):
        return op.name
    return copy_text(op) if op.moves else computed(op)


def _foreign(ops: Sequence[Operation], known: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for op in ops:
        if type(op) is ForeignOp and op.reason is not None:
            found.update(dict.fromkeys(names(op.location), op.reason.data))
    return {node: found[node] for node in known if node in found}


def _decisions(module: ModuleOp) -> Iterable[Decision]:
    for trail in module.body.block.ops:
        if isinstance(trail, byoc.TrailOp):
            yield from (decision.plain for decision in trail.decisions)

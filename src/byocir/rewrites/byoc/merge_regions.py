"""`merge-regions`: gathers the regions of a target into as few calls as possible.

Requires: regions as `assign-targets` makes them. Two regions of a target and of one group, or of
none, merge if and only if no path between them passes through a node outside both (see `grouping`);
each target's policy says whether unconnected ones may share a call, and which regions are too small
to be worth one.
Guarantees: for one target with policy "any" no grouping has fewer regions, for "connected" no
further legal merge along an edge exists; inputs and outputs of a region are each listed once; glue
composites that do not serve others, and regions that are too small or break a rule of the policy,
are given back to the host; a region that could not join an earlier one records what lies between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, CutAttr, RegionOp, TargetAttr, composites_in, inline
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.tir import BlockOp
from byocir.dialects.traits import is_constant_value
from byocir.patterns.differences import copy_text
from byocir.patterns.legality import describe
from byocir.patterns.policy import Merge, RegionPolicy
from byocir.patterns.region_rules import GatheredRegion, broken_rules
from byocir.patterns.target_classes import TargetProtocol
from byocir.patterns.targets import composites_of, find
from byocir.patterns.trail import withdraw
from byocir.rewrites.byoc.count_work import macs_of
from byocir.rewrites.byoc.grouping import Edge, GroupCut, components, find_cuts, group_nodes
from byocir.rewrites.byoc.host_blocks import host_blocks
from byocir.rewrites.byoc.join import Replaced, join_regions
from byocir.rewrites.byoc.quotient import QuotientGraph
from byocir.rewrites.byoc.sort_ops import dependencies, place, topological
from byocir.rewrites.byoc.verify_regions import verify_interface
from byocir.vendor.hooks import ask, expect_given

GLUE_ALONE = "nothing beside it that is worth a call"


@dataclass(frozen=True)
class MergeRegionsPass(ModulePass):
    """Gathers regions of one target where that keeps the program acyclic."""

    name = "merge-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        given_back: dict[CompositeOp, str] = {}
        with gc_paused():
            for block in list(host_blocks(op)):
                given_back |= merge_regions(block)
        if given_back:
            withdraw(op, given_back)
            for composite in given_back:
                inline(composite)


@dataclass
class _Graph:
    """Describes a block by numbers: its ops, which must come before which, and to which target each
    belongs.
    """

    ops: list[Operation]
    edges: list[Edge] = field(init=False)
    targets: list[TargetAttr] = field(init=False)
    """The target of each colour: those of one target and different groups do not merge."""
    colours: list[int | None] = field(init=False)
    policies: list[RegionPolicy] = field(init=False)

    def __post_init__(self) -> None:
        self.edges = [(j, i) for i, before in enumerate(dependencies(self.ops)) for j in before]
        regions = [op for op in self.ops if isinstance(op, RegionOp)]
        kinds = list(dict.fromkeys(map(_kind, regions)))
        index = {kind: i for i, kind in enumerate(kinds)}
        self.targets = [target for target, _ in kinds]
        self.colours = [index[_kind(o)] if isinstance(o, RegionOp) else None for o in self.ops]
        self.policies = [_policy(find(target)) for target in self.targets]

    def regions(self, nodes: Iterable[int]) -> list[RegionOp]:
        return [op for i in nodes if isinstance(op := self.ops[i], RegionOp)]

    def neighbours(self) -> dict[int, list[int]]:
        """Maps each node to those that an edge connects it to."""
        near: dict[int, list[int]] = {}
        for a, b in self.edges:
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
        return near

    def broken_rules(self, members: Sequence[int]) -> str:
        """Words the rules of the policy that nodes of one target would break as one region; empty
        if none.
        """
        colour = self.colours[members[0]] if members else None
        if colour is None or not self.policies[colour].rules:
            return ""
        region = _gathered(self.regions(members))
        name = self.targets[colour].target_name.data
        return broken_rules(self.policies[colour].rules, region, name)


def _kind(region: RegionOp) -> tuple[TargetAttr, StringAttr | None]:
    return region.target, region.group


def _policy(target: TargetProtocol) -> RegionPolicy:
    policy: Any = ask(target, "region_policy")
    expect_given(
        target, "region_policy", isinstance(policy, RegionPolicy), "a RegionPolicy", policy
    )
    return policy


def merge_regions(block: Block) -> dict[CompositeOp, str]:
    """Merges the regions of one block; gives the composites that go back to the host, with the
    reasons.
    """
    ops = list(block.ops)
    if not any(isinstance(op, RegionOp) for op in ops):
        return {}
    graph = _Graph(ops)
    count = len(graph.ops)
    merge: list[Merge] = [policy.merge for policy in graph.policies]
    quotient = group_nodes(count, graph.edges, graph.colours, merge)
    quotient = _apart_where_rules_break(graph, quotient)
    reasons = _not_worth_a_call(graph, quotient)
    if reasons:
        graph.colours = [None if i in reasons else c for i, c in enumerate(graph.colours)]
        quotient = _without(quotient, count, graph.edges, reasons)
    _record_cuts(graph, quotient)
    if len(quotient.groups) < count:
        place(block, [graph.ops[i] for i in _order(quotient)])
    replaced = Replaced()
    groups = [graph.regions(members) for members in quotient.groups if len(members) > 1]
    joined = [join_regions(regions, replaced) for regions in groups]
    replaced.finish()
    for region in joined:
        verify_interface(region)
    given_back: dict[CompositeOp, str] = {}
    for node, reason in reasons.items():
        (region,) = graph.regions([node])
        given_back.update(dict.fromkeys(_composites([region]), reason))
        inline(region)
    return given_back


def _gathered(regions: Sequence[RegionOp]) -> GatheredRegion:
    """Describes the one region that some regions would become."""
    composites, members = _composites(regions), set[Operation](regions)
    given = dict.fromkeys(value for region in regions for value in region.inputs)
    made = [result for region in regions for result in region.outputs]
    used = [r for r in made if any(use.operation not in members for use in r.uses)]
    return GatheredRegion(
        tuple(composite.pattern.data for composite in composites),
        tuple(v.type for v in given if v.owner not in members and not is_constant_value(v)),
        tuple(result.type for result in used),
        macs_of(composites),
    )


def _apart_where_rules_break(graph: _Graph, quotient: QuotientGraph) -> QuotientGraph:
    """Splits each group that breaks a rule into the parts that edges connect. That makes no cycle,
    for a cycle would have been within one of the groups.
    """
    if not any(policy.rules for policy in graph.policies):
        return quotient
    near, groups = graph.neighbours(), list[list[int]]()
    for group in quotient.order():
        members = sorted(quotient.members(group))
        parts = components(members, near) if graph.broken_rules(members) else [members]
        groups += parts
    return QuotientGraph(len(graph.ops), graph.edges, groups=groups)


def _composites(regions: Iterable[RegionOp]) -> list[CompositeOp]:
    return [op for region in regions for op in composites_in(region)]


def _not_worth_a_call(graph: _Graph, quotient: QuotientGraph) -> dict[int, str]:
    """Lists the regions to give back, with reasons: glue that serves nothing, what is too small,
    what breaks a rule.
    """
    glue = [frozenset(c.name for c in composites_of(t) if c.glue) for t in graph.targets]
    near = graph.neighbours()
    reasons: dict[int, str] = {}
    for members in quotient.groups:
        colour = graph.colours[members[0]]
        if colour is None:
            continue
        idle = [
            node
            for part in (components(members, near) if glue[colour] else ())
            if all(c.pattern.data in glue[colour] for c in _composites(graph.regions(part)))
            for node in part
        ]
        reasons.update(dict.fromkeys(idle, GLUE_ALONE))
        rest = [node for node in members if node not in reasons]
        worth = [
            composite
            for composite in _composites(graph.regions(rest))
            if composite.pattern.data not in glue[colour]
        ]
        reason = _too_small(worth, graph.policies[colour]) or graph.broken_rules(rest)
        if reason:
            reasons.update(dict.fromkeys(rest, reason))
    return reasons


def _too_small(composites: Sequence[CompositeOp], policy: RegionPolicy) -> str:
    """Says why a region of these composites, glue not counted, is not worth a call; empty if it
    is."""
    if len(composites) < policy.min_composites:
        return f"expected {policy.min_composites} composites in a region, found {len(composites)}"
    if policy.min_macs and (macs := macs_of(composites)) < policy.min_macs:
        return f"expected {policy.min_macs:,} MACs in a region, found {macs:,}"
    return ""


def _without(
    quotient: QuotientGraph, count: int, edges: Sequence[Edge], gone: Mapping[int, str]
) -> QuotientGraph:
    """Takes nodes out of their groups; each then stands alone. No edge connects them to nodes that
    stay, so they can stand in front of these.
    """
    groups: list[list[int]] = []
    for group in quotient.order():
        members = quotient.members(group)
        groups += [[node] for node in sorted(members) if node in gone]
        stay = [node for node in members if node not in gone]
        groups += [stay] if stay else []
    return QuotientGraph(count, edges, groups=groups)


def _record_cuts(graph: _Graph, quotient: QuotientGraph) -> None:
    """Writes on one region of each group what keeps the group apart from others, so that joining
    finds it.
    """
    gathering = [p.merge != "none" for p in graph.policies]
    colours = [c if c is not None and gathering[c] else None for c in graph.colours]
    for group, cuts in find_cuts(quotient, graph.edges, colours).items():
        regions = graph.regions(quotient.members(group))
        # Else an earlier run has said why, for smaller regions.
        if not any(region.cuts for region in regions):
            regions[0].cuts = ArrayAttr(dict.fromkeys(_cut(cut, graph.ops) for cut in cuts))


def _cut(cut: GroupCut, ops: Sequence[Operation]) -> CutAttr:
    first = ops[cut.first]
    return CutAttr.of(
        _named(first),
        ops[cut.leaves],
        first,
        ops[cut.last],
        ops[cut.enters],
    )


def _named(op: Operation) -> str:
    """Names an op in reports: a copy, which puts zeros around an image, has the nodes of what reads
    the image and is none of them.
    """
    if isinstance(op, RegionOp):
        group = f", group {op.group.data}" if op.group is not None else ""
        return f"a region of {op.target.target_name.data}{group}"
    if isinstance(op, BlockOp) and op.moves:
        return f"a {copy_text(op)}{describe(op).removeprefix(op.name)}"
    return describe(op)


def _order(quotient: QuotientGraph) -> list[int]:
    """Orders all nodes so that the members of a group stand next to each other, and the block's
    last op is still last.
    """
    groups = quotient.groups
    index = {quotient.group(members[0]): i for i, members in enumerate(groups)}
    needed = [{index[g] for g in quotient.before(quotient.group(m[0]))} for m in groups]
    needed[-1] = set(range(len(groups) - 1))
    return [node for i in topological(needed) for node in groups[i]]

"""Lowers graphs of control flow to blocks where that gives a target work.

Ops that stay in an If, Loop or Scan run fastest at the graph level, where ONNX Runtime runs the
whole graph in one piece; blocks are run one by one. So a graph is lowered only if a target takes
some of its blocks: a hand-off is tried on a copy of the module with all graphs lowered, and only
the graphs in which it made a region are then lowered in the module. For the others the copy tells
why there was none.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.byoc import TARGETS, DecisionAttr, RegionOp, TrailOp
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.base import is_defined
from byocir.dialects.locations import names
from byocir.lowering.graph_to_tir.lower_op import Definitions
from byocir.patterns.targets import composites_of, targets_of
from byocir.patterns.trail import append
from byocir.rewrites.byoc.assign_targets import AssignTargetsPass
from byocir.rewrites.byoc.host_blocks import blocks_in, host_blocks
from byocir.rewrites.byoc.match_composites import MatchCompositesPass
from byocir.rewrites.byoc.merge_regions import MergeRegionsPass

TRIAL = (MatchCompositesPass("tensor"), AssignTargetsPass(), MergeRegionsPass())
"""A hand-off up to where it is known which regions are worth a call."""


def lower_bodies(ctx: Context, module: ModuleOp, definitions: Definitions) -> None:
    """Lowers graphs of control flow, with all that is inside, if a target of the module takes
    something of them at the tensor level; a trial on a copy tells. Records why the others stay.
    """
    flows = list(_outermost(module))
    if not flows or not _takes_blocks(module):
        return
    trial = module.clone()
    copies = list(_outermost(trial))
    for copy in copies:
        _lower(copy, definitions)
    known = set(_decisions(trial))
    for pass_ in TRIAL:
        pass_.apply(ctx, trial)
    stay: set[str] = set()
    for flow, copy in zip(flows, copies, strict=True):
        if any(isinstance(op, RegionOp) for op in copy.walk()):
            _lower(flow, definitions)
        else:
            stay.update(name for op in flow.walk() if op is not flow for name in names(op.location))
    append(module, [d for d in _decisions(trial) if d not in known and _declines(d, stay)])


def _outermost(module: ModuleOp) -> Iterator[ForeignOp]:
    """Yields the control flow of the host that is inside no other."""
    for block in host_blocks(module):
        if isinstance(block.parent_op(), ForeignOp):
            continue
        yield from (op for op in block.ops if isinstance(op, ForeignOp) and op.is_control_flow)


def _takes_blocks(module: ModuleOp) -> bool:
    """Tells if a target has patterns at the tensor level."""
    targets = targets_of(module) if TARGETS in module.attributes else ()
    return any(c.level == "tensor" for target in targets for c in composites_of(target))


def _lower(flow: ForeignOp, definitions: Definitions) -> None:
    """Lowers the ops in the graphs of control flow that have a definition."""
    for block in blocks_in(flow):
        for op in [op for op in block.ops if is_defined(type(op))]:
            definitions.lower(op)


def _decisions(module: ModuleOp) -> Iterator[DecisionAttr]:
    for op in module.body.block.ops:
        if isinstance(op, TrailOp):
            yield from op.decisions


def _declines(decision: DecisionAttr, nodes: set[str]) -> bool:
    """Tells if a decision declines ops that are all of these nodes."""
    found = {node.data for node in decision.nodes}
    return not decision.taken and bool(found) and found <= nodes

"""Replaces graph ops by their definitions."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from byocir.dialects.graph import ForeignOp, GraphOp, YieldOp
from byocir.dialects.graph.base import is_defined, undefined
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.uses import replace_op

STAYS: dict[type[Operation], str] = {
    ForeignOp: "an operator of ONNX beyond the core set, which runs by its name",
    YieldOp: "the end of a graph inside a foreign op",
}
"""The ops of the graph dialect that have no definition, and why."""


def lower_op(op: Operation) -> None:
    """Replaces one graph op by what defines it; raises ByocirError B305 for an op that has no
    definition."""
    if not isinstance(op, GraphOp) or not is_defined(type(op)):
        raise undefined(op, STAYS.get(type(op), "it has no definition"))
    emitter = Emitter(op.location)
    defined = op.define(emitter)
    results = [defined] if isinstance(defined, SSAValue) else list(defined)
    replace_op(op, emitter.ops, results)

"""Ops that are calls of routines: what sorts, and what writes at computed indices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.tir.emit import Emitter
from byocir.evaluate.routines import HOW
from byocir.lowering.graph_to_tir.registry import Way, lowers


@lowers(g.TopKOp, way=Way.EXTERN)
def _top_k(emit: Emitter, op: g.TopKOp) -> Sequence[SSAValue]:
    """In order also where none is asked for."""
    axis, k, largest = (value.value.data for value in (op.axis, op.k, op.largest))
    types = [result.type for result in op.results]
    return emit.extern("top_k", [op.input], types, axis=axis, k=k, largest=largest)


@lowers(g.ScatterElementsOp, way=Way.EXTERN)
def _scatter_elements(emit: Emitter, op: g.ScatterElementsOp) -> Sequence[SSAValue]:
    numbers = {"axis": op.axis.value.data, "how": HOW[op.reduction.data]}
    return emit.extern("scatter_elements", list(op.operands), [op.result.type], **numbers)


@lowers(g.ScatterNdOp, way=Way.EXTERN)
def _scatter_nd(emit: Emitter, op: g.ScatterNdOp) -> Sequence[SSAValue]:
    how = HOW[op.reduction.data]
    return emit.extern("scatter_nd", list(op.operands), [op.result.type], how=how)

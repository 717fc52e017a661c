"""Counts the multiply-accumulates of ops."""

from __future__ import annotations

from xdsl.ir import Operation

from byocir.dialects.graph.base import GraphOp


def macs(op: Operation) -> int:
    """Multiply-accumulates of a graph op, those on padding counted; 0 for every other op."""
    return op.macs() if isinstance(op, GraphOp) else 0

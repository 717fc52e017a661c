"""Why ops between dequantize and quantize stayed in float: records in the module's trail.

A record names no target, for no target has seen these ops yet; its nodes are those of the ops that
the nearest rewrite matched, so that whatever a target misses for it later is told the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.dialects.graph import AddOp, ClipOp, DequantizeOp, QuantizeOp, ReluOp
from byocir.patterns import Attempt
from byocir.patterns.trail import append, nearest_misses, record
from byocir.rewrites.matching import MatchedRewrite

_BETWEEN = (QuantizeOp, DequantizeOp, ReluOp, ClipOp, AddOp)
"""Ops of every quantised chain, and sums, which are mostly no biases: that a rewrite matches those
alone tells nothing."""


def tell_left_in_float(
    module: ModuleOp, pass_name: str, rewrites: Sequence[MatchedRewrite]
) -> None:
    """Records for each quantize op that these rewrites left how far the nearest came and which
    rules failed; for an op on dequantised values that nothing quantises, that."""
    ops = list(module.walk())
    found = [miss for op in ops if isinstance(op, QuantizeOp) for miss in _nearest(op, rewrites)]
    told = {matched for miss in found for matched in miss.matched}
    composites = [each.composite for each in rewrites]
    for op in ops:
        if op not in told and _is_inner(op):
            found += nearest_misses(op, composites, {})
    if found:
        append(module, [record(_named(miss, pass_name), "") for miss in found])


def _nearest(op: Operation, rewrites: Sequence[MatchedRewrite]) -> Iterator[Attempt]:
    """The nearest attempt at a quantize op, if it tells something."""
    attempts = [each.attempt(op) for each in rewrites if each.may_take(op)]
    telling = [each for each in attempts if each.match is not None or not _is_plain(each)]
    if telling:
        yield max(telling, key=lambda each: (each.match is not None, len(each.matched)))


def _is_plain(attempt: Attempt) -> bool:
    return all(isinstance(op, _BETWEEN) for op in attempt.matched)


def _is_inner(op: Operation) -> bool:
    on_grid = any(isinstance(value.owner, DequantizeOp) for value in op.operands)
    return on_grid and not isinstance(op, _BETWEEN)


def _named(attempt: Attempt, pass_name: str) -> Attempt:
    """The attempt, called by the pass."""
    called = attempt.composite.renamed(f"{pass_name}.{attempt.composite.name}")
    return replace(attempt, composite=called)

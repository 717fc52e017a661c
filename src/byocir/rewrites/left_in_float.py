"""Records in the module's trail why ops between dequantize and quantize stayed in float.

A record names no target, for no target has seen these ops yet; its nodes are those of the ops that
the nearest rewrite matched, so that whatever a target misses for it later is told the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.dialects.array import constant_array
from byocir.dialects.graph import AddOp, ClipOp, DequantizeOp, QuantizeOp, ReluOp
from byocir.dialects.locations import names
from byocir.patterns import (
    Attempt,
    Match,
    composite,
    constant,
    either,
    optional_operand,
    path,
    wildcard,
)
from byocir.patterns import op as op_pattern
from byocir.patterns.trail import append, forget, nearest_misses, record
from byocir.rewrites.grid import anything, quantize
from byocir.rewrites.matching import MatchedRewrite
from byocir.rewrites.movement_ops import MOVING_OPS

_BETWEEN = (QuantizeOp, DequantizeOp, ReluOp, ClipOp, AddOp)
"""Ops of every quantised chain, and sums, which are mostly no biases: that a rewrite matches those
alone tells nothing."""


@composite("product")
def product():
    """A product of quantised values whose sums become floats."""
    quantized = quantize(wildcard(), "quantize", anything)
    # On the way the sign of bytes may change (`signed-bytes`).
    moved = path(quantized, "graph.requantize", *(kind.name for kind in MOVING_OPS))
    surrounded = op_pattern("graph.where", wildcard(), op_pattern("graph.pad", moved), wildcard())
    image = moved | path(surrounded, "graph.requantize")
    return either(
        op_pattern("graph.conv", image, wildcard(), optional_operand(constant())),
        op_pattern("graph.matmul", moved, wildcard()),
        op_pattern("graph.matmul", wildcard(), moved),
    )


@product.rule(
    fix="quantise the float model with scales that are known before, as `byocir quantise` does: a "
    "target that rescales its sums needs them as constants, one that gives i32 does not"
)
def scale_is_known(m: Match) -> tuple[bool, object]:
    """The scale of the input is known when the model is compiled."""
    scale = m["quantize"].op.operands[1]
    made = scale.owner
    by = (
        ", ".join(names(made.location)) if isinstance(made, Operation) else "the input of the model"
    )
    return constant_array(scale) is not None, f"a scale that {by} computes"


def tell_left_in_float(
    module: ModuleOp, pass_name: str, rewrites: Sequence[MatchedRewrite]
) -> None:
    """Records, for each quantize op that these rewrites left, how far the nearest of them came and
    which rules failed; for an op on dequantised values that nothing quantises, records that.
    """
    ops = list(module.walk())
    found = [miss for op in ops if isinstance(op, QuantizeOp) for miss in _nearest(op, rewrites)]
    told = {matched for miss in found for matched in miss.matched}
    composites = [each.composite for each in rewrites]
    for op in ops:
        if op not in told and _is_inner(op):
            found += [each.attempt(op) for each in rewrites if each.may_take(op)]
            found += nearest_misses(op, composites, {})
    _tell(module, pass_name, found)


def forget_what_became_integers(module: ModuleOp) -> None:
    """Drops what was recorded of ops that were left in float once, and are on integers now."""
    left = [op for op in module.walk() if _is_told(op)]
    named = {name for op in left for name in names(op.location)}
    forget(module, lambda told: not told.target and named.isdisjoint(told.nodes[:1]))


def tell_scales_are_computed(module: ModuleOp, pass_name: str) -> None:
    """Records products of integers whose scale only a run tells, as dynamic quantisers write
    them."""
    _tell(module, pass_name, [miss for op in module.walk() for miss in _of_computed_scale(op)])


def _tell(module: ModuleOp, pass_name: str, found: Sequence[Attempt]) -> None:
    if found:
        append(module, [record(_named(miss, pass_name), "") for miss in found])


def _nearest(op: Operation, rewrites: Sequence[MatchedRewrite]) -> Iterator[Attempt]:
    """Yields the nearest attempt at a quantize op, if it says something."""
    attempts = [each.attempt(op) for each in rewrites if each.may_take(op)]
    telling = [each for each in attempts if each.match is not None or not _is_plain(each)]
    if telling:
        yield max(telling, key=lambda each: (each.match is not None, len(each.matched)))


def _is_plain(attempt: Attempt) -> bool:
    return all(isinstance(op, _BETWEEN) for op in attempt.matched)


def _is_inner(op: Operation) -> bool:
    on_grid = any(isinstance(value.owner, DequantizeOp) for value in op.operands)
    return on_grid and not isinstance(op, _BETWEEN)


def _is_told(op: Operation) -> bool:
    """Tells whether an op is of those that records are about."""
    return isinstance(op, QuantizeOp) or _is_inner(op) or any(_of_computed_scale(op))


def _of_computed_scale(op: Operation) -> Iterator[Attempt]:
    if op.name in product.root_names:
        attempt = product.attempt(op)
        if any(not rule.holds for rule in attempt.rules):
            yield replace(attempt, matched=(op,))


def _named(attempt: Attempt, pass_name: str) -> Attempt:
    """Renames an attempt's pattern after the pass."""
    called = attempt.composite.renamed(f"{pass_name}.{attempt.composite.name}")
    return replace(attempt, composite=called)

"""Defines the rule of composites that do not say that they take zero points."""

from __future__ import annotations

from byocir.dialects.graph import RequantizeOp
from byocir.patterns.match import Match
from byocir.patterns.nodes import OpPattern, Pattern
from byocir.patterns.rules import Rule


def leaves_zero_point_open(pattern: Pattern) -> bool:
    """Tells whether a pattern matches a requantize and does not say with which zero point."""
    if not isinstance(pattern, OpPattern) or pattern.name != RequantizeOp.name:
        return False
    return "zero_point" not in pattern.attrs


def results_have_zero_point_0(m: Match) -> tuple[bool, int]:
    """What is requantised has zero point 0"""
    found = [op.zero_point.value.data for op in m.ops if isinstance(op, RequantizeOp)]
    seen = next((zero for zero in found if zero), 0)
    return seen == 0, seen


SYMMETRIC_ALONE = Rule(
    results_have_zero_point_0,
    "What is requantised has zero point 0",
    "quantise activations symmetrically (ActivationSymmetric in ONNX Runtime's quantiser), or give "
    "the target a composite that takes zero points: @composite(..., zero_points=True)",
)

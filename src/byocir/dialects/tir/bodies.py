"""Writes the scalar bodies that lowerings make and targets look for.

Each is one function of scalar expressions (see `byocir.dialects.tir.scalar`): with emitted scalars
it builds a block's body, with pattern scalars the pattern that matches it.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Attribute

from byocir.dialects.tir.scalar import Number, Scalar
from byocir.dialects.types import i8, i32, i64

S = TypeVar("S", bound=Scalar)


def first(x: S, acc: S) -> S:
    """Computes the body of a block that overwrites its result: (x, acc) → x."""
    return x


def multiply_accumulate(x: S, w: S, acc: S, *, to: Attribute) -> S:
    """Computes a contraction's step: `acc + x * w`, with both factors widened to the accumulator's
    type.
    """
    return acc + x.to(to) * w.to(to)


def scale_round(x: S, multiplier: S, half: S | Number, shift: S | Number) -> S:
    """Computes `(x * multiplier + half) >> shift` in i64, which scales and rounds half up."""
    return (x.to(i64) * multiplier.to(i64) + half) >> shift


def scale_floor(x: S, multiplier: S, shift: S | Number) -> S:
    """Computes `x * multiplier >> shift` in i64, which scales and rounds down."""
    return x.to(i64) * multiplier.to(i64) >> shift


def round_even(x: S, below_half: S | Number, shift: S | Number) -> S:
    """Computes `x / 2^shift`, rounded half to even: a tie is rounded up only when `x >> shift` is
    odd. `below_half` is 2^(shift-1) - 1; shift is at least 1.
    """
    quotient = x >> shift
    odd = quotient - (quotient >> 1) * 2
    return (x + below_half + odd) >> shift


def scale_round_even(x: S, multiplier: S, below_half: S | Number, shift: S | Number) -> S:
    """Scales as `scale_round`, but ties go to the even value."""
    return round_even(x.to(i64) * multiplier.to(i64), below_half, shift)


def saturate(x: S, low: S | Number, high: S | Number, *, to: Attribute = i8) -> S:
    """Clamps a number to what a narrower type holds, and narrows it."""
    return x.clamp(low, high).to(to)


def widen_add(x: S, acc: S) -> S:
    """Adds two integers of at most 32 bits as i32."""
    return acc + x.to(i32)

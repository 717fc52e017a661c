"""Clamps come after conversions only where these are defined, and give the same integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block

from byocir.dialects.types import f32, i8, i32, i64, ui8
from byocir.lowering.tir_to_c.clamp_after_cast import clamp_after_cast
from byocir.lowering.tir_to_c.float_ranges import FloatRange
from byocir.lowering.tir_to_c.reciprocal import as_product

INT32 = -(2**31), 2**31 - 1


def body(low, high, divisor=None, target=i8, kind=arith.FPToSIOp):
    """A block that divides its argument, rounds it, clamps it and converts it: its argument, the
    division, and the conversion."""
    block = Block(arg_types=[f32])
    numbers = [arith.ConstantOp(FloatAttr(n, f32)) for n in (low, high, divisor or 1.0)]
    block.add_ops(numbers)
    lower, upper, by = (op.result for op in numbers)
    divided = arith.DivfOp(block.args[0], by)
    rounded = math.RoundEvenOp(block.args[0] if divisor is None else divided.result)
    larger = arith.MaximumfOp(rounded.result, lower)
    smaller = arith.MinimumfOp(larger.result, upper)
    cast = kind(smaller.result, target)
    block.add_ops([divided, rounded, larger, smaller, cast])
    return block, divided, cast


def clamp_of(seen, *args, **kwargs):
    block, _, cast = body(*args, **kwargs)
    return clamp_after_cast(cast, {block.args[0]: seen})


@given(
    st.floats(-(2.0**33), 2.0**33, width=32),
    st.floats(-(2.0**33), 2.0**33, width=32),
    st.integers(-128, 127),
    st.integers(-128, 127),
    st.floats(0, 1, width=32),
)
def test_clamps_behind_casts_are_defined_and_give_the_same(one, other, first, second, at):
    (start, end), (low, high) = sorted((one, other)), sorted((first, second))
    clamp = clamp_of(FloatRange(start, end, False), low, high)
    fits = INT32[0] <= np.rint(start) and np.rint(end) <= INT32[1]
    assert (clamp is not None) == fits
    assume(clamp is not None)
    for x in (start, end, min(max(start + (end - start) * at, start), end)):
        whole = int(np.rint(np.float32(x)))
        assert max(clamp.low, min(whole, clamp.high)) == max(low, min(whole, high))
        assert INT32[0] <= whole <= INT32[1]


TOP = 2.0**31 - 128
"""The largest f32 that an int32 holds: the next one is 2^31."""


@pytest.mark.parametrize("divisor", [1.0, 0.5, 3.0, 1 + 2.0**-23, 0.01])
def test_quotients_at_the_largest_integer_are_clamped_first(divisor):
    """The product that stands for a quotient may be the next float."""
    block, divided, cast = body(-128, 127, divisor)
    x, decisions = np.float32(TOP * divisor * (1 - 2.0**-21)), set()
    for _ in range(24):
        known = {block.args[0]: FloatRange(0.0, float(x), False)}
        assert as_product(divided, known) is not None
        late = clamp_after_cast(cast, known) is not None
        assert late == (np.nextafter(x / np.float32(divisor), np.float32(np.inf)) < 2.0**31)
        decisions.add(late)
        x = np.nextafter(x, np.float32(np.inf))
    assert decisions == {False, True}


@given(st.floats(2.0**-20, 2.0**20, width=32), st.integers(-6, 6), st.sampled_from([-1, 1]))
def test_products_for_quotients_convert(divisor, steps, sign):
    """As far as a clamp comes late, the product that is emitted is an int32."""
    x = np.float32(sign * TOP * divisor)
    for _ in range(abs(steps)):
        x = np.nextafter(x, np.float32(np.inf * steps))
    block, divided, cast = body(-128, 127, divisor)
    known = {block.args[0]: FloatRange(min(float(x), 0.0), max(float(x), 0.0), False)}
    if clamp_after_cast(cast, known) is None:
        return
    parts = as_product(divided, known)
    assert parts is not None
    high, low = parts
    exact = Fraction(float(x)) * Fraction(high) + Fraction(float(x * np.float32(low)))
    assert -(2**31) - 128 <= exact < 2**31 - 64, "where a rounded product would not be inside"


ANYWHERE = FloatRange(-1000.0, 1000.0, False)


@pytest.mark.parametrize(
    ("seen", "low", "high", "target", "kind", "late"),
    [
        (ANYWHERE, -128, 127, i8, arith.FPToSIOp, True),
        (ANYWHERE, 0, 255, ui8, arith.FPToUIOp, True),
        (ANYWHERE, -1, 255, ui8, arith.FPToUIOp, False),
        (ANYWHERE, -129, 127, i8, arith.FPToSIOp, False),
        (ANYWHERE, 0.5, 127, i8, arith.FPToSIOp, False),
        (ANYWHERE, 5, 4, i8, arith.FPToSIOp, False),
        (ANYWHERE, -128, 127, i32, arith.FPToSIOp, True),
        (ANYWHERE, -128, 127, i64, arith.FPToSIOp, False),
        (FloatRange(-1000.0, 1000.0, True), -128, 127, i8, arith.FPToSIOp, False),
        (FloatRange(0.0, np.inf, False), -128, 127, i8, arith.FPToSIOp, False),
    ],
)
def test_when_a_clamp_comes_late(seen, low, high, target, kind, late):
    assert (clamp_of(seen, low, high, target=target, kind=kind) is not None) == late

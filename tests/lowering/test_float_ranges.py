"""Ranges of floats hold every number that a body can compute, as C computes it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import arith, math
from xdsl.ir import Block

from byocir.dialects.intervals import Interval
from byocir.dialects.types import f32, f64, i8
from byocir.lowering.tir_to_c.float_ranges import ANY, FloatRange, range_of, range_of_array

BINARY = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
}
FLOATS = st.floats(-(2.0**40), 2.0**40, width=32)


@st.composite
def points(draw):
    """A range, and a number in it."""
    low, value, high = sorted(draw(st.lists(FLOATS, min_size=3, max_size=3)))
    return FloatRange(low, high, False), np.float32(value)


@given(
    st.lists(points(), min_size=2, max_size=4),
    st.lists(
        st.tuples(st.sampled_from([*BINARY, math.RoundEvenOp]), st.integers(0), st.integers(0)),
        min_size=1,
        max_size=6,
    ),
)
def test_ranges_hold_what_is_computed(arguments, steps):
    block = Block(arg_types=[f32] * len(arguments))
    known = {arg: seen for arg, (seen, _) in zip(block.args, arguments, strict=True)}
    values = list(block.args)
    numbers = [number for _, number in arguments]
    for kind, i, j in steps:
        i, j = i % len(values), j % len(values)
        with np.errstate(all="ignore"):
            if kind is math.RoundEvenOp:
                op, number = kind(values[i]), np.rint(numbers[i])
            else:
                op, number = kind(values[i], values[j]), BINARY[kind](numbers[i], numbers[j])
        block.add_op(op)
        values.append(op.results[0])
        numbers.append(number)
        found = range_of(values[-1], known)
        assert found.nan if np.isnan(number) else found.low <= number <= found.high


@given(points(), points())
def test_ranges_of_quotients_hold_their_neighbours(one, other):
    block = Block(arg_types=[f32, f32])
    op = arith.DivfOp(*block.args)
    block.add_op(op)
    known = dict(zip(block.args, (one[0], other[0]), strict=True))
    found = range_of(op.result, known)
    with np.errstate(all="ignore"):
        quotient = one[1] / other[1]
        for end in (-np.inf, np.inf):
            near = np.nextafter(quotient, np.float32(end))
            assert np.isnan(near) or found.low <= near <= found.high


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(arith.SIToFPOp, -128, 127), (arith.UIToFPOp, 0, 255)]
)
def test_integers_are_as_wide_as_their_type(kind, low, high):
    block = Block(arg_types=[i8])
    op = kind(block.args[0], f32)
    block.add_op(op)
    assert range_of(op.results[0], {}) == FloatRange(low, high, False)


def test_what_nothing_is_known_of_is_any_number():
    block = Block(arg_types=[f32, f64])
    assert all(range_of(arg, {}) == ANY for arg in block.args)
    assert range_of_array(np.array([1, np.nan], np.float32)) == ANY
    assert range_of_array(np.zeros(0, np.float32)) == ANY


@given(st.floats(-300, 300, width=32), st.floats(0, 300, width=32))
def test_numbers_that_fit_when_they_are_cut_off_convert(low, length):
    seen = FloatRange(low, low + length, False)
    fits = int(seen.low) >= -128 and int(seen.high) <= 127
    assert seen.converts(Interval(-128, 127)) == fits

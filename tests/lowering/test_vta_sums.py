"""Residual sums and averages give the same for all bytes, in few steps: what is added to them is
one number.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_vta_legalise import alu_steps
from vta_programs import Body, Net, apply, assert_same, evaluate
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from byocir.dialects.graph.fixed_point import fixed_parameters, span_of
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir.bodies import saturate, scale_floor, scale_round, scale_round_even
from byocir.dialects.types import i8, i32, i64
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.rewrites.grid import Grid
from byocir.rewrites.residual_sums import byte_parameters, sum_parameters

BYTES = np.arange(-128, 128).astype(np.int8)
PAIRS = np.repeat(BYTES, 256).reshape(1, 16, 64, 64), np.tile(BYTES, 256).reshape(1, 16, 64, 64)
I8 = integer_range(i8)


def term(body: Body, x: SSAValue, factor: int, added: int) -> SSAValue:
    """`x * factor + added`, as fix-point scales a term of a sum."""
    low, high = integer_range(i32)
    return body.elementwise(
        [x], lambda a: saturate(a.to(i64) * factor + added, low, high, to=i32), i32
    )


def requantised(
    body: Body, x: SSAValue, factor: int, shift: int, rounding: str, zero: int, to: Interval = I8
) -> SSAValue:
    """`x * factor / 2^shift + zero`, clamped to an interval."""
    multiplier = body.constant(np.array(factor, np.int32))

    def scaled(a, m):
        if rounding == "floor" or not shift:
            return scale_floor(a, m, shift) + zero
        half = 1 << shift - 1
        if rounding == "half_even":
            return scale_round_even(a, m, half - 1, shift) + zero
        return scale_round(a, m, half + (zero << shift), shift)

    return body.elementwise(
        [x, multiplier], lambda a, m: saturate(scaled(a, m), to.low, to.high, to=i8), i8
    )


def residual(scales, zeros, rounding, clamp=I8, ranges=(I8, I8), signs=(1, 1), *, as_bytes=False):
    """A residual sum as fix-point makes it; scales are over that of the result."""
    grid = Grid(np.float32(1), np.int8(zeros[2]), None, i8)
    farthest = [max(127 - zero, zero + 128) for zero in zeros[:2]]
    factors, shift = sum_parameters(np.array(scales), farthest, grid)
    multiplier = 1
    if as_bytes and (short := byte_parameters(np.array(scales), farthest)) is not None:
        factors, multiplier, shift = short
    factors = [int(factor) * sign for factor, sign in zip(factors, signs, strict=True)]
    net = Net(*(x.shape for x in PAIRS))
    clipped = [
        net.composite("Clip", [x], lambda body, x, r=r: body.clip(x, *r)) if r != I8 else x
        for x, r in zip(net.inputs, ranges, strict=True)
    ]

    def make(body, x, y):
        terms = [term(body, v, f, -f * z) for v, f, z in zip((x, y), factors, zeros, strict=False)]
        total = body.elementwise(terms, lambda a, b: a + b)
        return requantised(body, total, int(multiplier), shift, rounding, zeros[2], clamp)

    return net.module(net.composite("Add", clipped, make))


def steps_of(module: ModuleOp, inputs=PAIRS) -> list[str]:
    """The steps of the ALU, which give the same for all inputs."""
    expected = evaluate(module, inputs)
    apply(module, VtaLegalisePass)
    assert_same(evaluate(module, inputs), expected)
    return alu_steps(module)


ZEROS = st.sampled_from([-128, 127, 0, -1, 5, -77])
ROUNDINGS = st.sampled_from(["floor", "half_up", "half_even"])
RANGES = st.sampled_from([I8, Interval(0, 127), Interval(-9, 30)])


@settings(max_examples=10 if settings.default.max_examples < 100 else 500)
@given(
    st.tuples(*[st.sampled_from([1e-4, 0.03, 0.3, 0.5, 1.0, 1.7, 20.0]) | st.floats(1e-6, 30)] * 2),
    st.tuples(ZEROS, ZEROS, ZEROS),
    ROUNDINGS,
    st.sampled_from([I8, Interval(-128, 5), Interval(-77, 127)]),
    st.tuples(RANGES, RANGES),
    st.sampled_from([(1, 1), (1, -1)]),
    st.booleans(),
)
@example((1.0, 0.5), (3, -128, 7), "half_even", I8, (I8, I8), (1, 1), False)
def test_residual_sums_of_all_bytes_are_exact(
    scales, zeros, rounding, clamp, ranges, signs, as_bytes
):
    """Ties, saturation at both ends and zero points at the ends of their type included."""
    steps_of(residual(scales, zeros, rounding, clamp, ranges, signs, as_bytes=as_bytes))


@settings(max_examples=10 if settings.default.max_examples < 100 else 500)
@given(st.integers(1, 12), ZEROS, ZEROS, st.floats(1e-3, 20), ROUNDINGS, st.sampled_from([1, 2, 3]))
def test_averages_are_exact(side, zero, result, ratio, rounding, scale):
    """A sum over a window, its zero points taken off, by a scale."""
    points = side * side
    factors, shift = fixed_parameters(np.array(ratio / points), span_of(I8, result))
    net = Net((1, 4, side, side))

    def make(body, x):
        sums = body.elementwise([body.pool(x, "sum", (side, side))], lambda a: a + -zero * points)
        return requantised(body, sums, int(factors) * scale, shift, rounding, result)

    module = net.module(net.composite("Mean", net.inputs, make))
    values = np.random.default_rng(side).integers(-128, 128, (1, 4, side, side), np.int8)
    values[0, :2] = [[[-128]], [[127]]]
    steps_of(module, [values])


SYMMETRIC = ["muli", "muli", "addi", "shrsi i", "addi i", "shrsi i"]


@pytest.mark.parametrize("rounding", ["half_up", "half_even"])
def test_zero_points_of_sums_take_no_steps_where_no_value_meets_what_is_lost(rounding):
    assert steps_of(residual((0.44, 0.11), (7, -3, 0), rounding)) == SYMMETRIC


@pytest.mark.parametrize("zeros", [(0, 0, 0), (7, -3, 0)])
def test_terms_are_multiplied_by_bytes_and_their_sum_by_a_number(zeros):
    """Bytes times bytes are added by GEMM."""
    steps = steps_of(residual((0.44, 0.11), zeros, "half_up", as_bytes=True))
    assert steps == ["addi", "addi", "muli i", "shrsi i", "addi i", "shrsi i"]


POINTS = 1024
ROWS = np.random.default_rng(3).integers(-128, 128, (1, 6, POINTS), np.int8)


def sum_behind_a_product(
    inner: tuple[int, int, int, str],
    factors: tuple[int, int],
    outer: tuple[int, int, str],
    clamp: Interval,
    y: Interval = I8,
) -> ModuleOp:
    """A sum of bytes and of what is requantised of products of x, by a bias, a multiplier, a shift
    and its rounding, each times a factor, requantised by a multiplier and a shift."""
    bias, multiplier, shift, rounding = inner
    net = Net((1, 5, POINTS), (1, 1, POINTS))
    x, other = net.inputs
    if y != I8:
        other = net.composite("Clip", [other], lambda body, x: body.clip(x, *y))

    def make(body, x, y):
        sums = body.conv(x, np.array([[[3], [1], [-1], [1], [0]]], np.int8))
        biased = body.bias(sums, np.array([bias], np.int32))
        inside = requantised(body, biased, multiplier, shift, rounding, 0)
        terms = [term(body, v, f, 0) for v, f in zip((inside, y), factors, strict=True)]
        total = body.elementwise(terms, lambda a, b: a + b)
        by, last, rounds = outer
        return requantised(body, total, by, last, rounds, 0, clamp)

    return net.module(net.composite("ConvAdd", [x, other], make))


@settings(max_examples=12 if settings.default.max_examples < 100 else 500)
@given(
    st.tuples(st.integers(-40, 40), st.sampled_from([1, 1, 2, 5]), st.integers(1, 4), ROUNDINGS),
    st.tuples(st.sampled_from([1, 1, 2, 4, 77, -3]), st.sampled_from([1, 1, 2, 53, -1])),
    st.tuples(st.sampled_from([1, 1, 3]), st.integers(1, 8), ROUNDINGS),
    st.sampled_from([I8, Interval(0, 127), Interval(0, 6), Interval(-3, 127)]),
    RANGES,
)
@example((3, 1, 4, "floor"), (1, 1), (1, 1, "half_up"), Interval(0, 127), Interval(0, 127))
@example((3, 1, 1, "half_even"), (1, 1), (1, 1, "half_up"), I8, Interval(0, 127))
def test_sums_behind_products_are_exact(inner, factors, outer, clamp, y):
    """Also where clamps of the term are left out."""
    steps_of(sum_behind_a_product(inner, factors, outer, clamp, y), [ROWS[:, :5], ROWS[:, 5:]])


@pytest.mark.parametrize(
    ("outer", "y", "steps"),
    [
        # A term below -128 gives 0 whatever it is added to.
        (1, I8, ["addi i", "shrsi i", "minsi i", "addi", "addi i", "shrsi i", "maxsi i"]),
        # One above 127 gives 127 only with bytes from 0 on.
        (0, I8, ["addi i", "shrsi i", "minsi i", "addi", "maxsi i", "minsi i"]),
        (0, Interval(0, 127), ["maxsi i", "addi i", "shrsi i", "addi", "maxsi i", "minsi i"]),
    ],
)
def test_a_term_is_clamped_where_the_sum_is_not_clamped_anyway(outer, y, steps):
    rounds = "half_up" if outer else "floor"
    module = sum_behind_a_product(
        (3, 1, 2, "floor"), (1, 1), (1, outer, rounds), Interval(0, 127), y
    )
    assert steps_of(module, [ROWS[:, :5], ROWS[:, 5:]]) == steps

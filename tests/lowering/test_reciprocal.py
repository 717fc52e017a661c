"""Divisions as products, and clamps after conversions: each integer is what it was."""

from fractions import Fraction

import numpy as np
import pytest
from c_host import SANITIZED, run_c
from graph_ops import Case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pass_checks import run_on, same

from byocir.dialects import graph
from byocir.dialects.graph import FloatHalfEvenAttr
from byocir.dialects.types import i8, ui8
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c.reciprocal import reciprocal_of
from byocir.toolchain import x86_64_level
from byocir.toolchain.calling import FLAGS

STRICT_FMA = ("-march=x86-64-v3",) if x86_64_level() >= 3 else ()


def fused(x: np.float32, high: float, low: float) -> np.float32:
    """`fmaf(x, high, x * low)`, rounded once from what it is exactly."""
    exact = Fraction(float(x)) * Fraction(high) + Fraction(float(x * np.float32(low)))
    near = np.float32(float(exact))
    candidates = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)] + [near]
    distances = [(abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1) for c in candidates]
    return candidates[distances.index(min(distances))]


@given(st.floats(2.0**-20, 2.0**20, width=32), st.integers(-255, 0), st.data())
@example(0.5, -128, None)
def test_products_step_where_quotients_do(divisor, low, data):
    found = reciprocal_of(divisor, low, low + 255)
    assert found is not None
    step = low if data is None else data.draw(st.integers(low, low + 254))
    around = np.float32((step + 0.5) * divisor)
    for _ in range(6):
        around = np.nextafter(around, np.float32(-np.inf))
    for _ in range(13):
        expected = np.rint(around / np.float32(divisor))
        assert np.rint(fused(around, *found)) == expected
        around = np.nextafter(around, np.float32(np.inf))


@settings(max_examples=max(settings.default.max_examples // 20, 1), deadline=None)
@given(
    scale=st.floats(2.0**-12, 2.0**3, width=32),
    zero=st.integers(0, 255),
    unsigned=st.booleans(),
    seed=st.integers(0, 99),
    flags=st.sampled_from([SANITIZED, (*STRICT_FMA, *FLAGS)]),
)
def test_requantized_numbers_keep_every_bit(scale, zero, unsigned, seed, flags):
    rng = np.random.default_rng(seed)
    # Those around each step, those near 0, and those that are far beyond all.
    steps = np.arange(-300, 300) + 0.5
    near = np.rint(steps * scale / 0.01).clip(-(2**31), 2**31 - 1)[:, None] + np.arange(-1, 2)
    far = rng.integers(-(2**31), 2**31, 400)
    x = np.concatenate([near.clip(-(2**31), 2**31 - 1).reshape(-1), far]).astype(np.int32)
    scales = [np.array(0.01, np.float32), np.array(scale, np.float32)]
    to, point = (ui8, zero) if unsigned else (i8, zero - 128)
    properties = {"rounding": FloatHalfEvenAttr(), "to": to, "zero_point": point}
    module = Case(graph.RequantizeOp, [x, *scales], constants=[1, 2], **properties).module()
    expected = evaluate_function(module, "main", [x])
    run_on(module, "convert-graph-to-tir,fuse-blocks")
    same(evaluate_function(module, "main", [x]), expected)
    code, found = run_c(module, [x], flags)
    assert "quotient(" in code.source
    same(found, expected)


@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_what_is_no_number_is_the_least(kind):
    x = np.array([np.nan, np.inf, -np.inf, 3.5, -0.0, 1e30], np.float32)
    point = np.array(np.iinfo(kind).max - 9, kind)
    arrays = [x, np.array(0.5, np.float32), point]
    module = Case(graph.QuantizeOp, arrays, constants=[1, 2], axis=1).module()
    run_on(module, "convert-graph-to-tir,fuse-blocks")
    expected = evaluate_function(module, "main", [x])
    same(run_c(module, [x], SANITIZED)[1], expected)

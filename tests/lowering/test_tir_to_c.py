"""C computes what the evaluator computes: integers bit for bit."""

import numpy as np
import pytest
from c_host import SANITIZED, run_c
from family_checks import each_family
from graph_ops import examples_of, numbers_for
from hypothesis import given, settings
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp as ArithConstantOp
from xdsl.dialects.arith import MinimumfOp
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.utils.test_value import create_ssa_value

from byocir.dialects.graph import ConstantOp, Graph, GraphOp
from byocir.evaluate.module import evaluate_function
from byocir.lowering.graph_to_tir import ConvertGraphToTirPass
from byocir.lowering.graph_to_tir.lower_op import STAYS
from byocir.lowering.tir_to_c.comparisons import extreme_float

RTOL = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-3}
"""Where functions of a mathematical library are near; sums are exact."""


def check(case):
    module = case.module()
    ConvertGraphToTirPass().apply(Context(), module)
    check_module(module, case.arrays)


def check_module(module, arrays):
    expected = evaluate_function(module, "main", arrays)
    code, found = run_c(module, arrays, SANITIZED)
    assert not any(isinstance(op, GraphOp) for op in module.walk())
    assert not code.calls
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype.kind == "f":
            rtol = RTOL.get(left.dtype.name, 0)
            np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(left, right)


@pytest.mark.hypothesis
@each_family
def test_c_computes_what_the_evaluator_computes(cases):
    @settings(max_examples=settings.default.max_examples // 20, deadline=None)
    @given(cases())
    def check_cases(case):
        check(case)

    check_cases()


def test_each_op_of_the_graph_level_has_c():
    """As its description shows it: what a new op lowers to is held against its own meaning."""
    module = examples_of(op for op in Graph.operations if op not in (ConstantOp, *STAYS))
    arrays = numbers_for(module)
    expected = evaluate_function(module, "main", arrays)
    ConvertGraphToTirPass().apply(Context(), module)
    check_module(module, arrays)
    found = evaluate_function(module, "main", arrays)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5)


def test_a_bound_that_is_nan_bounds_nothing_but_gives_nan():
    """A comparison with it would keep the other number."""
    x, nan = (ArithConstantOp(FloatAttr(value, 32)) for value in (1.0, float("nan")))
    for bound, text in ((x, "y < x ? y : x"), (nan, "x < y || x != x ? x : y")):
        least = MinimumfOp(create_ssa_value(f32), bound.result)
        assert extreme_float(least, ["x", "y"]) == text

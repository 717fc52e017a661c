"""Floats of 16 bits in C: every number, and every place between two where rounding turns."""

import ml_dtypes
import numpy as np
import pytest
from c_host import SANITIZED, run_c
from graph_ops import Case
from xdsl.context import Context

from byocir.dialects import graph
from byocir.dialects.types import element_of
from byocir.lowering.graph_to_tir import ConvertGraphToTirPass

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
WIDE = [np.dtype(np.float32), np.dtype(np.float64)]
INTEGERS = [np.dtype(name) for name in ("int64", "uint16", "int8")]
EVERY = np.arange(2**16, dtype=np.uint16)


def cast(values, to):
    case = Case(graph.CastOp, [values], to=element_of(to))
    module = case.module()
    ConvertGraphToTirPass().apply(Context(), module)
    code, (found,) = run_c(module, [values], SANITIZED)
    assert not code.calls
    return found


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_every_number_widens_to_itself(half, wide):
    values = EVERY.view(half)
    with np.errstate(all="ignore"):
        expected = values.astype(wide)
    found = cast(values, wide)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(bits(found)[known], bits(expected)[known])
    assert np.isnan(found[~known]).all()


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_what_is_between_two_numbers_is_rounded_to_the_nearest(half, wide):
    """Each number, the middle to the next one, and what is just beside the middle."""
    with np.errstate(all="ignore"):
        numbers = EVERY.view(half).astype(wide)
        after = (EVERY + 1).astype(np.uint16).view(half).astype(wide)
        middle = numbers + (after - numbers) / 2
        beside = [np.nextafter(middle, wide.type(end)) for end in (-np.inf, np.inf)]
        ends = np.array([1e-45, 65519.99, 65520, 3.3895e38, 3.4e38, np.finfo(wide).max], wide)
        values = np.concatenate([numbers, middle, *beside, ends, -ends]).astype(wide)
        expected = values.astype(half)
    found = cast(values, half)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(bits(found)[known], bits(expected)[known])
    assert np.isnan(found[~known]).all()


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("integer", INTEGERS, ids=str)
def test_integers_are_rounded_once(half, integer):
    info, rng = np.iinfo(integer), np.random.default_rng(0)
    near = np.arange(-5000, 70000).clip(info.min, info.max)
    values = np.concatenate([near, rng.integers(info.min, info.max, 2000, integer)]).astype(integer)
    with np.errstate(all="ignore"):
        expected = values.astype(half)
    np.testing.assert_array_equal(bits(cast(values, half)), bits(expected))


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("kind", [graph.AddOp, graph.MulOp, graph.DivOp, graph.SubOp])
def test_arithmetic_is_rounded_after_each_operation(half, kind):
    rng = np.random.default_rng(1)
    arrays = [bits_ for bits_ in rng.integers(0, 2**16, (2, 20000), np.uint16).view(half)]
    case = Case(kind, arrays)
    module = case.module()
    ConvertGraphToTirPass().apply(Context(), module)
    operation = {"add": np.add, "mul": np.multiply, "div": np.divide, "sub": np.subtract}
    with np.errstate(all="ignore"):
        expected = operation[kind.name.split(".")[1]](*arrays)
    code, (found,) = run_c(module, arrays, SANITIZED)
    assert not code.calls
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(bits(found)[known], bits(expected)[known])
    assert np.isnan(found[~known]).all()

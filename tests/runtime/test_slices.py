"""What Slice takes of a dimension, for all starts, ends and steps."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from open_models import node

import byocir
from byocir.dialects.graph.movement import sliced
from byocir.evaluate.module import evaluate

MOST = 7
LEAST_INT, GREATEST_INT = -(2**63), 2**63 - 1
FAR = (LEAST_INT, LEAST_INT + 1, -(2**31), 2**31 - 1, GREATEST_INT - 1, GREATEST_INT)
numbers = st.one_of(st.integers(-2 * MOST, 2 * MOST), st.sampled_from(FAR))
cases = (st.integers(0, MOST), numbers, numbers, numbers.filter(bool))


def indices(start, end, step, size):
    """The same from the standard: count both from the back if they are negative, clamp them, and
    walk."""
    start, end = (n + size if n < 0 else n for n in (start, end))
    least, most = (0, size) if step > 0 else (-1, size - 1)
    place, end = min(max(start, 0), most), min(max(end, least), most)
    found = []
    while place < end if step > 0 else place > end:
        found.append(place)
        place += step
    return found


@functools.cache
def model():
    """`x` as far as `c` holds, and its part."""
    ports = [("x", TensorProto.FLOAT, MOST), ("c", TensorProto.BOOL, MOST)]
    ports += [(name, TensorProto.INT64, 1) for name in ("start", "end", "step")]
    graph = helper.make_graph(
        [node("Compress", "x c", "v", axis=0), node("Slice", "v start end axes step", "y")],
        "net",
        [helper.make_tensor_value_info(name, type_, [size]) for name, type_, size in ports],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])],
        [onnx.numpy_helper.from_array(np.array([0]), "axes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@functools.cache
def package():
    return byocir.compile(model(), targets=[], host="c")


@functools.cache
def session():
    return onnxruntime.InferenceSession(model().SerializeToString())


def feeds(size, start, end, step):
    given = {name: np.array([n]) for name, n in (("start", start), ("end", end), ("step", step))}
    return {"x": np.arange(MOST, dtype=np.float32), "c": np.arange(MOST) < size, **given}


@pytest.mark.hypothesis
@settings(deadline=None)
@given(*cases)
@example(5, -100, -100, -1)
@example(5, LEAST_INT, LEAST_INT, LEAST_INT)
@example(5, GREATEST_INT, LEAST_INT, -1)
@example(5, GREATEST_INT, GREATEST_INT, -1)
@example(5, 0, GREATEST_INT, GREATEST_INT)
@example(0, -1, LEAST_INT, -1)
def test_routines_take_what_the_standard_says(size, start, end, step):
    expected, given_ = indices(start, end, step, size), feeds(size, start, end, step)
    assert [*sliced(start, end, step, size)] == expected
    assert package().run(given_)["y"].tolist() == expected
    assert evaluate(package().module, given_)["y"].tolist() == expected
    if step > 0 or end not in (2**31 - 1, GREATEST_INT):  # there ONNX Runtime steps back to the end
        assert session().run(None, given_)[0].tolist() == expected


def test_each_start_end_and_step():
    numbers = (*range(-MOST, MOST + 1), *FAR)
    steps = (*(n for n in range(-3, 4) if n), *FAR)
    for size, start, end, step in itertools.product((0, 1, 5), numbers, numbers, steps):
        assert [*sliced(start, end, step, size)] == indices(start, end, step, size)

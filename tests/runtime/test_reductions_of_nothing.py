"""Reductions of no elements, and of infinities: at all levels what ONNX Runtime gives."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from host_models import model_of
from open_models import node

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.runtime.native import host_code

REDUCTIONS = ("Mean", "LogSumExp", "LogSum", "Sum", "Prod", "L1", "L2", "SumSquare")
WEIGHTS = {"low": np.float32(0), "last": np.array([1]), "first": np.array([0])}
KEPT = [
    node("ReduceMax", "x last", "most", keepdims=0),
    node("Greater", "most low", "c"),
    node("Compress", "x c", "v", axis=0),
]
"""`v` [n,3]: the rows of `x` with a positive element."""
NONE = -np.ones((4, 3), np.float32)


def check(model, feeds):
    """The evaluator, blocks and C give the same bits as ONNX Runtime; the package."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(None, feeds), strict=True))
    reference, package = (byocir.compile(model, targets=[], host=h) for h in ("reference", "c"))
    for found in (reference.run(feeds), evaluate(package.module, feeds), package.run(feeds)):
        for name, array in expected.items():
            assert found[name].dtype == array.dtype, name
            np.testing.assert_array_equal(found[name], array, name)
    return package


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=["rows", "columns"])
def test_of_a_static_shape(shape):
    axis = "first" if shape[0] == 0 else "last"
    nodes = [node(f"Reduce{name}", f"x {axis}", name) for name in REDUCTIONS]
    check(model_of(nodes, {"x": shape}, REDUCTIONS, WEIGHTS), {"x": np.zeros(shape, np.float32)})


def test_of_an_open_shape():
    nodes = [*KEPT, *(node(f"Reduce{name}", "v first", name) for name in REDUCTIONS)]
    package = check(model_of(nodes, {"x": NONE.shape}, REDUCTIONS, WEIGHTS), {"x": NONE})
    assert host_code(package.module).calls == []


def test_a_mean_of_open_and_other_axes_is_one_division():
    """A quotient of quotients rounds elsewhere."""
    both, x = {**WEIGHTS, "both": np.array([0, 1])}, NONE.copy()
    x[:3] = 0
    x[:3, 0] = np.float32([9e-9, 9, 9e-9]) / np.float32(7)
    nodes = [*KEPT, node("ReduceMean", "v both", "y", keepdims=0)]
    check(model_of(nodes, {"x": x.shape}, ["y"], both), {"x": x})


def test_the_logarithm_of_a_sum_of_powers_of_infinities():
    inf, nan = np.inf, np.nan
    columns = [(-inf, -inf), (inf, 1), (inf, inf), (inf, -inf), (nan, -inf), (0, -inf)]
    x = np.array(columns, np.float32).T
    check(
        model_of([node("ReduceLogSumExp", "x first", "y")], {"x": x.shape}, ["y"], WEIGHTS),
        {"x": x},
    )


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_a_choice_from_nothing_ends_the_run(kind):
    package = byocir.compile(
        model_of([*KEPT, node(kind, "v", "y", axis=0)], {"x": NONE.shape}, ["y"], WEIGHTS),
        targets=[],
        host="c",
    )
    assert host_code(package.module).calls == []
    assert package.run({"x": -NONE})["y"].tolist() == [[0, 0, 0]]
    with pytest.raises(ByocirError, match=r"B312.*sizes that fit each other"):
        package.run({"x": NONE})
    with pytest.raises(ByocirError, match=r"B312.*elements to choose from, found none"):
        evaluate(package.module, {"x": NONE})

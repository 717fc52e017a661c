"""Calls of routines: unknown ones, wrong numbers, indices that lead outside; their table."""

import re

import numpy as np
import pytest
from c_host import SANITIZED, run_c
from graph_ops import Case
from xdsl.context import Context

from byocir.dialects import graph
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate_function
from byocir.evaluate.routines import FOLDER, ROUTINES
from byocir.lowering.graph_to_tir import ConvertGraphToTirPass
from byocir.lowering.tir_to_c import emit_host

CALL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = tir.extern "{0}"(%x) with {{{1}}} : (tensor<4xf32>) -> tensor<4xf32> loc("node")
  func.return %0 : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("topk", "", "expected a routine of tir.extern, found topk"),
        ("top_k", "k = 1 : i64", "expected numbers axis, k, largest of tir.extern, found k"),
    ],
)
def test_wrong_calls_are_user_errors(name, numbers, message):
    module = parse_module(CALL.format(name, numbers))
    with pytest.raises(ByocirError, match=f"B307.*{message}.*\\n.*node"):
        evaluate_function(module, "main", [np.ones(4, np.float32)])
    with pytest.raises(ByocirError, match="B307"):
        emit_host(module.body.block.first_op)


@pytest.mark.parametrize("index", [-4, 3])
@pytest.mark.parametrize("kind", [graph.ScatterElementsOp, graph.ScatterNdOp])
def test_indices_outside_end_the_run(kind, index):
    x, indices = np.zeros((3, 2), np.float32), np.array([[0], [index]])
    updates = np.ones((2, 1 if kind is graph.ScatterElementsOp else 2), np.float32)
    axis = {"axis": 0} if kind is graph.ScatterElementsOp else {}
    module = Case(kind, [x, indices, updates], reduction="none", **axis).module()
    ConvertGraphToTirPass().apply(Context(), module)
    with pytest.raises(ByocirError, match=r"B303.*found one outside"):
        evaluate_function(module, "main", [x, indices, updates])
    with pytest.raises(ByocirError, match=r"B303.*found one outside"):
        run_c(module, [x, indices, updates], SANITIZED)


@pytest.mark.parametrize("index", [-4, 3])
def test_look_ups_outside_end_the_run(index):
    x, indices = np.zeros((3, 2), np.float32), np.array([0, index])
    module = Case(graph.GatherOp, [x, indices], axis=0).module()
    ConvertGraphToTirPass().apply(Context(), module)
    with pytest.raises(ByocirError, match=r"B303.*inside \[0, 3\), found (-1|3)"):
        evaluate_function(module, "main", [x, indices])
    with pytest.raises(ByocirError, match=r"B303.*found one outside"):
        run_c(module, [x, indices], SANITIZED)


@pytest.mark.parametrize("name", list(ROUTINES))
def test_each_routine_is_defined_by_a_file_of_its_name(name):
    text = (FOLDER / ROUTINES[name].file).read_text()
    told = re.search(r"/\* numbers: ([a-z_, ]+)\.", text)
    assert told is not None
    assert tuple(told[1].split(", ")) == (ROUTINES[name].numbers or ("none",))
    assert f"static int {name}(const routine_in *in, const routine_out *out" in text


def test_each_file_is_of_a_routine_or_included():
    names = {routine.file for routine in ROUTINES.values()}
    found = {path.name for path in FOLDER.iterdir() if path.name.endswith(".c")}
    assert found == names

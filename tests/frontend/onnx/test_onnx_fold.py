"""What shape arithmetic on constants gives at import is what its ops give when they run.

Folding may not call the evaluator, which is a layer above: one meaning is held by these tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import settings
from onnx_fuzz.cases import Case, model_of
from onnx_fuzz.draft import Draft, Unfit
from onnx_fuzz.draws import Draws
from onnx_fuzz.grow import schema_of
from onnx_fuzz.rules import RULES

from byocir.dialects.array import Array
from byocir.evaluate.module import evaluate
from byocir.frontend.onnx import import_onnx
from byocir.frontend.onnx.fold import OF_FLOATS, OPERATORS, fold_shape_arithmetic

SETTINGS = {"Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose inputs but the first say what is done, as those of reductions do."""


def drawn(operator: str, kinds: str) -> Iterator[tuple[Case, onnx.NodeProto]]:
    """Nodes on arrays of these kinds."""
    for seed in range(20 if kinds == "iub" else 60):
        draws = Draws(seed)
        case = Case(draws.one([13, 18, 21]))
        schema = schema_of(operator, case.opset)
        assert schema is not None
        draft = Draft(case, schema, draws)
        try:
            RULES[operator](draft)
            node = draft.node()
        except Unfit:
            continue
        if all(value.data.dtype.kind in kinds for value in case.values.values()):
            yield case, node


def ran(case: Case, node: onnx.NodeProto) -> np.ndarray:
    """The result of a node that is no constant."""
    settings = node.op_type in SETTINGS or node.op_type.startswith("Reduce")
    names = node.input[:1] if settings else node.input
    given = {name: case.values[name] for name in names}
    held = {name: value for name, value in case.values.items() if name not in given}
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    model = onnx.shape_inference.infer_shapes(model_of([node], given, held, outputs, case.opset))
    (found,) = evaluate(import_onnx(model), {n: v.data for n, v in given.items()}).values()
    return found


INTEGERS = [(operator, "iub") for operator in sorted(OPERATORS)]
FLOATS = [(operator, "iubf") for operator in sorted(OF_FLOATS)]


@pytest.mark.parametrize(("operator", "kinds"), INTEGERS + FLOATS)
def test_folding_gives_what_running_does(operator: str, kinds: str) -> None:
    count, enough = 0, 5 if settings.default.max_examples < 100 else 60
    for case, node in drawn(operator, kinds):
        if count == enough:
            break
        sources = [Array.of(case.values[name].data) if name else None for name in node.input]
        folded = fold_shape_arithmetic(node, sources, case.opset)
        if folded is None:
            continue
        expected = ran(case, node)
        assert folded.dtype == expected.dtype
        np.testing.assert_array_equal(folded.values(), expected)
        count += 1
    assert count >= 2


def folded_with(operator: str, *arrays: np.ndarray, **attributes: Any) -> Array | None:
    names = [f"x{i}" for i in range(len(arrays))]
    node = onnx.helper.make_node(operator, names, ["y"], **attributes)
    return fold_shape_arithmetic(node, [Array.of(each) for each in arrays], 18)


def test_floats_are_folded_where_they_are_few_and_exact() -> None:
    few, many = np.full(4, 2.5, np.float32), np.full(17, 2.5, np.float32)
    half = folded_with("Floor", few)
    assert half is not None
    assert half.values().tolist() == [2] * 4
    assert folded_with("Floor", many) is None
    assert folded_with("Sqrt", few) is None
    assert folded_with("Max", few, few) is None  # but of integers
    assert folded_with("Div", few, few * 0) is None
    assert folded_with("Add", few.astype(np.float16), few.astype(np.float16)) is None


@pytest.mark.parametrize(
    ("value", "is_folded"), [(127.9, True), (-128.9, True), (128.0, False), (-129.0, False)]
)
def test_floats_that_an_integer_does_not_hold_are_left(value: float, is_folded: bool) -> None:
    found = folded_with("Cast", np.array([value], np.float32), to=onnx.TensorProto.INT8)
    assert (found is not None) == is_folded


def test_anchors_of_a_detector_have_static_shapes() -> None:
    """A Range up to a float that is cast from a size, as detectors make their grids."""
    text = """<ir_version: 9, opset_import: ["": 17]>
    grid (float[1, 3, h, w] x) => (float[n, n2] y)
    <int64 one = {2}, float zero = {0.0}, float step = {1.0}, int64[2] column = {-1, 1}>
    {
        shape = Shape(x)
        h1 = Gather(shape, one)
        end = Cast<to = 1>(h1)
        range = Range(zero, end, step)
        place = Add(range, step)
        y = Reshape(place, column)
    }"""
    module = import_onnx(onnx.parser.parse_model(text), shapes={"x": (1, 3, 5, 4)})
    assert "foreign" not in str(module)
    (found,) = evaluate(module, {"x": np.zeros((1, 3, 5, 4), np.float32)}).values()
    assert found.tolist() == [[1], [2], [3], [4], [5]]

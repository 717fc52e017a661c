"""What shape arithmetic on constants gives at import is what its ops give when they run.

Folding may not call the evaluator, which is a layer above: one meaning is held by these tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from byocir.dialects.array import Array
from byocir.evaluate.module import evaluate
from byocir.frontend.onnx import import_onnx
from byocir.frontend.onnx.fold import OPERATORS, fold_integers
from byocir.testing.fuzz.cases import Case, model_of
from byocir.testing.fuzz.draft import Draft, Unfit
from byocir.testing.fuzz.draws import Draws
from byocir.testing.fuzz.grow import schema_of
from byocir.testing.fuzz.rules import RULES

SETTINGS = {"Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose inputs but the first say what is done, as those of reductions do."""


def drawn(operator: str) -> Iterator[tuple[Case, onnx.NodeProto]]:
    """Nodes on integers and bools."""
    for seed in range(20):
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
        if all(value.data.dtype.kind in "iub" for value in case.values.values()):
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


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_folding_gives_what_running_does(operator: str) -> None:
    count = 0
    for case, node in drawn(operator):
        sources = [Array.of(case.values[name].data) if name else None for name in node.input]
        folded = fold_integers(node, sources, case.opset)
        if folded is None:
            continue
        expected = ran(case, node)
        assert folded.dtype == expected.dtype
        np.testing.assert_array_equal(folded.values(), expected)
        count += 1
    assert count >= 2

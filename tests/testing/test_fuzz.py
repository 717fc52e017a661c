"""The differential fuzzer: all that ONNX's schemas have is drawn, and what differs is found."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from c_compilers import VECTOR
from onnx import defs, helper
from onnx_fuzz.cases import Case
from onnx_fuzz.draft import Draft, Unfit
from onnx_fuzz.draws import Draws
from onnx_fuzz.grow import NEWEST, OLDEST, schema_of
from onnx_fuzz.rules import RULES
from onnx_fuzz.rules.left_out import ATTRIBUTES, DOMAINS, FORMS, OPERATORS
from onnx_fuzz.rules.microsoft import SCHEMAS
from onnx_fuzz.session import Session

from byocir.dialects.graph import LeakyReluOp
from byocir.evaluate.numpy_rules import NUMPY_RULES
from byocir.frontend.onnx.table import READERS

SAMPLE = 60
"""Graphs that run with all other tests."""


def key_of(schema) -> str:
    return f"{schema.domain}.{schema.name}" if schema.domain else schema.name


def forms(key: str) -> list[defs.OpSchema]:
    """All versions of an operator that opsets from the oldest on have."""
    found = [schema_of(key, opset) for opset in range(OLDEST, NEWEST + 1)]
    drawn = {each.since_version: each for each in found if each and not each.deprecated}
    return [each for since, each in drawn.items() if (key, since) not in FORMS]


def drafted(schema, seed):
    """A node as it is drawn, before any reference sees it; None for a draw that came to nothing."""
    draft = Draft(Case(schema.since_version), schema, Draws(seed))
    try:
        RULES[key_of(schema)](draft)
        return draft.node()
    except Unfit:
        return None


def test_every_operator_of_the_standard_is_drawn_or_left_out_for_a_reason():
    known = {key_of(schema) for schema in defs.get_all_schemas() if schema.domain not in DOMAINS}
    assert known - RULES.keys() == set(OPERATORS)
    assert not RULES.keys() & OPERATORS.keys()


def test_every_operator_of_onnx_runtime_that_is_read_is_drawn():
    assert {key for key in READERS if key.startswith("com.microsoft")} == set(SCHEMAS)
    assert SCHEMAS.keys() <= RULES.keys()


@pytest.mark.parametrize("key", sorted(RULES))
def test_every_form_of_an_operator_is_drawn_and_each_attribute_varied(key):
    values = defaultdict(set)
    for schema in forms(key):
        drawn = 0
        for node in filter(None, (drafted(schema, seed) for seed in range(30))):
            given = {a.name: str(helper.get_attribute_value(a)) for a in node.attribute}
            for name in schema.attributes:
                values[name].add(given.get(name))
            drawn += 1
            if drawn > 2 and all(len(values[name]) > 1 for name in schema.attributes):
                break
        assert drawn, schema.since_version
    alike = {(key, name) for name, seen in values.items() if len(seen) < 2}
    assert alike <= ATTRIBUTES.keys()


def test_a_sample_of_graphs_agrees_through_the_evaluator_and_as_c():
    """The same each time; `make fuzz` draws others, for all processors and two threads."""
    session = Session([VECTOR])
    findings = list(session.run(range(SAMPLE)))
    assert not findings, "\n".join(each.text() for each in findings)
    assert session.count > 0.95 * SAMPLE
    assert len(session.operators) > 60
    assert not session.crashed


def leaky_but_for_small_numbers(op, operands):
    (x,) = operands
    return np.where(x > -2, x, x * x.dtype.type(op.alpha.value.data))


def test_what_differs_is_found_and_made_small(monkeypatch):
    monkeypatch.setitem(NUMPY_RULES, LeakyReluOp, leaky_but_for_small_numbers)
    session = Session(operator="LeakyRelu")
    found = next(session.run(range(10)))
    assert found.way == "graph"
    assert [node.op_type for node in found.case.nodes] == ["LeakyRelu"]
    (x,) = found.case.values.keys() - found.case.made.keys()
    assert found.case.values[x].data.size == 1
    assert f"expected {found.case.made['v0_0'].data.item()}" in found.problem

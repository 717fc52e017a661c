"""Work handed over at graph level, at tensor level or at both: VTA gives the same integers, those
of the evaluator after fix-point, and the hazard sanitizer finds nothing."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import onnx
import pytest
from quantised_nets import encoder, lstm_cell, mobilenet, resnet18
from test_vta_mixed import LEVELS, assert_same, fixed

import byocir
from byocir.evaluate.module import evaluate
from byocir.rewrites import qdq_to_integer, wide_products
from byocir.rewrites.fix_point import TO_INTEGERS
from byocir.rewrites.residual_sums import residual_add_to_integer
from byocir.rewrites.softmax_tables import softmax_to_table
from byocir.runtime.report import Report
from byocir.runtime.report_text import explain

LSTM_CELL = partial(lstm_cell, steps=1)
ENCODER = partial(encoder, layers=1, tokens=5, width=16)
NETS: list[tuple[Callable[[], onnx.ModelProto], tuple[int, ...]]] = [
    # What is on the host, in percent of the MACs: at graph level, at tensor level and, of nets that
    # compile quickly, at both.
    (partial(resnet18, size=8, blocks=1), (0, 0)),
    (partial(mobilenet, size=8, widths=(8, 12, 12)), (0, 0)),
    (LSTM_CELL, (0, 0, 0)),
    (ENCODER, (0, 0, 0)),
]


@cache
def compiled(build: Callable[[], onnx.ModelProto], levels: tuple[str, ...]) -> byocir.Package:
    """The package of a net, which no test changes."""
    return byocir.compile(build(), targets=["vta"], levels=levels)


@pytest.mark.parametrize(
    ("build", "on_host"), NETS, ids=["resnet", "mobilenet", "lstm cell", "encoder"]
)
def test_levels_give_the_same_integers(
    build: Callable[[], onnx.ModelProto], on_host: tuple[int, ...]
):
    model = build()
    onnx.checker.check_model(model)
    (port,) = model.graph.input
    shape = tuple(dim.dim_value for dim in port.type.tensor_type.shape.dim)
    image = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    expected = evaluate(fixed(model, "floor"), {port.name: image})
    for levels, host in zip(LEVELS, on_host, strict=False):
        package = compiled(build, levels)
        assert_same(package.run({port.name: image}, check=True), expected)
        macs = package.report.macs
        assert 100 * macs["host"] == host * sum(macs.values())
        taken = {c.level for region in package.report.regions for c in region.composites}
        assert taken <= {*levels}


@pytest.mark.parametrize("level", ["graph", "tensor"])
def test_products_of_attention_are_taken_at_either_level(level: str):
    """Projections, scores and contexts, the last two of computed arrays."""
    report = compiled(ENCODER, (level,)).report
    products = [node.name for node in report.nodes if node.op_type == "MatMul"]
    assert len(products) == 8
    for name in products:
        assert explain(report, name).splitlines()[0].count("vta.") == 1
        assert [d.level for d in report.reasons[name] if d.taken] == [level]


def test_what_is_taken_at_graph_level_is_not_seen_again():
    report: Report = compiled(LSTM_CELL, ("graph", "tensor")).report
    for decisions in report.reasons.values():
        if any(decision.taken and decision.level == "graph" for decision in decisions):
            assert all(decision.level == "graph" for decision in decisions)


QUANTISED = (
    *qdq_to_integer.REWRITES,
    *wide_products.REWRITES,
    *TO_INTEGERS,
    residual_add_to_integer("half_up"),
    softmax_to_table,
)
"""Rewrites to integers: what their rules decline stays in float."""


def test_rules_say_what_a_user_can_do():
    rules = [rule for pattern in byocir.Vta().composites() for rule in pattern.rules]
    rules += [rule for rewrite in QUANTISED for rule in rewrite.composite.rules]
    assert [rule.sentence for rule in rules if not rule.fix] == []

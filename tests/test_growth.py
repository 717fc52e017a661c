"""Compiling takes time in proportion to the graph: no step calls much more than twice as many
functions for twice as many nodes. `benchmarks/partition.py` measures the seconds.

Counted are calls of functions in Python and in C, and turns of generators: the same numbers on each
run and each machine."""

import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import TypeVar

import pytest
from nets.growing_graphs import Npu, growing

import byocir
from byocir.compiler import generate, hand_over
from byocir.dialects.context import load_context
from byocir.dialects.locations import fuse as fuse_locations
from byocir.dialects.locations import names
from byocir.rewrites import clean_up, pipeline
from byocir.rewrites.host import fuse
from byocir.rewrites.pipeline import PassRunner, run_passes
from byocir.runtime.report import report_of

T = TypeVar("T")
NODES = 32
BEYOND = 2.2
"""How many times as many calls are too many for twice as many nodes."""


class Calls(Counter[str]):
    """Numbers of calls by the step that made them."""

    def counted(self, step: str, work: Callable[[], T]) -> T:
        """What the work gives; its calls are added to those of the step."""
        turns = count()
        sys.setprofile(lambda frame, event, argument: next(turns))
        try:
            return work()
        finally:
            sys.setprofile(None)
            self[step] += next(turns)


def calls_of_compiling(shape: str, nodes: int, targets: list[Npu], monkeypatch) -> Calls:
    """The calls of importing, each pass, the report and the rest of generating code."""
    calls = Calls()
    run = pipeline._run
    with monkeypatch.context() as patch:
        patch.setattr(
            pipeline,
            "_run",
            lambda pass_, *rest: calls.counted(pass_.name, lambda: run(pass_, *rest)),
        )
        module = calls.counted("import", lambda: byocir.import_onnx(growing(shape, nodes)))
        runner = PassRunner(keeps_start=False)
        report = hand_over(module, targets, runner=runner)
        calls.counted("report", lambda: report_of(module).to_json())
        generate(module, report, host="c", runner=runner)
    return calls


@pytest.mark.parametrize(
    ("shape", "targets"),
    [
        ("alternating", [Npu()]),
        ("alternating", []),
        ("elementwise", []),
        ("wide concat", []),
    ],
)
def test_steps_are_linear(shape, targets, monkeypatch):
    monkeypatch.setattr(fuse, "MOST_OPS", 16)  # as for a graph that is longer than its bodies
    once, twice = (calls_of_compiling(shape, n, targets, monkeypatch) for n in (NODES, 2 * NODES))
    growth = {step: twice[step] / calls for step, calls in once.items()}
    assert {step: ratio for step, ratio in growth.items() if ratio > BEYOND} == {}


def test_each_location_of_equal_ops_is_fused_once(monkeypatch):
    fused: list[int] = []
    monkeypatch.setattr(
        clean_up, "fuse", lambda *parts: (fused.append(len(parts)), fuse_locations(*parts))[1]
    )
    module = byocir.import_onnx(growing("equal ops", NODES))
    run_passes(module, load_context(), "clean-up")
    assert fused == [NODES - 1]


def test_a_long_chain_is_fused_into_bodies_of_a_size():
    module = byocir.import_onnx(growing("elementwise", 100))
    package = generate(module, hand_over(module, []), host="c")
    blocks = [op for op in package.module.walk() if op.name == "tir.block"]
    weights = [sum(fuse.LONG_OPS.get(type(op), 1) for op in block.body.walk()) for block in blocks]
    assert len(blocks) == 2
    assert max(weights) <= fuse.MOST_OPS + 1
    assert [name for block in blocks for name in names(block.location)] == [
        f"node_{i}" for i in range(100)
    ]

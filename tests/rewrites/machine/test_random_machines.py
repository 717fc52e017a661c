"""Whatever machine is described, its programs compute what they should, or are refused with a
reason; each pass on the way keeps results; waits order all that must be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_machines import Drawn, machines, product_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import byocir
from byocir.compiler import partition
from byocir.dialects.byoc import TARGET
from byocir.dialects.context import load_context
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import Call, InOrder, Interlocked
from byocir.machine.calls import calls_in
from byocir.machine.simulator import Simulator
from byocir.rewrites.machine import PASSES
from byocir.rewrites.machine.steps import depend
from byocir.rewrites.pipeline import run_passes

ENGINE = str(Path(__file__).parents[3] / "examples" / "counted_engine.py")
REFUSALS = {"B270", "B271", "B272", "B273", "B261"}
sizes = st.integers(1, 20) | st.sampled_from([8, 16, 24])


def brought_down(drawn: Drawn, module: ModuleOp) -> FuncOp | None:
    """The function of a machine after all passes, each checked; None for a refusal, which has a
    code and says why."""
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    try:
        lowered = module
        partition(lowered, targets=[drawn.register()()], levels=("tensor",))
        for name in f"apply-schedules,{PASSES}".split(","):
            run_passes(lowered, load_context(), name)
            verify_module(lowered)
            np.testing.assert_array_equal(evaluate(lowered, feeds)["res0"], expected, name)
    except ByocirError as error:
        if error.code not in REFUSALS:
            raise
        event(f"refused: {error.code}")
        return None
    (function,) = (f for f in lowered.ops if isinstance(f, FuncOp) and TARGET in f.attributes)
    arrays = [np.asarray(feeds["arg0"]), np.asarray(feeds["arg1"]), np.zeros_like(expected)]
    Simulator(drawn.machine).run(function, arrays)
    np.testing.assert_array_equal(arrays[2], expected)
    event("computed")
    return function


def ordered(drawn: Drawn, calls: list[Call]) -> None:
    """Expects waits to order each two calls of different units of which one depends on the other:
    what a call knows to have ended is followed through all waits."""
    if isinstance(drawn.machine.ordered, InOrder | Interlocked):
        return
    issued = {unit.name: list[int]() for unit in drawn.machine.units}
    pushed: dict[tuple[str, str], list[int]] = {}
    before: list[set[int]] = []
    known: set[int] = set()
    for at, call in enumerate(calls):
        own = issued[call.unit.name]
        ended = set(before[own[-1]] | {own[-1]}) if own else set()
        for unit, count in call.op.counts.items():
            known |= set(issued[unit][: len(issued[unit]) - count])
        for unit in call.op.pops or ():
            source = pushed[unit.data, call.unit.name].pop(0)
            ended |= before[source] | {source}
        before.append(ended | known)
        for unit in call.op.pushes or ():
            pushed.setdefault((call.unit.name, unit.data), []).append(at)
        own.append(at)
    for at, call in enumerate(calls):
        for other in range(at):
            if calls[other].unit != call.unit and depend(calls[other], call):
                assert other in before[at], f"call {at} does not wait for {other}"
    assert not any(pushed.values()), "expected each token to be popped"


@settings(max_examples=settings.default.max_examples // 5)
@given(machines(), sizes, sizes, sizes, st.booleans())
def test_a_described_machine_computes_right_or_says_why_not(drawn, m, n, k, relu) -> None:
    function = brought_down(
        drawn, product_module(m, n, k, relu=relu and drawn.choices["stores relu"])
    )
    if function is not None:
        ordered(drawn, calls_in(drawn.machine, function.body.block))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (16, 16, 16), (20, 7, 33)], ids=str)
def test_the_engine_of_the_examples_takes_all_sizes(sizes: tuple[int, int, int]) -> None:
    module = product_module(*sizes, relu=False)
    package = byocir.compile(module.clone(), targets=[ENGINE], levels=("tensor",))
    feeds = random_feeds(module)
    np.testing.assert_array_equal(package.run(feeds)["res0"], evaluate(module, feeds)["res0"])
    assert any(name.endswith(".bin") for name in package.blobs["engine"])

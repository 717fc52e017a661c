"""A unit passes tokens on between two others where it can leave what was stored as it is."""

from __future__ import annotations

import numpy as np
import pytest
from random_machines import Drawn, machine_by
from xdsl.dialects.func import FuncOp

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import hazards_of
from byocir.machine.simulator import Simulator
from byocir.rewrites.machine.relays import relay_of
from byocir.rewrites.pipeline import run_passes

APART = {"order": "tokens", "units": ("core", "store"), "pools": True, "fifos": ()}


def drawn_with(**given: object) -> Drawn:
    return machine_by(lambda options: options[0], {**APART, **given})


def handing_on(lanes: int) -> str:
    """The text of a program that loads bytes as numbers, stores those, and loads them again."""
    main, sums = f"memref<2x{lanes}xi8>", f'memref<2x{lanes}xi32, "random.sums">'
    ports = ", ".join(f"%{name}: {main}" for name in "xuvy")
    lines: list[str] = []

    def put(source: str, into: str, apply: str) -> None:
        elements = ["i32" if name[0] == "a" else "i8" for name in (source, into)]
        types = [sums if name[0] == "a" else main for name in (source, into)]
        lines.append(f"""
          tir.block [i: 2, j: {lanes}] ins(%{source}[i, j] : {types[0]})
              outs(%{into}[i, j] : {types[1]}) {{
          ^bb0(%p: {elements[0]}, %old: {elements[1]}):
            %r = arith.{apply} %p : {elements[0]} to {elements[1]}
            tir.yield %r : {elements[1]}
          }}""")

    for n, (source, into) in enumerate(("xu", "uv", "vy")):
        lines.append(f"%a{n} = tir.alloc : {sums}")
        put(source, f"a{n}", "extsi")
        put(f"a{n}", into, "trunci")
    return f"""
    func.func @main({ports}) attributes {{byoc.target = #byoc.target<"random", {{}}>}} {{
      {"".join(lines)}
      func.return
    }}"""


def test_programs_wait_for_what_they_stored_by_way_of_a_third_unit() -> None:
    drawn = drawn_with()
    drawn.register()
    module = parse_module(handing_on(drawn.choices["lanes"]))
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    run_passes(module, load_context(), "select-instructions,allocate-memories,synchronise")
    np.testing.assert_array_equal(evaluate(module, feeds)["arg3"], expected["arg3"])
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    calls = calls_in(drawn.machine, function.body.block)
    assert hazards_of(drawn.machine, calls) == []
    # from each load to the store behind it, and from there to the next load
    assert [call.unit.name for call in calls] == ["load", "core", "store", "core"] * 2 + [
        "load", "core", "store"
    ]  # fmt: skip
    arrays = [feeds.get(f"arg{n}", np.zeros_like(expected["arg3"])) for n in range(4)]
    Simulator(drawn.machine).run(function, arrays)
    np.testing.assert_array_equal(arrays[3], expected["arg3"])


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ({}, True),
        ({"adds numbers": False}, False),
        ({"two steps out": True}, False),
        ({"pools": False}, False),
        ({"order": "counted"}, True),
        ({"order": "all tokens"}, True),
    ],
    ids=str,
)
def test_composites_share_a_region_where_programs_can_wait(given: dict, merged: bool) -> None:
    drawn = drawn_with(**given)
    target = drawn.register()()
    assert (target.region_policy.merge == "any") == merged
    relay = relay_of(drawn.machine)
    direct = drawn.choices["order"] != "tokens"
    assert (relay is not None and relay.name == "core") == (merged and not direct)


def test_what_no_unit_can_pass_on_is_refused() -> None:
    drawn = drawn_with(**{"adds numbers": False})
    drawn.register()
    module = parse_module(handing_on(drawn.choices["lanes"]))
    run_passes(module, load_context(), "select-instructions,allocate-memories")
    with pytest.raises(byocir.ByocirError, match="expected tokens from unit load to unit store"):
        run_passes(module, load_context(), "synchronise")

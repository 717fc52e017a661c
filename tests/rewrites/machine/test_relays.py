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
from byocir.machine.numeric_programs import hazards_of, times_of
from byocir.machine.simulator import Simulator
from byocir.rewrites.machine.relays import relay_of
from byocir.rewrites.pipeline import run_passes

APART = {"order": "tokens", "units": ("core", "store"), "pools": True, "fifos": ()}


def drawn_with(**given: object) -> Drawn:
    return machine_by(lambda options: options[0], {**APART, **given})


def program_of(lanes: int, moves: list[tuple[str, str]]) -> str:
    """The text of a program that moves bytes between arrays of main memory and, as numbers, buffers
    `a0`, `a1`, …"""
    main, sums = f"memref<2x{lanes}xi8>", f'memref<2x{lanes}xi32, "random.sums">'
    names = dict.fromkeys(name for move in moves for name in move)
    ports = ", ".join(f"%{name}: {main}" for name in names if name[0] != "a")
    lines = [f"%{name} = tir.alloc : {sums}" for name in names if name[0] == "a"]
    for source, into in moves:
        apply = "extsi" if into[0] == "a" else "trunci"
        elements = ["i32" if name[0] == "a" else "i8" for name in (source, into)]
        types = [sums if name[0] == "a" else main for name in (source, into)]
        lines.append(f"""
          tir.block [i: 2, j: {lanes}] ins(%{source}[i, j] : {types[0]})
              outs(%{into}[i, j] : {types[1]}) {{
          ^bb0(%p: {elements[0]}, %old: {elements[1]}):
            %r = arith.{apply} %p : {elements[0]} to {elements[1]}
            tir.yield %r : {elements[1]}
          }}""")
    body = "\n".join(lines)
    return f"""
    func.func @main({ports}) attributes {{byoc.target = #byoc.target<"random", {{}}>}} {{
      {body}
      func.return
    }}"""


HANDED_ON = [("x", "a0"), ("a0", "u"), ("u", "a1"), ("a1", "v"), ("v", "a2"), ("a2", "y")]
"""Bytes are loaded as numbers, stored, and loaded again."""


def test_programs_wait_for_what_they_stored_by_way_of_a_third_unit() -> None:
    drawn = drawn_with()
    drawn.register()
    module = parse_module(program_of(drawn.choices["lanes"], HANDED_ON))
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
    module = parse_module(program_of(drawn.choices["lanes"], HANDED_ON))
    run_passes(module, load_context(), "select-instructions,allocate-memories")
    with pytest.raises(byocir.ByocirError, match="expected tokens from unit load to unit store"):
        run_passes(module, load_context(), "synchronise")


@pytest.mark.parametrize(("capacity", "tokens"), [(1, 1), (2, 2), (256, 3)])
def test_no_more_tokens_wait_than_there_is_room_for(capacity: int, tokens: int) -> None:
    drawn = drawn_with(order="all tokens", capacity=capacity)
    drawn.register()
    outputs = ["u", "v", "y"]
    loads = [("x", f"a{n}") for n in range(3)]
    moves = [*loads, *((f"a{n}", into) for n, into in enumerate(outputs))]
    module = parse_module(program_of(drawn.choices["lanes"], moves))
    run_passes(module, load_context(), "select-instructions,allocate-memories,synchronise")
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    calls = calls_in(drawn.machine, function.body.block)
    assert hazards_of(drawn.machine, calls) == []
    assert sum(len(call.pushes) for call in calls) == tokens
    assert times_of(drawn.machine, calls).cycles > 0

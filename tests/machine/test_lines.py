"""One call does lines that follow each other, and what it does is the same."""

from __future__ import annotations

from math import prod

import alu_engine
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import check_order
from byocir.machine.simulator import Simulator
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes

ENGINE = alu_engine.engine
MOST = 16
"""The rows that one call of the engine does at most."""


def sized(shape: list[int], element: str, scope: str = "") -> str:
    sides = "x".join(map(str, shape))
    return f"memref<{sides}x{element}{scope}>"


def program(box: list[int], room: list[int]) -> ModuleOp:
    """Loads a box of bytes from an array that has so much room around it along each dimension, adds
    three to each and stores it.
    """
    whole = [size + more for size, more in zip(box, room, strict=True)]
    names = [f"i{d}" for d in range(len(box))]
    inside, at = ", ".join(names), ", ".join(map("{} + {}".format, names, room))
    space = ", ".join(map("{}: {}".format, names, box))
    x, a, y = (
        sized(shape, element, scope)
        for shape, element, scope in (
            (whole, "i8", ""), (box, "i32", ', "alu.vectors"'), (whole, "i8", "")
        )
    )  # fmt: skip
    return parse_module(f"""
    func.func @main(%x: {x}, %y: {y}) attributes {{byoc.target = #byoc.target<"alu", {{}}>}} {{
      %a = tir.alloc : {a}
      tir.block [{space}] ins(%x[{at}] : {x}) outs(%a[{inside}] : {a}) {{
      ^bb0(%p: i8, %old: i32):
        %r = arith.extsi %p : i8 to i32
        tir.yield %r : i32
      }}
      tir.block [{space}] outs(%a[{inside}] : {a}) {{
      ^bb0(%old: i32):
        %n = arith.constant 3 : i32
        %r = arith.addi %old, %n : i32
        tir.yield %r : i32
      }}
      tir.block [{space}] ins(%a[{inside}] : {a}) outs(%y[{at}] : {y}) {{
      ^bb0(%p: i32, %old: i8):
        %r = arith.trunci %p : i32 to i8
        tir.yield %r : i8
      }}
      func.return
    }}""")


def calls_of(module: ModuleOp) -> dict[str, list[int]]:
    """Compiles a program, holds what it computes, on the simulated engine too, and lists the rows
    of the calls of each instruction.
    """
    register("alu", alu_engine.Engine)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["arg1"]
    for name in ("select-instructions", "overlap-loads", "allocate-memories", "synchronise"):
        run_passes(module, load_context(), name)
        np.testing.assert_array_equal(evaluate(module, feeds)["arg1"], expected, name)
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    calls, found = calls_in(ENGINE, function.body.block), dict[str, list[int]]()
    check_order(ENGINE, calls)
    result = np.zeros_like(expected)
    Simulator(ENGINE).run(function, [feeds["arg0"], result])
    np.testing.assert_array_equal(result, expected)
    for call in calls:
        found.setdefault(call.instruction.name, []).append(call.sizes["rows"])
    return found


@settings(max_examples=20 if settings.default.max_examples < 100 else 500)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans(), st.data())
def test_calls_do_lines_in_boxes_of_any_size(
    lines: list[int], wide: bool, data: st.DataObject
) -> None:
    room = data.draw(st.lists(st.sampled_from([0, 0, 1]), min_size=len(lines), max_size=len(lines)))
    found = calls_of(program([*lines, 8], [*room, 8 * wide]))
    assert {name: sum(rows) for name, rows in found.items()} == dict.fromkeys(
        ("alu.widen", "alu.add_small", "alu.narrow"), prod(lines)
    )
    assert max(found["alu.widen"]) <= MOST


@pytest.mark.parametrize(
    ("lines", "room", "rows"),
    [
        ([3, 5], [0, 0], [15]),
        ([3, 5], [2, 0], [15]),
        ([3, 5], [0, 1], [5, 5, 5]),
        ([5, 4], [0, 0], [16, 4]),
        ([2, 3, 4], [0, 0, 0], [12, 12]),
        ([2, 2, 4], [0, 0, 0], [16]),
        ([2, 2, 4], [0, 1, 0], [8, 8]),
    ],
)
def test_lines_that_follow_each_other_are_one_call(
    lines: list[int], room: list[int], rows: list[int]
) -> None:
    found = calls_of(program([*lines, 8], [*room, 8]))
    assert found["alu.widen"] == found["alu.narrow"] == rows

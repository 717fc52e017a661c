"""The greatest and the least of windows are the same behind what is computed of each element and in
front of it."""

from __future__ import annotations

import alu_engine
import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes

ROWS, LANES = 7, 8
steps = st.one_of(
    st.tuples(st.just("addi"), st.integers(-300, 300)),
    st.tuples(st.just("muli"), st.integers(-1, 5)),
    st.tuples(st.just("shrsi"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["maxsi", "minsi"]), st.integers(-400, 400)),
    st.tuples(st.sampled_from(["addi", "muli", "maxsi"]), st.just("%p")),
    st.tuples(st.just("addi"), st.just("%c")),
)


def windows_of(
    chain: list[tuple[str, int | str]], least: bool, window: tuple[int, int, int], channel: str
) -> ModuleOp:
    """Windows of what a chain of steps computes of sums; %c is a number of each channel, or row."""
    size, step, pad = window
    results = (ROWS + 2 * pad - size) // step + 1
    value, lines = "%p", list[str]()
    for n, (name, by) in enumerate(chain):
        lines += [] if isinstance(by, str) else [f"%b{n} = arith.constant {by} : i32"]
        operand = by if isinstance(by, str) else f"%b{n}"
        lines.append(f"%v{n} = arith.{name} {value}, {operand} : i32")
        value = f"%v{n}"
    start, take = (127, "minsi") if least else (-128, "maxsi")
    given_, made = f"tensor<{ROWS}x{LANES}x", f"tensor<{results}x{LANES}xi8>"
    count = LANES if channel == "j" else ROWS
    of_c = f"tensor<{count}xi32>"
    numbers = ", ".join(str(97 * n % 41 - 20) for n in range(count))
    return parse_module(f"""
      func.func @main(%a: {given_}i8>) -> {made}
          attributes {{byoc.target = #byoc.target<"alu", {{}}>}} {{
        %r = byoc.composite "alu.any" at "tensor" (%x = %a : {given_}i8>) -> {made} {{
          %k = tir.constant <[{numbers}] : {of_c}> : {of_c}
          %e = tir.empty : {given_}i32>
          %w = tir.block [i: {ROWS}, j: {LANES}] ins(%x[i, j] : {given_}i8>)
              outs(%e[i, j] : {given_}i32>) {{
          ^bb0(%p: i8, %old: i32):
            %0 = arith.extsi %p : i8 to i32
            %1 = arith.muli %0, %0 : i32
            %2 = arith.subi %0, %1 : i32
            tir.yield %2 : i32
          }}
          %f = tir.empty : {given_}i8>
          %y = tir.block [i: {ROWS}, j: {LANES}]
              ins(%w[i, j] : {given_}i32>, %k[{channel}] : {of_c}) outs(%f[i, j] : {given_}i8>) {{
          ^bb0(%p: i32, %c: i32, %old: i8):
            {" ".join(lines)}
            %l = arith.constant -128 : i32
            %n = arith.maxsi {value}, %l : i32
            %m = arith.constant 127 : i32
            %o = arith.minsi %n, %m : i32
            %q = arith.trunci %o : i32 to i8
            tir.yield %q : i8
          }}
          %z = tir.fill {start} : i8 : {made}
          %out = tir.block [h: {results}, j: {LANES} | r: {size}]
              ins(%y[{step} * h + r - {pad}, j] pad {start} : i8 : {given_}i8>)
              outs(%z[h, j] : {made}) {{
          ^bb0(%p: i8, %old: i8):
            %0 = arith.{take} %old, %p : i8
            tir.yield %0 : i8
          }}
          byoc.yield %out : {made}
        }}
        func.return %r : {made}
      }}""")


@settings(max_examples=6 if settings.default.max_examples < 100 else 1000)
@given(
    st.lists(steps, max_size=5), st.booleans(), st.sampled_from(["j", "j", "i"]),
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 2)),
)  # fmt: skip
def test_windows_give_the_same_in_front(chain, least, channel, window) -> None:
    register("alu", alu_engine.Engine)
    module = windows_of(chain, least, window, channel)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    run_passes(module, load_context(), "split-bodies")
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)
    blocks = [op for op in module.walk() if isinstance(op, BlockOp)]
    behind = blocks[next(n for n, block in enumerate(blocks) if block.reductions) + 1 :]
    event("in front" if len(behind) > 1 else "behind")
    rises = all(by != "%p" and (name, by) != ("muli", -1) for name, by in chain)
    if rises and channel == "j" and window[2] < window[0]:
        assert len(behind) > 1

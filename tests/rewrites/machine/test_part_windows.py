"""Windows give the same whole and along one dimension after the other."""

from __future__ import annotations

import alu_engine
import numpy as np
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes

STARTS = {"maxsi": -128, "minsi": 127, "addi": 0}
sides = st.tuples(
    st.integers(1, 9), st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)
)
"""How many elements there are, how many a window has, how far apart are windows and the elements of
one, and how far the first reaches over the border."""


@settings(max_examples=6 if settings.default.max_examples < 100 else 1000)
@given(st.lists(sides, min_size=2, max_size=3), st.sampled_from([*STARTS]), st.integers(-99, 99))
def test_windows_give_the_same_in_parts(drawn, name: str, start: int) -> None:
    register("alu", alu_engine.Engine)
    sizes = [(n + pad - by * (k - 1) - 1) // step + 1 for n, k, step, by, pad in drawn]
    assume(min(sizes) > 0)
    start, pad = (start, 0) if name == "addi" else (STARTS[name], STARTS[name])
    index = ", ".join(
        f"{step} * h{d} + {by} * r{d} - {pad}" for d, (_, _, step, by, pad) in enumerate(drawn)
    )
    given_, made = ("x".join(map(str, [*each, 8])) for each in ([side[0] for side in drawn], sizes))
    outer = ", ".join(f"h{d}: {n}" for d, n in enumerate(sizes))
    inner = ", ".join(f"r{d}: {side[1]}" for d, side in enumerate(drawn))
    element = "i32" if name == "addi" else "i8"
    term = "%0 = arith.extsi %p : i8 to i32" if name == "addi" else ""
    module = parse_module(f"""
      func.func @main(%a: tensor<{given_}xi8>) -> tensor<{made}x{element}>
          attributes {{byoc.target = #byoc.target<"alu", {{}}>}} {{
        %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<{given_}xi8>)
            -> tensor<{made}x{element}> {{
          %z = tir.fill {start} : {element} : tensor<{made}x{element}>
          %out = tir.block [{outer}, c: 8 | {inner}]
              ins(%x[{index}, c] pad {pad} : i8 : tensor<{given_}xi8>)
              outs(%z[{", ".join(f"h{d}" for d in range(len(sizes)))}, c]
                  : tensor<{made}x{element}>) {{
          ^bb0(%p: i8, %old: {element}):
            {term}
            %1 = arith.{name} %old, {"%0" if term else "%p"} : {element}
            tir.yield %1 : {element}
          }}
          byoc.yield %out : tensor<{made}x{element}>
        }}
        func.return %r : tensor<{made}x{element}>
      }}""")
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    run_passes(module, load_context(), "split-bodies")
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)
    blocks = [op for op in module.walk() if isinstance(op, BlockOp) and op.reductions]
    event(f"in {len(blocks)}")

"""What keeps regions apart is named as what it is."""

from __future__ import annotations

from narrowing_engine import Engine, layer_text

import byocir
from byocir.dialects.text import parse_module
from byocir.runtime.report_text import explain

IMAGE = "tensor<1x2x2x4xi8>"


def test_a_copy_is_not_named_as_the_layer_that_it_is_for() -> None:
    module = parse_module(f"""
    func.func @main(%x: {IMAGE}, %w0: tensor<1x1x4x4xi8>, %w1: tensor<1x1x4x4xi8>) -> {IMAGE} {{
      {layer_text(0, "%x", 2, 4, 1)}
      %e = tir.empty : {IMAGE}
      %t = tir.block [n: 1, h: 2, w: 2, c: 4] ins(%y0[n, w, h, c] : {IMAGE})
          outs(%e[n, h, w, c] : {IMAGE}) {{
      ^bb0(%p: i8, %old: i8):
        tir.yield %p : i8
      }} loc("conv1")
      {layer_text(1, "%t", 2, 4, 1)}
      func.return %y1 : {IMAGE}
    }}""")
    package = byocir.compile(module, targets=[Engine()], levels=("tensor",))
    assert "narrowing_0 (call 1): a copy (conv1) lies between" in explain(package.report)

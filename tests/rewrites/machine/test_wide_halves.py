"""Arithmetic on halves is that on f32, rounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

from byocir.dialects.text import parse_module
from byocir.dialects.tir import blocks_in
from byocir.dialects.types import dtype_of, element_type_of
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.rewrites.machine.wide_halves import compute_in_f32, computes_in_halves

TWO = ["arith.addf", "arith.subf", "arith.mulf", "arith.divf"]
ORDERED = ["arith.maximumf", "arith.minimumf"]
ONE = ["arith.negf", "math.absf", "math.sqrt"]
COUNT = 64


@st.composite
def bodies(draw: st.DrawFn, half: str) -> str:
    """A body on a half, another one, and a sum of f32 that is rounded first."""
    lines = [f"%r = arith.truncf %z : f32 to {half}", f"%n = arith.constant 0.5 : {half}"]
    values = ["%x", "%y", "%r", "%n"]
    for at in range(draw(st.integers(1, 6))):
        step = draw(st.sampled_from([*TWO, *ORDERED, *ONE]))
        read = [draw(st.sampled_from(values)) for _ in range(1 if step in ONE else 2)]
        lines.append(f"%v{at} = {step} {', '.join(read)} : {half}")
        values.append(f"%v{at}")
    return "\n".join([*lines, f"tir.yield {values[-1]} : {half}"])


@pytest.mark.parametrize("half", ["f16", "bf16"])
@given(st.data())
@settings(deadline=None)
def test_bodies_in_f32_give_the_same_halves(half: str, data: st.DataObject) -> None:
    narrow, wide = f"tensor<{COUNT}x{half}>", f"tensor<{COUNT}xf32>"
    module = parse_module(f"""
      func.func @main(%a: {narrow}, %b: {narrow}, %c: {wide}) -> {narrow} {{
        %e = tir.empty : {narrow}
        %q = tir.block [i: {COUNT}] ins(%a[i] : {narrow}, %b[i] : {narrow}, %c[i] : {wide})
            outs(%e[i] : {narrow}) {{
        ^bb0(%x: {half}, %y: {half}, %z: f32, %old: {half}):
          {data.draw(bodies(half))}
        }}
        func.return %q : {narrow}
      }}""")
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    scale = data.draw(st.sampled_from([1e-7, 1e-3, 1.0, 300.0]))
    dtypes = [dtype_of(element_type_of(value.type)) for value in function.args]
    feeds = {
        f"arg{i}": (random.normal(0, scale, COUNT)).astype(dtype) for i, dtype in enumerate(dtypes)
    }
    with np.errstate(all="ignore"):
        expected = evaluate(module, feeds)["res0"].astype(np.float32)
        (block,) = blocks_in(function)
        assert computes_in_halves(block)
        compute_in_f32(block)
        verify_module(module)
        found = evaluate(module, feeds)["res0"].astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert not computes_in_halves(block)

"""Bodies of floats are split into what instructions do, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from byocir.dialects.text import parse_module
from byocir.dialects.tir import blocks_in
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.rewrites.machine.split_bodies import split_bodies
from byocir.vendor.user_code import import_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "float_npu.py"
MACHINE = import_file(EXAMPLE, "B217").npu
VECTOR = "tensor<8xf32>"
STEPS = ["arith.negf", "math.exp", "math.erf"]


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_negations_are_products_for_a_machine_without_them(
    steps: list[str], data: st.DataObject
) -> None:
    lines = [f"%v{i + 1} = {step} %v{i} : f32" for i, step in enumerate(steps)]
    module = parse_module(f"""
      func.func @main(%x: {VECTOR}) -> {VECTOR} {{
        %e = tir.empty : {VECTOR}
        %r = tir.block [i: 8] ins(%x[i] : {VECTOR}) outs(%e[i] : {VECTOR}) {{
        ^bb0(%v0: f32, %old: f32):
          {chr(10).join(lines)}
          tir.yield %v{len(steps)} : f32
        }}
        func.return %r : {VECTOR}
      }}""")
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    floats = st.floats(width=32, allow_nan=False)
    x = np.array(data.draw(st.lists(floats, min_size=8, max_size=8)), np.float32)
    with np.errstate(over="ignore"):
        expected = evaluate(module, {"arg0": x})["res0"]
        split_bodies(MACHINE, function.body.block)
        verify_module(module)
        found = evaluate(module, {"arg0": x})["res0"]
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
    made = [op.yielded[0].owner for op in blocks_in(function)]
    names = [op.name for op in made if isinstance(op, Operation)]
    assert names == ["arith.mulf" if step == "arith.negf" else step for step in steps]

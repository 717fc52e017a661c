"""What a body computes of fewer dimensions than its block has is computed once for those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from byocir.dialects.text import parse_module
from byocir.dialects.tir import blocks_in
from byocir.dialects.types import shape_of
from byocir.dialects.uses import replace_op
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.rewrites.machine.outer_parts import outer_part, take_out
from byocir.rewrites.machine.split_bodies import split_bodies
from byocir.vendor.user_code import import_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "float_npu.py"
MACHINE = import_file(EXAMPLE, "B217").npu
SIZES = {"a": 2, "i": 3, "k": 5}
INDICES = [["a", "i", "k"], ["a", "i"], ["k"], ["i"], ["i", "a"], ["k + 1"]]


def shape_text(index: list[str]) -> str:
    sizes = [SIZES[name] if name in SIZES else SIZES["k"] + 1 for name in index]
    return f"tensor<{''.join(f'{size}x' for size in sizes)}f32>"


@st.composite
def maps(draw: st.DrawFn) -> str:
    """A block without reductions, of three arrays of different dimensions."""
    reads = draw(st.lists(st.sampled_from(INDICES), min_size=3, max_size=3))
    values, lines = ["%x", "%y", "%z"], ["%n = arith.constant 1.5 : f32"]
    for at in range(draw(st.integers(1, 6))):
        step = draw(st.sampled_from(["addf", "subf", "mulf", "maximumf"]))
        pair = [draw(st.sampled_from([*values[-3:], "%x", "%n"])) for _ in range(2)]
        lines.append(f"%v{at} = arith.{step} {', '.join(pair)} : f32")
        values.append(f"%v{at}")
    types = [shape_text(index) for index in (*reads, [*SIZES])]
    pairs = enumerate(zip(reads, types[:3], strict=True))
    parts = ", ".join(f"%p{i}[{', '.join(read)}] : {type_}" for i, (read, type_) in pairs)
    extents = ", ".join(f"{name}: {size}" for name, size in SIZES.items())
    out = f"%e[{', '.join(SIZES)}] : {types[3]}"
    return f"""
      func.func @main({", ".join(f"%p{i}: {t}" for i, t in enumerate(types[:3]))}) -> {types[3]} {{
        %e = tir.empty : {types[3]}
        %r = tir.block [{extents}] ins({parts}) outs({out}) {{
        ^bb0(%x: f32, %y: f32, %z: f32, %old: f32):
          {chr(10).join(lines)}
          tir.yield {values[-1]} : f32
        }}
        func.return %r : {types[3]}
      }}"""


def drawn(text: str, seed: int) -> tuple[ModuleOp, FuncOp, dict[str, np.ndarray]]:
    module = parse_module(text)
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    random = np.random.default_rng(seed)
    shapes = [shape_of(type_) for type_ in function.function_type.inputs]
    feeds = {f"arg{i}": random.normal(0, 1, s).astype(np.float32) for i, s in enumerate(shapes)}
    return module, function, feeds


@given(maps(), st.integers(0, 99))
@settings(deadline=None)
def test_the_part_and_the_rest_compute_the_same(text: str, seed: int) -> None:
    module, function, feeds = drawn(text, seed)
    expected = evaluate(module, feeds)["res0"]
    (block,) = blocks_in(function)
    found = outer_part(block)
    assume(found is not None)
    assert found is not None
    out, outer, rest = take_out(block, *found)
    replace_op(block, [out, outer, rest])
    verify_module(module)
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)
    assert len(outer.iterators) < len(rest.iterators)


@given(maps(), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_blocks_that_are_split_compute_the_same(text: str, seed: int) -> None:
    module, function, feeds = drawn(text, seed)
    expected = evaluate(module, feeds)["res0"]
    split_bodies(MACHINE, function.body.block)
    verify_module(module)
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)


ROWS, MATRIX = "tensor<8xf32>", "tensor<8x64xf32>"
NORM = f"""
  func.func @main(%x: {MATRIX}, %m: {ROWS}, %v: {ROWS}) -> {MATRIX} {{
    %e = tir.empty : {MATRIX}
    %f = tir.empty : {MATRIX}
    %s = tir.block [i: 8, k: 64] ins(%x[i, k] : {MATRIX}, %m[i] : {ROWS})
        outs(%e[i, k] : {MATRIX}) {{
    ^bb0(%0: f32, %1: f32, %2: f32):
      %3 = arith.subf %0, %1 : f32
      %4 = arith.mulf %3, %3 : f32
      tir.yield %4 : f32
    }}
    %r = tir.block [i: 8, k: 64]
        ins(%x[i, k] : {MATRIX}, %m[i] : {ROWS}, %v[i] : {ROWS}, %s[i, k] : {MATRIX})
        outs(%f[i, k] : {MATRIX}) {{
    ^bb0(%0: f32, %1: f32, %2: f32, %3: f32, %4: f32):
      %5 = arith.subf %0, %1 : f32
      %6 = arith.constant 1.0 : f32
      %7 = arith.addf %2, %6 : f32
      %8 = math.sqrt %7 : f32
      %9 = arith.divf %5, %8 : f32
      %10 = arith.mulf %9, %3 : f32
      tir.yield %10 : f32
    }}
    func.return %r : {MATRIX}
  }}"""


def test_a_norm_takes_the_root_of_each_vector_and_the_differences_once() -> None:
    """The root is of 8 numbers and not of 8 times 64; the mean is taken off once."""
    module, function, feeds = drawn(NORM, 0)
    feeds["arg2"] = abs(feeds["arg2"])
    expected = evaluate(module, feeds)["res0"]
    split_bodies(MACHINE, function.body.block)
    computing = [(op.extents, op.yielded[0].owner) for op in blocks_in(function)]
    names = [(shape, op.name) for shape, op in computing if isinstance(op, Operation)]
    assert [name for shape, name in names if shape == (8,)] == ["arith.addf", "math.sqrt"]
    whole = [name for shape, name in names if shape == (8, 64)]
    assert sorted(whole) == ["arith.divf", "arith.mulf", "arith.mulf", "arith.subf"]
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)

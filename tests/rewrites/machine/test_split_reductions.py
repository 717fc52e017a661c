"""Reductions of what a block computes are two blocks that compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, blocks_in
from byocir.dialects.types import shape_of
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.rewrites.machine.split_reductions import split_reductions
from byocir.vendor.user_code import import_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "float_npu.py"
MACHINE = import_file(EXAMPLE, "B217").npu
SIZES = {"a": 2, "i": 3, "k": 5}
COMBINE = {"addf": "0.0", "maximumf": "0xff800000"}


@st.composite
def reductions(draw: st.DrawFn) -> str:
    """A block over three iterators, one or two of which it reduces; what it reduces is computed of
    an array that has an element for each point, or of two that have not.
    """
    order = draw(st.permutations([*SIZES]))
    reduced = draw(st.sampled_from([("k",), ("a", "k")]))
    kept = [name for name in order if name not in reduced]
    whole, part = order, draw(st.sampled_from([["i"], ["k"], ["a", "k"], []]))
    reads = [whole, part] if draw(st.integers(0, 4)) else [["a", "i"], ["i", "k"]]
    shapes = ["".join(f"{SIZES[n]}x" for n in names) for names in (*reads, kept)]
    steps = st.sampled_from(["addf", "subf", "mulf", "divf", "maximumf"])
    lines, value = list[str](), "%x"
    for at, step in enumerate(draw(st.lists(steps, min_size=0, max_size=3))):
        lines.append(f"%v{at} = arith.{step} {value}, {draw(st.sampled_from(['%x', '%y']))} : f32")
        value = f"%v{at}"
    combining = draw(st.sampled_from([*COMBINE]))
    pair = draw(st.permutations([value, "%old"]))
    x, y, z = (f"tensor<{shape}f32>" for shape in shapes)
    extents = ", ".join(f"{n}: {SIZES[n]}" for n in kept)
    sums = ", ".join(f"{n}: {SIZES[n]}" for n in reduced)
    ins = f"%p[{', '.join(reads[0])}] : {x}, %q[{', '.join(reads[1])}] : {y}"
    return f"""
      func.func @main(%p: {x}, %q: {y}) -> {z} {{
        %z = tir.fill {COMBINE[combining]} : f32 : {z}
        %r = tir.block [{extents} | {sums}] ins({ins}) outs(%z[{", ".join(kept)}] : {z}) {{
        ^bb0(%x: f32, %y: f32, %old: f32):
          {chr(10).join(lines)}
          %c = arith.{combining} {", ".join(pair)} : f32
          tir.yield %c : f32
        }}
        func.return %r : {z}
      }}"""


@given(reductions(), st.integers(0, 99))
@settings(deadline=None)
def test_two_blocks_compute_the_same(text: str, seed: int) -> None:
    module = parse_module(text)
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    random = np.random.default_rng(seed)
    shapes = [shape_of(type_) for type_ in function.function_type.inputs]
    feeds = {f"arg{i}": random.normal(0, 1, s).astype(np.float32) for i, s in enumerate(shapes)}
    expected = evaluate(module, feeds)["res0"]
    (block,) = blocks_in(function)
    wanted = is_split(block)
    split_reductions(MACHINE, function.body.block)
    verify_module(module)
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)
    found = sum(isinstance(op, BlockOp) for op in module.walk())
    event(f"{found} blocks")
    assert found == (2 if wanted else 1)


def is_split(block: BlockOp) -> bool:
    """What is reduced must be computed, of an input that has an element for each point."""
    combining, old = block.yielded[0].owner, block.body.block.args[-1]
    assert isinstance(combining, Operation)
    (term,) = (value for value in combining.operands if value is not old)
    whole = any(len(map_.results) == len(SIZES) for map_ in block.in_maps)
    return whole and not isinstance(term, BlockArgument)

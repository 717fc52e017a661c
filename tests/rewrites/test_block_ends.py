"""Ends of sums beside the inputs that lead there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.intervals import Interval
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.evaluate.module import evaluate
from byocir.rewrites.block_ends import ends_of


def convolution(weights: np.ndarray, pad: int, start: int) -> str:
    """Sums of 3 channels over windows of 2, with a number around the input."""
    outputs = len(weights)
    numbers = ", ".join(map(str, weights.reshape(-1)))
    return f"""
      func.func @main(%x: tensor<3x4xi8>) -> tensor<{outputs}x5xi32> {{
        %w = tir.constant <[{numbers}] : tensor<{outputs}x3x2xi8>> : tensor<{outputs}x3x2xi8>
        %z = tir.fill {start} : i32 : tensor<{outputs}x5xi32>
        %y = tir.block [o: {outputs}, h: 5 | c: 3, r: 2]
            ins(%x[c, h + r - 1] pad {pad} : i8 : tensor<3x4xi8>,
                %w[o, c, r] : tensor<{outputs}x3x2xi8>)
            outs(%z[o, h] : tensor<{outputs}x5xi32>) {{
        ^bb0(%a: i8, %b: i8, %old: i32):
          %v = arith.extsi %a : i8 to i32
          %u = arith.extsi %b : i8 to i32
          %p = arith.muli %v, %u : i32
          %s = arith.addi %old, %p : i32
          tir.yield %s : i32
        }}
        func.return %y : tensor<{outputs}x5xi32>
      }}"""


@given(st.data())
def test_sums_of_products_lie_between_ends_that_inputs_reach(data: st.DataObject) -> None:
    outputs = data.draw(st.integers(1, 3))
    low, high = sorted(data.draw(st.tuples(st.integers(-128, 127), st.integers(-128, 127))))
    pad, start = data.draw(st.integers(low, high)), data.draw(st.integers(-1000, 1000))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    weights = random.integers(-128, 128, (outputs, 3, 2))
    module = parse_module(convolution(weights, pad, start))
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    ends = ends_of(block.results[0], {block.ins[0]: Interval(low, high)})
    assert ends is not None
    for o in range(outputs):
        # A window in the middle reads inputs alone, each as low or high as its weight wants.
        for end, wanted in ((ends.low, weights[o] > 0), (ends.high, weights[o] < 0)):
            x = np.zeros((3, 4), np.int8)
            x[:, 1:3] = np.where(wanted, low, high)
            assert evaluate(module, {"arg0": x})["res0"][o, 2] == end[o, 0]
    x = random.integers(low, high + 1, (3, 4)).astype(np.int8)
    found = evaluate(module, {"arg0": x})["res0"]
    assert ((ends.low <= found) & (found <= ends.high)).all()


def test_products_of_computed_factors_have_ends_too() -> None:
    module = parse_module(convolution(np.full((1, 3, 2), 7), 0, 5))
    (constant,) = [op for op in module.walk() if isinstance(op, ConstantOp)]
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    given_ = {block.ins[0]: Interval(0, 9), constant.result: Interval(-3, 4)}
    ends = ends_of(block.results[0], given_)
    assert ends is not None
    assert ends.interval == Interval(5 - 6 * 27, 5 + 6 * 36)


def test_elements_behind_a_part_that_is_set_are_what_they_were() -> None:
    module = parse_module("""
      func.func @main(%x: tensor<3xi8>) -> tensor<4xi8> {
        %z = tir.fill -9 : i8 : tensor<4xi8>
        %y = tir.block [i: 3] ins(%x[i] : tensor<3xi8>) outs(%z[i] : tensor<4xi8>) {
        ^bb0(%a: i8, %old: i8):
          tir.yield %a : i8
        }
        func.return %y : tensor<4xi8>
      }""")
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    ends = ends_of(block.results[0], {block.ins[0]: Interval(5, 7)})
    assert ends is not None
    assert ends.interval == Interval(-9, 7)


@pytest.mark.parametrize("name", ["addi", "maxsi", "minsi"])
@given(st.data())
def test_points_that_guards_leave_out_are_in_the_ends(name: str, data: st.DataObject) -> None:
    """Windows of 3, some of which have one element inside, or none."""
    low, high = sorted(data.draw(st.tuples(st.integers(-128, 127), st.integers(-128, 127))))
    start = data.draw(st.integers(-200, 200))
    module = parse_module(f"""
      func.func @main(%x: tensor<4xi32>) -> tensor<9xi32> {{
        %z = tir.fill {start} : i32 : tensor<9xi32>
        %y = tir.block [h: 9 | r: 3] ins(%x[h + r - 4] : tensor<4xi32>) outs(%z[h] : tensor<9xi32>)
            where(h + r - 4 >= 0, -h - r + 7 >= 0) {{
        ^bb0(%a: i32, %old: i32):
          %s = arith.{name} %old, %a : i32
          tir.yield %s : i32
        }}
        func.return %y : tensor<9xi32>
      }}""")
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    ends = ends_of(block.results[0], {block.ins[0]: Interval(low, high)})
    assert ends is not None
    for x in (np.full(4, low), np.full(4, high), np.array([low, high, low, high])):
        found = evaluate(module, {"arg0": x.astype(np.int32)})["res0"]
        assert ((ends.low <= found) & (found <= ends.high)).all()
    if name == "addi":
        assert ends.interval == Interval(start + 3 * min(low, 0), start + 3 * max(high, 0))


def test_guards_may_divide() -> None:
    module = parse_module("""
      func.func @main(%x: tensor<5xi8>) -> tensor<4xi32> {
        %z = tir.fill 0 : i32 : tensor<4xi32>
        %y = tir.block [i: 4 | k: 2] ins(%x[i + k] : tensor<5xi8>) outs(%z[i] : tensor<4xi32>)
            where(i floordiv 2 - 1 >= 0) {
        ^bb0(%a: i8, %old: i32):
          %v = arith.extsi %a : i8 to i32
          %s = arith.addi %old, %v : i32
          tir.yield %s : i32
        }
        func.return %y : tensor<4xi32>
      }""")
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    ends = ends_of(block.results[0], {block.ins[0]: Interval(3, 7)})
    assert ends is not None
    np.testing.assert_array_equal(ends.low, [0, 0, 6, 6])
    np.testing.assert_array_equal(ends.high, [0, 0, 14, 14])

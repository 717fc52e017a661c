"""Fills, copies, loops and buffers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate_function


def run(text, *arrays):
    return evaluate_function(parse_module(text), "main", list(arrays))


def test_constants_fills_and_empties():
    w, zeros, low, nothing = run(
        """
        func.func @main() -> (tensor<2xi8>, tensor<3xi32>, tensor<2xf32>, tensor<0x4xui8>) {
          %w = tir.constant <[1, -2] : tensor<2xi8>> : tensor<2xi8>
          %z = tir.fill -7 : i32 : tensor<3xi32>
          %l = tir.fill 0xFF800000 : f32 : tensor<2xf32>
          %e = tir.empty : tensor<0x4xui8>
          func.return %w, %z, %l, %e : tensor<2xi8>, tensor<3xi32>, tensor<2xf32>, tensor<0x4xui8>
        }"""
    )
    np.testing.assert_array_equal(w, np.array([1, -2], np.int8))
    np.testing.assert_array_equal(zeros, np.full(3, -7, np.int32))
    np.testing.assert_array_equal(low, np.full(2, -np.inf, np.float32))
    assert (nothing.shape, nothing.dtype) == ((0, 4), np.uint8)


COPY = """
func.func @main(%x: memref<3x5xi8>, %y: memref<4x6xi32>) {{
  %a = arith.constant {a} : index
  %b = arith.constant {b} : index
  %c = arith.constant 1 : index
  %d = arith.constant 2 : index
  tir.copy %x[%a, %b] to %y[%c, %d] sizes [2, 3] {pad} : memref<3x5xi8> to memref<4x6xi32>
  func.return
}}"""


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(-4, 5), st.integers(-5, 7))
def test_copies_move_a_box_and_pad_what_is_outside(a, b):
    x = np.arange(-7, 8, dtype=np.int8).reshape(3, 5)
    expected = np.zeros((4, 6), np.int32)
    for i in range(2):
        for j in range(3):
            inside = 0 <= a + i < 3 and 0 <= b + j < 5
            expected[1 + i, 2 + j] = x[a + i, b + j] if inside else -9
    found = run(COPY.format(a=a, b=b, pad="pad -9 : i8"), x)[0]
    np.testing.assert_array_equal(found, expected)


def test_copies_without_pad_stay_inside():
    with pytest.raises(ByocirError, match=r"B303.*inside the source of shape \[3, 5\]"):
        run(COPY.format(a=2, b=0, pad=""), np.zeros((3, 5), np.int8))


def test_copies_keep_low_bits():
    (narrow,) = run(
        """
        func.func @main(%x: memref<3xi32>, %y: memref<3xi8>) {
          tir.copy %x to %y sizes [3] : memref<3xi32> to memref<3xi8>
          func.return
        }""",
        np.array([300, -129, 5], np.int32),
    )
    np.testing.assert_array_equal(narrow, np.array([44, 127, 5], np.int8))


def test_loops_run_blocks_at_bases():
    """A tiled sum of rows: the block runs over 2 x 3 points at a time."""
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    (sums,) = run(
        """
        func.func @main(%x: memref<4x6xi32>, %y: memref<4xi32>) {
          tir.fill 0 : i32 into %y : memref<4xi32>
          %t = tir.alloc : memref<4x6xi32, "near">
          tir.copy %x to %t sizes [4, 6] : memref<4x6xi32> to memref<4x6xi32, "near">
          tir.for %i = 0 to 2 serial {
            %two = arith.constant 2 : index
            %h = arith.muli %i, %two : index
            tir.for %j = 0 to 2 serial {
              %three = arith.constant 3 : index
              %w = arith.muli %j, %three : index
              tir.block [h: 2 | w: 3] at(%h, %w) ins(%t[h, w] : memref<4x6xi32, "near">)
                  outs(%y[h] : memref<4xi32>) {
              ^bb0(%e: i32, %acc: i32):
                %s = arith.addi %acc, %e : i32
                tir.yield %s : i32
              }
            }
          }
          func.return
        }""",
        x,
    )
    np.testing.assert_array_equal(sums, x.sum(axis=1))


def test_index_arithmetic():
    """Counts visits of 4 * i + min(j, 2)."""
    (counts,) = run(
        """
        func.func @main(%y: memref<8xi32>) {
          tir.for %i = 0 to 2 serial {
            %four = arith.constant 4 : index
            %start = arith.muli %i, %four : index
            tir.for %j = 0 to 4 serial {
              %two = arith.constant 2 : index
              %near = arith.cmpi slt, %j, %two : index
              %at = arith.select %near, %j, %two : index
              %row = arith.addi %start, %at : index
              tir.block [h: 1] at(%row) outs(%y[h] : memref<8xi32>) {
              ^bb0(%old: i32):
                %one = arith.constant 1 : i32
                %new = arith.addi %old, %one : i32
                tir.yield %new : i32
              }
            }
          }
          func.return
        }"""
    )
    np.testing.assert_array_equal(counts, [1, 1, 2, 0, 1, 1, 2, 0])


def test_accesses_outside_are_errors():
    text = """
    func.func @main(%x: memref<4xi8>, %y: memref<4xi8>) {
      %one = arith.constant 1 : index
      tir.block [i: 4] at(%one) ins(%x[i] : memref<4xi8>) outs(%y[i - 1] : memref<4xi8>) {
      ^bb0(%e: i8, %old: i8):
        tir.yield %e : i8
      }
      func.return
    }"""
    with pytest.raises(ByocirError, match=r"B303.*index i inside \[0, 4\), found \[1, 4\]"):
        run(text, np.zeros(4, np.int8))


def test_unknown_ops_are_named():
    text = """
    func.func @main(%x: tensor<f32>) {
      %0 = builtin.unrealized_conversion_cast %x : tensor<f32> to tensor<1xf32>
      func.return
    }"""
    with pytest.raises(ByocirError, match=r"B301.*found builtin.unrealized_conversion_cast"):
        run(text, np.zeros((), np.float32))

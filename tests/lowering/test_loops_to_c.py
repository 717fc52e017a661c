"""Loops that carry values compute in C what they compute in the evaluator."""

import numpy as np
import pytest
from c_host import SANITIZED, run_c

from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate_function

ADD = """tir.block [i: 4] ins({a}[i] : tensor<4xi32>, {b}[i] : tensor<4xi32>)
      outs({into}[i] : tensor<4xi32>) {{
    ^bb0(%u: i32, %v: i32, %o: i32):
      %sum = arith.addi %u, %v : i32
      tir.yield %sum : i32
    }}"""

TWO = "%x: tensor<4xi32>, %y: tensor<4xi32>"
BOTH = "tensor<4xi32>, tensor<4xi32>"

SWAPPED = f"""
func.func @main({TWO}) -> ({BOTH}) {{
  %a, %b = tir.for %t = 0 to 5 serial carry(%p = %x : tensor<4xi32>, %q = %y : tensor<4xi32>) {{
    %e = tir.empty : tensor<4xi32>
    %s = {ADD.format(a="%p", b="%q", into="%e")}
    tir.yield %q, %s : {BOTH}
  }}
  func.return %a, %b : {BOTH}
}}
"""

IN_PLACE = f"""
func.func @main({TWO}) -> ({BOTH}) {{
  %e = tir.empty : tensor<4xi32>
  %outer = {ADD.format(a="%x", b="%y", into="%e")}
  %a = tir.for %t = 0 to 3 serial carry(%p = %outer : tensor<4xi32>) {{
    %s = tir.block [i: 4] ins(%p[i] : tensor<4xi32>) outs(%outer[i] : tensor<4xi32>) {{
    ^bb0(%l: i32, %o: i32):
      %sum = arith.addi %l, %o : i32
      tir.yield %sum : i32
    }}
    tir.yield %s : tensor<4xi32>
  }}
  func.return %a, %outer : {BOTH}
}}
"""

PARTS = """
func.func @main(%x: tensor<6x3xi32>) -> (tensor<6x3xi32>, tensor<3xi32>) {
  %z = tir.fill 1 : i32 : tensor<3xi32>
  %e = tir.fill 7 : i32 : tensor<6x3xi32>
  %l, %all = tir.for %t = 0 to 3 serial carry(%p = %z : tensor<3xi32>, %s = %e : tensor<6x3xi32>) {
    %c0 = arith.constant 0 : index
    %m = tir.for %u = 0 to 2 serial carry(%q = %p : tensor<3xi32>) {
      %n = tir.block [k: 1, i: 3] at(%t, %c0) ins(%x[k * 2 - 1, i] pad 5 : i32 : tensor<6x3xi32>)
          outs(%q[i] : tensor<3xi32>) {
      ^bb0(%v: i32, %o: i32):
        %sum = arith.addi %v, %o : i32
        tir.yield %sum : i32
      }
      tir.yield %n : tensor<3xi32>
    }
    %w = tir.block [k: 2, i: 3] at(%t, %c0) ins(%m[i] : tensor<3xi32>)
        outs(%s[5 - k, i] : tensor<6x3xi32>) {
    ^bb0(%v: i32, %o: i32):
      %sum = arith.addi %v, %o : i32
      tir.yield %sum : i32
    }
    tir.yield %m, %w : tensor<3xi32>, tensor<6x3xi32>
  }
  func.return %all, %l : tensor<6x3xi32>, tensor<3xi32>
}
"""


@pytest.mark.parametrize("text", [SWAPPED, IN_PLACE, PARTS], ids=["swapped", "in place", "parts"])
def test_c_gives_what_the_evaluator_gives(text):
    module = parse_module(text)
    module.verify()
    types = module.body.block.first_op.function_type.inputs
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, type_.get_shape(), np.int32) for type_ in types]
    expected = evaluate_function(module, "main", arrays)
    code, found = run_c(module, arrays, SANITIZED)
    assert not code.calls
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_swapped_values_are_those_of_fibonacci():
    one = np.ones(4, np.int32)
    _, found = run_c(parse_module(SWAPPED), [one, one])
    assert [array.tolist() for array in found] == [[8] * 4, [13] * 4]

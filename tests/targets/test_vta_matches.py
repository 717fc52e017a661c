"""What VTA's patterns take, its code generator takes: programs made from each pattern are compiled
all the way, and give what they mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.tir import BlockOp
from byocir.evaluate.module import evaluate, random_feeds
from byocir.targets.vta_patterns import PATTERNS
from byocir.testing import Example, matching

IS_FUZZ = settings.default.max_examples > 100


def check(example: Example) -> None:
    package = byocir.compile(
        example.module.clone(), targets=["vta"], levels=(example.composite.level,)
    )
    for seed in range(2):
        feeds = random_feeds(example.module, seed)
        found = package.run(feeds, check=True)
        for name, expected in evaluate(example.module, feeds).items():
            assert np.array_equal(found[name], expected)


@settings(max_examples=1000 if IS_FUZZ else 5)
@given(st.sampled_from(PATTERNS).flatmap(matching))
def test_what_is_taken_is_not_refused(example: Example):
    check(example)


# Programs that were refused after they had been taken, or computed something else.

TERMS_OF_8_BITS = """
func.func @main(%a: tensor<1x4x2x2xi8>, %b: tensor<1x4x2x2xi8>) -> tensor<1x4x2x2xi8> {
  %m = graph.constant #graph.array<[2] : tensor<1xi32>>
  %x = graph.requantize %a, %m {rounding = #graph.fixed<shift = 0, half_up>, to = i8}
    : (tensor<1x4x2x2xi8>, tensor<1xi32>) -> tensor<1x4x2x2xi8>
  %y = graph.requantize %b, %m {rounding = #graph.fixed<shift = 0, half_up>, to = i8}
    : (tensor<1x4x2x2xi8>, tensor<1xi32>) -> tensor<1x4x2x2xi8>
  %s = graph.add %x, %y : (tensor<1x4x2x2xi8>, tensor<1x4x2x2xi8>) -> tensor<1x4x2x2xi8>
  %r = graph.requantize %s, %m {rounding = #graph.fixed<shift = 1, half_up>, to = i8}
    : (tensor<1x4x2x2xi8>, tensor<1xi32>) -> tensor<1x4x2x2xi8>
  func.return %r : tensor<1x4x2x2xi8>
}"""


POOL_BEYOND_ITS_BORDER = """
func.func @main(%x: tensor<1x3x3xi8>) -> tensor<1x3x2xi8> {
  %p = graph.pad %x {mode = "constant", pads = array<i64: 0, 0, 1, 0, 0, 0>,
    value = #graph.array<[5] : tensor<i8>>} : (tensor<1x3x3xi8>) -> tensor<1x3x4xi8>
  %s = graph.sum_pool %p {strides = array<i64: 2>, dilations = array<i64: 1>,
    pads = array<i64: 0, 0>, kernel_shape = array<i64: 3>, ceil_mode = 1 : i64}
    : (tensor<1x3x4xi8>) -> tensor<1x3x2xi32>
  %m = graph.constant #graph.array<[1] : tensor<i32>>
  %r = graph.requantize %s, %m {rounding = #graph.fixed<shift = 0, half_up>, to = i8}
    : (tensor<1x3x2xi32>, tensor<i32>) -> tensor<1x3x2xi8>
  func.return %r : tensor<1x3x2xi8>
}"""


POOL_WITH_A_COLUMN_OUTSIDE = """
func.func @main(%x: tensor<1x16x9x10xi8>) -> tensor<1x8x4x5xi8> {
  %w = graph.constant #graph.array<[NUMBERS] : tensor<8x16x1x3xi8>>
  %c = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, group = 1 : i64}
    : (tensor<1x16x9x10xi8>, tensor<8x16x1x3xi8>) -> tensor<1x8x9x8xi32>
  %m = graph.constant #graph.array<[93] : tensor<i32>>
  %r = graph.requantize %c, %m {rounding = #graph.fixed<shift = 9, half_up>}
    : (tensor<1x8x9x8xi32>, tensor<i32>) -> tensor<1x8x9x8xi8>
  %p = graph.max_pool %r {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>,
    pads = array<i64: 0, 1, 1, 1>, kernel_shape = array<i64: 3, 1>, ceil_mode = 0 : i64}
    : (tensor<1x8x9x8xi8>) -> tensor<1x8x4x5xi8>
  func.return %p : tensor<1x8x4x5xi8>
}""".replace("NUMBERS", ", ".join(["3", "-5"] * 192))


PART = """
func.func @main(%x: tensor<20x20x20xi8>) -> tensor<8x9x2xi8> {
  %e = tir.empty : tensor<8x9x2xi8>
  %y = tir.block [i: 8, j: 9, k: 2] ins(%x[i, j, k] : tensor<20x20x20xi8>)
    outs(%e[i, j, k] : tensor<8x9x2xi8>) {
  ^bb0(%a: i8, %b: i8):
    %c = arith.constant 3 : i8
    %d = arith.maxsi %a, %c : i8
    tir.yield %d : i8
  }
  func.return %y : tensor<8x9x2xi8>
}"""


TERM_OF_ANOTHER_RANK = """
func.func @main(%x: tensor<1x4xi8>, %y: tensor<4xi8>) -> tensor<1x4xi8> {
  %m = graph.constant #graph.array<[37] : tensor<i32>>
  %a = graph.requantize %x, %m {rounding = #graph.fixed<shift = 0, half_even>, to = i32}
    : (tensor<1x4xi8>, tensor<i32>) -> tensor<1x4xi32>
  %b = graph.requantize %y, %m {rounding = #graph.fixed<shift = 0, floor>, to = i32}
    : (tensor<4xi8>, tensor<i32>) -> tensor<4xi32>
  %s = graph.add %b, %a : (tensor<4xi32>, tensor<1x4xi32>) -> tensor<1x4xi32>
  %r = graph.requantize %s, %m {rounding = #graph.fixed<shift = 8, half_up>}
    : (tensor<1x4xi32>, tensor<i32>) -> tensor<1x4xi8>
  func.return %r : tensor<1x4xi8>
}"""


SUM_WITH_ANOTHER_RANK = """
func.func @main(%x: tensor<1x4x8x8xi8>, %y: tensor<4x7x7xi8>) -> tensor<1x4x7x7xi8> {
  %w = graph.constant #graph.array<[NUMBERS] : tensor<4x4x2x2xi8>>
  %c = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, group = 1 : i64}
    : (tensor<1x4x8x8xi8>, tensor<4x4x2x2xi8>) -> tensor<1x4x7x7xi32>
  %m = graph.constant #graph.array<[93] : tensor<i32>>
  %r = graph.requantize %c, %m {rounding = #graph.fixed<shift = 9, half_up>}
    : (tensor<1x4x7x7xi32>, tensor<i32>) -> tensor<1x4x7x7xi8>
  %a = graph.requantize %r, %m {rounding = #graph.fixed<shift = 0, floor>, to = i32}
    : (tensor<1x4x7x7xi8>, tensor<i32>) -> tensor<1x4x7x7xi32>
  %b = graph.requantize %y, %m {rounding = #graph.fixed<shift = 0, floor>, to = i32}
    : (tensor<4x7x7xi8>, tensor<i32>) -> tensor<4x7x7xi32>
  %s = graph.add %a, %b : (tensor<1x4x7x7xi32>, tensor<4x7x7xi32>) -> tensor<1x4x7x7xi32>
  %z = graph.requantize %s, %m {rounding = #graph.fixed<shift = 9, half_up>}
    : (tensor<1x4x7x7xi32>, tensor<i32>) -> tensor<1x4x7x7xi8>
  func.return %z : tensor<1x4x7x7xi8>
}""".replace("NUMBERS", ", ".join(["3", "-5"] * 32))


def pool_over(channels: int) -> str:
    """Maxima over windows that end outside, of so many channels of an array of two."""
    return f"""
func.func @main(%x: tensor<1x2x4xi8>) -> tensor<1x{channels}x2xi8> {{
  %least = tir.fill -128 : i8 : tensor<1x{channels}x2xi8>
  %0 = tir.block [n: 1, c: {channels}, h: 2 | r: 3]
    ins(%x[n, c, 2 * h + r] pad -128 : i8 : tensor<1x2x4xi8>)
    outs(%least[n, c, h] : tensor<1x{channels}x2xi8>) {{
  ^bb0(%p: i8, %r: i8):
    %1 = arith.maxsi %r, %p : i8
    tir.yield %1 : i8
  }}
  func.return %0 : tensor<1x{channels}x2xi8>
}}"""


def rescaled(numbers: str, shift: int, *, grouped: bool = False) -> str:
    """A contraction, requantised by `(x * m + term) >> shift`; `numbers` is the factor and the
    term. If grouped, it has one group."""
    group, read, written = (", g: 1", "g + c", "4 * g + o") if grouped else ("", "c", "o")
    factor, term = numbers.split()
    return f"""
func.func @main(%x: tensor<1x2x2x3xi8>) -> tensor<1x4x2x3xi8> {{
  %w = tir.constant <[5, 36, 85, -59, 5, 39, -52, 62] : tensor<4x2x1x1xi8>> : tensor<4x2x1x1xi8>
  %z = tir.fill 0 : i32 : tensor<1x4x2x3xi32>
  %s = tir.block [n: 1{group}, h: 2, w: 3, o: 4 | c: 2, r: 1, s: 1]
    ins(%x[n, {read}, h + r, w + s] : tensor<1x2x2x3xi8>,
        %w[{written}, c, r, s] : tensor<4x2x1x1xi8>)
    outs(%z[n, {written}, h, w] : tensor<1x4x2x3xi32>) {{
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %c = arith.extsi %a : i8 to i32
    %d = arith.extsi %b : i8 to i32
    %e = arith.muli %c, %d : i32
    %f = arith.addi %acc, %e : i32
    tir.yield %f : i32
  }}
  %m = tir.constant <[{factor}] : tensor<i32>> : tensor<i32>
  %empty = tir.empty : tensor<1x4x2x3xi8>
  %y = tir.block [n: 1, o: 4, h: 2, w: 3]
    ins(%s[n, o, h, w] : tensor<1x4x2x3xi32>, %m[] : tensor<i32>)
    outs(%empty[n, o, h, w] : tensor<1x4x2x3xi8>) {{
  ^bb0(%a: i32, %b: i32, %acc: i8):
    %c = arith.extsi %a : i32 to i64
    %d = arith.extsi %b : i32 to i64
    %e = arith.muli %c, %d : i64
    %term = arith.constant {term} : i64
    %f = arith.addi %e, %term : i64
    %shift = arith.constant {shift} : i64
    %g = arith.shrsi %f, %shift : i64
    %low = arith.constant -128 : i64
    %h = arith.maxsi %g, %low : i64
    %high = arith.constant 127 : i64
    %i = arith.minsi %h, %high : i64
    %j = arith.trunci %i : i64 to i8
    tir.yield %j : i8
  }}
  func.return %y : tensor<1x4x2x3xi8>
}}"""


def pooled(text: str) -> str:
    """A program and the maxima of pairs of its result's columns."""
    end = "  func.return %y : tensor<1x4x2x3xi8>"
    assert end in text
    return text.replace("-> tensor<1x4x2x3xi8> {", "-> tensor<1x4x2x2xi8> {").replace(
        end,
        """  %least = tir.fill -128 : i8 : tensor<1x4x2x2xi8>
  %max = tir.block [n: 1, c: 4, h: 2, w: 2 | r: 1, s: 2]
    ins(%y[n, c, h + r, w + s] : tensor<1x4x2x3xi8>)
    outs(%least[n, c, h, w] : tensor<1x4x2x2xi8>) {
  ^bb0(%p: i8, %q: i8):
    %o = arith.maxsi %q, %p : i8
    tir.yield %o : i8
  }
  func.return %max : tensor<1x4x2x2xi8>""",
    )


IN_MEMORY = """
func.func @main(%x: memref<1x16x2x2xi8>, %y: memref<1x16x2x2xi8>) {
  tir.block [n: 1, c: 16, h: 2, w: 2] ins(%x[n, c, h, w] : memref<1x16x2x2xi8>)
    outs(%y[n, c, h, w] : memref<1x16x2x2xi8>) {
  ^bb0(%a: i8, %b: i8):
    %z = arith.constant 0 : i8
    %m = arith.maxsi %a, %z : i8
    tir.yield %m : i8
  }
  func.return
}"""


def test_what_is_in_memory_is_declined_with_what_to_do():
    (bound,) = (made for made in PATTERNS if made.name == "bound")
    module = Parser(load_context(), IN_MEMORY).parse_module()
    (root,) = (op for op in module.walk() if isinstance(op, BlockOp))
    assert "raise-scf-to-tir" in bound.attempt(root).reason


FOUND = {
    "terms of eight bits": (TERMS_OF_8_BITS, "graph", True),  # but for the sum
    "windows beyond a border": (POOL_BEYOND_ITS_BORDER, "graph", True),  # but for the border
    "the same as blocks": (POOL_BEYOND_ITS_BORDER, "tensor", True),
    "windows over more channels than there are": (pool_over(3), "tensor", False),
    "windows over fewer channels than there are": (pool_over(1), "tensor", True),
    "a column of windows that is outside": (POOL_WITH_A_COLUMN_OUTSIDE, "graph", True),
    "elements of a part of an array": (PART, "tensor", False),
    "a term of another rank": (TERM_OF_ANOTHER_RANK, "tensor", False),
    "a sum with an array of another rank": (SUM_WITH_ANOTHER_RANK, "tensor", True),
    "one group": (rescaled("3 4", 3, grouped=True), "tensor", True),
    "half of something else": (rescaled("3 5", 3), "tensor", True),
    "more than 32 bits": (rescaled("3 536870912", 30), "tensor", False),
    "half of something else before a pool": (pooled(rescaled("3 5", 3)), "tensor", True),
    "a term that nothing shifts": (rescaled("3 8", 0), "tensor", True),
}


@pytest.mark.parametrize(("text", "level", "taken"), FOUND.values(), ids=FOUND)
def test_what_was_refused_after_it_was_taken(text: str, level: str, taken: bool):
    module = Parser(load_context(), text).parse_module()
    module.verify()
    feeds = random_feeds(module)
    package = byocir.compile(module.clone(), targets=["vta"], levels=(level,))
    assert bool(package.report.regions) == taken
    found = package.run(feeds, check=True)
    for name, expected in evaluate(module, feeds).items():
        assert np.array_equal(found[name], expected)

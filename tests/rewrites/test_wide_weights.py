"""Weights of more than eight bits as sums of bytes: the contractions give the same numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import element_type_of, i8, i16
from byocir.evaluate.module import evaluate
from byocir.rewrites.wide_weights import with_bytes_as_weights

LANES = 2

CONVOLUTION = "o: 4, h: 6 | r: 3, c: 5", "h + r - 1, c", "r, c, o"
DEPTHWISE = "o: 5, h: 6 | r: 3", "h + r - 1, o", "r, o"
PRODUCT = "o: 4, h: 6 | c: 5", "h, c", "c, o"
"""Iterators, the index of the input and that of the weights."""


def contraction(weights: np.ndarray, form: tuple[str, str, str], *, swapped: bool) -> ModuleOp:
    """Sums of products of bytes with weights of i16, with a 7 around the input."""
    iterators, index, of_weights = form
    outputs = weights.shape[-1]
    shape = "x".join(map(str, weights.shape))
    x = f"%x[{index}] pad 7 : i8 : tensor<6x5xi8>"
    w = f"%w[{of_weights}] : tensor<{shape}xi16>"
    ins, arguments = (
        (f"{w}, {x}", "%b: i16, %a: i8") if swapped else (f"{x}, {w}", "%a: i8, %b: i16")
    )
    numbers = ", ".join(map(str, weights.reshape(-1)))
    return parse_module(f"""
      func.func @main(%x: tensor<6x5xi8>) -> tensor<{outputs}x6xi32> {{
        %w = tir.constant <[{numbers}] : tensor<{shape}xi16>> : tensor<{shape}xi16>
        %z = tir.fill 3 : i32 : tensor<{outputs}x6xi32>
        %y = tir.block [{iterators}] ins({ins}) outs(%z[o, h] : tensor<{outputs}x6xi32>) {{
        ^bb0({arguments}, %old: i32):
          %v = arith.extsi %a : i8 to i32
          %u = arith.extsi %b : i16 to i32
          %p = arith.muli %v, %u : i32
          %s = arith.addi %old, %p : i32
          tir.yield %s : i32
        }}
        func.return %y : tensor<{outputs}x6xi32>
      }}""")


def split(module: ModuleOp) -> list[BlockOp]:
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    made = with_bytes_as_weights(block, LANES)
    module.verify()
    return made


@given(st.data())
def test_contractions_with_bytes_give_the_same_sums(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([CONVOLUTION, DEPTHWISE, PRODUCT]))
    shape = {CONVOLUTION: (3, 5, 4), DEPTHWISE: (3, 5), PRODUCT: (5, 4)}[form]
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    farthest = data.draw(st.sampled_from([127, 255]))
    weights = random.integers(-farthest, farthest + 1, shape).astype(np.int16)
    if data.draw(st.booleans()):  # next to all are bytes
        few = random.random(shape) < 0.05
        weights = np.where(few, weights, weights // 2).astype(np.int16)
    module = contraction(weights, form, swapped=data.draw(st.booleans()))
    x = random.integers(-128, 128, (6, 5)).astype(np.int8)
    expected = evaluate(module, {"arg0": x})["res0"]
    made = split(module)
    assert all(element_type_of(value.type) == i8 for op in made for value in op.ins)
    np.testing.assert_array_equal(evaluate(module, {"arg0": x})["res0"], expected)


def test_a_weight_that_leaves_a_byte_is_multiplied_at_its_own_point() -> None:
    weights = np.zeros((3, 5, 4), np.int16)
    weights[2, 3, 1] = 130
    first, point = split(contraction(weights, CONVOLUTION, swapped=False))
    assert first.extents == (4, 6, 3, 5)
    assert point.names == ["o", "h", "c"]
    assert point.extents == (4, 6, LANES)
    assert str(point.in_maps[0]) == "(d0, d1, d2) -> ((d1 + 1), (d2 + 2))"
    assert list(point.outs) == list(first.results)


def test_many_weights_that_leave_a_byte_are_multiplied_with_the_others() -> None:
    weights = np.full((3, 5, 4), 200, np.int16)
    (made,) = split(contraction(weights, CONVOLUTION, swapped=False))
    assert made.extents == (4, 6, 3, 5, 2)


def test_weights_of_more_than_three_bytes_stay_as_they_are() -> None:
    weights = np.full((3, 5, 4), 500, np.int16)
    (same,) = split(contraction(weights, CONVOLUTION, swapped=False))
    assert element_type_of(same.ins[1].type) == i16

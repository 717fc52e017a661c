"""What is known of arrays when blocks are split does not keep a machine from what it took."""

from __future__ import annotations

import numpy as np
import pytest

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i8, i32, i64
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, number, wildcard
from byocir.rewrites.machine.saturating_sums import with_both_ends


def scaled(x: ScalarPattern, low: ScalarPattern | int, high: ScalarPattern | int) -> ScalarPattern:
    return ((x * number("factor") + number("half")) >> number("shift")).clamp(low, high).to(i8)


def scaler() -> Machine:
    """A machine whose only instruction scales bytes and clamps them at both ends."""
    machine = Machine("scaler")
    dma, core = machine.unit("dma", queue=4), machine.unit("core", queue=4)
    near = machine.memory("near", i8, row=(16,), rows=64)
    machine.order(Counted())
    tile = dict(rows=up_to(16), lanes=up_to(16), cycles=lambda s: 9 + s["rows"])
    machine.copy("load", MAIN, near, unit=dma, **tile)
    machine.copy("store", near, MAIN, unit=dma, **tile)

    @machine.instruction(core, into=near, **tile)
    def scale() -> Pattern:
        def body(_: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
            return scaled(x.to(i32), number("low"), number("high"))

        return block("rows lanes", near("x")["rows lanes"], body)

    @machine.instruction(core, into=near, **tile)
    def rectify() -> Pattern:
        return block("rows lanes", near("x")["rows lanes"], lambda _, x: x.max(number("least")))

    return machine


@composite("scaler.rectify")
def rectify() -> Pattern:
    return block("*i", wildcard("x", dtype=i8)["*i"], lambda _, x: x.max(number("least")))


@composite("scaler.scale")
def scale() -> Pattern:
    x = wildcard("x", dtype=i8)["*i"]
    return block("*i", x, lambda _, x: scaled(x.to(i64), -128, 127))


@pytest.mark.parametrize("least", [-128, 0, 5])
def test_a_clamp_that_never_acts_stays_where_the_instruction_has_it(least: int) -> None:
    """Bytes are rectified before: then the result is not below 0, and its lower end is not
    needed."""
    members = {"name": "scaler", "machine": scaler(), "patterns": (scale, rectify)}
    target = type("Scaler", (byocir.Target,), members)
    module = parse_module(f"""
    func.func @main(%x: tensor<16x16xi8>) -> tensor<16x16xi8> {{
      %e = tir.empty : tensor<16x16xi8>
      %r = tir.block [i: 16, j: 16] ins(%x[i, j] : tensor<16x16xi8>)
          outs(%e[i, j] : tensor<16x16xi8>) {{
      ^bb0(%a: i8, %old: i8):
        %least = arith.constant {least} : i8
        %0 = arith.maxsi %a, %least : i8
        tir.yield %0 : i8
      }}
      %y = tir.block [i: 16, j: 16] ins(%r[i, j] : tensor<16x16xi8>)
          outs(%e[i, j] : tensor<16x16xi8>) {{
      ^bb0(%a: i8, %old: i8):
        %factor = arith.constant 999 : i64
        %half = arith.constant 256 : i64
        %nine = arith.constant 9 : i64
        %low = arith.constant -128 : i64
        %high = arith.constant 127 : i64
        %0 = arith.extsi %a : i8 to i64
        %1 = arith.muli %0, %factor : i64
        %2 = arith.addi %1, %half : i64
        %3 = arith.shrsi %2, %nine : i64
        %4 = arith.maxsi %3, %low : i64
        %5 = arith.minsi %4, %high : i64
        %6 = arith.trunci %5 : i64 to i8
        tir.yield %6 : i8
      }}
      func.return %y : tensor<16x16xi8>
    }}""")
    feeds = random_feeds(module, 1)
    expected = evaluate(module, feeds)["res0"]
    package = byocir.compile(module, targets=[target()], levels=("tensor",))
    assert len(package.report.regions) == 1
    np.testing.assert_array_equal(package.run(feeds)["res0"], expected)


@pytest.mark.parametrize("body", ["arith.trunci %x : i32 to i8", "arith.trunci %e : i32 to i8"])
def test_what_has_both_ends_is_not_copied(body: str) -> None:
    """A copy that is left over would use the constants that the block reads."""
    module = parse_module(f"""
    func.func @main(%a: tensor<4xi32>) -> tensor<4xi8> {{
      %o = tir.empty : tensor<4xi8>
      %y = tir.block [i: 4] ins(%a[i] : tensor<4xi32>) outs(%o[i] : tensor<4xi8>) {{
      ^bb0(%x: i32, %old: i8):
        %l = arith.constant -5 : i32
        %h = arith.constant 5 : i32
        %d = arith.maxsi %x, %l : i32
        %e = arith.minsi %d, %h : i32
        %r = {body}
        tir.yield %r : i8
      }}
      func.return %y : tensor<4xi8>
    }}""")
    block_ = next(op for op in module.walk() if isinstance(op, BlockOp))
    made = with_both_ends(block_)
    assert (made is None) == ("%e" in body)
    assert len([*block_.operands[0].uses]) == 1 + (made is not None)

"""A machine whose core brings sums of products back as bytes into the memory of operands."""

from __future__ import annotations

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, wildcard

engine = Machine("narrowing")
dma, core = engine.unit("dma", queue=8), engine.unit("core", queue=2)
near = engine.memory("near", i8, row=(16,), rows=128)
sums = engine.memory("sums", i32, row=(16,), rows=256)
engine.order(Counted())
moved = {"rows": up_to(16), "lanes": up_to(64), "cycles": lambda s: 20 + s["rows"]}
engine.copy("load", MAIN, near, unit=dma, **moved)
engine.copy("store", near, MAIN, unit=dma, **moved)


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


def narrowed(_: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
    return (x >> 4).clamp(-128, 127).to(i8)


@engine.instruction(
    core, into=sums, cycles=lambda s: 4 + s["m"], m=up_to(16), n=up_to(16), k=up_to(16)
)
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return block("m n | k", a, w, multiply_add, init=sums("c")) | begun


@engine.instruction(core, into=near, cycles=lambda s: 4 + s["r"], r=up_to(16), c=up_to(16))
def narrow() -> Pattern:
    return block("r c", sums("x")["r c"], narrowed)


@composite("narrowing.layer")
def layer() -> Pattern:
    """A convolution, channels last, whose sums leave as bytes."""
    x = wildcard("x", dtype=i8)["n (h + r - ph) (w + s - pw) c"].padded(0)
    weights = wildcard("weights", dtype=i8)["r s c o"]
    y = block("n h w o | r s c", x, weights, multiply_add)
    return block("n h w o", y["n h w o"], narrowed)


class Engine(byocir.Target):
    name, machine, patterns = "narrowing", engine, (layer,)


def layer_text(at: int, x: str, side: int, channels: int, window: int) -> str:
    """A layer that keeps the sides of its image and has as many channels as it reads."""
    image, pad = f"1x{side}x{side}x{channels}", window // 2
    return f"""
      %z{at} = tir.fill 0 : i32 : tensor<{image}xi32>
      %s{at} = tir.block [n: 1, h: {side}, w: {side}, o: {channels} | r: {window}, s: {window},
            c: {channels}]
          ins({x}[n, h + r - {pad}, w + s - {pad}, c] pad 0 : i8 : tensor<{image}xi8>,
              %w{at}[r, s, c, o] : tensor<{window}x{window}x{channels}x{channels}xi8>)
          outs(%z{at}[n, h, w, o] : tensor<{image}xi32>) {{
      ^bb0(%p: i8, %q: i8, %acc: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }} loc("conv{at}")
      %e{at} = tir.empty : tensor<{image}xi8>
      %y{at} = tir.block [n: 1, h: {side}, w: {side}, o: {channels}]
          ins(%s{at}[n, h, w, o] : tensor<{image}xi32>)
          outs(%e{at}[n, h, w, o] : tensor<{image}xi8>) {{
      ^bb0(%p: i32, %q: i8):
        %four = arith.constant 4 : i32
        %low = arith.constant -128 : i32
        %high = arith.constant 127 : i32
        %0 = arith.shrsi %p, %four : i32
        %1 = arith.maxsi %0, %low : i32
        %2 = arith.minsi %1, %high : i32
        %3 = arith.trunci %2 : i32 to i8
        tir.yield %3 : i8
      }} loc("narrow{at}")"""


def two_layers(side: int, channels: int, first: int, second: int) -> str:
    """Two layers, with windows of these sides, one behind the other."""
    image = f"tensor<1x{side}x{side}x{channels}xi8>"
    weights = [f"tensor<{n}x{n}x{channels}x{channels}xi8>" for n in (first, second)]
    return f"""
    func.func @main(%x: {image}, %w0: {weights[0]}, %w1: {weights[1]}) -> {image} {{
      {layer_text(0, "%x", side, channels, first)}
      {layer_text(1, "%y0", side, channels, second)}
      func.return %y1 : {image}
    }}"""

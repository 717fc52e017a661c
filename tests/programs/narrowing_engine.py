"""A machine whose core brings sums of products back as bytes into the memory of operands, such that
set zeros around the images that they load, or that their windows read, and random programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, wildcard


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


def narrowed(_: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
    return (x >> 4).clamp(-128, 127).to(i8)


def added(_: ScalarPattern, x: ScalarPattern, y: ScalarPattern) -> ScalarPattern:
    return (x.to(i32) + y.to(i32)).clamp(-128, 127).to(i8)


def described(*, pads: bool, windows: bool = False) -> Machine:
    """The machine; its loads set zeros around images or move as they find it, and its core sums
    whole windows, with zeros around the image, or products."""
    engine = Machine("narrowing")
    dma, core = engine.unit("dma", queue=8), engine.unit("core", queue=2)
    near = engine.memory("near", i8, row=(16,), rows=128)
    sums = engine.memory("sums", i32, row=(16,), rows=256)
    engine.order(Counted())
    moved = {"rows": up_to(16), "lanes": up_to(64), "cycles": lambda s: 20 + s["rows"]}
    engine.copy("load", MAIN, near, unit=dma, **moved)
    engine.copy("store", near, MAIN, unit=dma, **moved)
    vectors = {"r": up_to(16), "c": up_to(16), "cycles": lambda s: 4 + s["r"]}

    sizes = {"n": up_to(16), "k": up_to(16)}

    @engine.instruction(core, into=sums, cycles=lambda s: 4 + s["m"], m=up_to(16), **sizes)
    def product() -> Pattern:
        a, w = near("a")["m k"], near("w")["k n"]
        begun = block("m n | k", a, w, multiply_add)
        return block("m n | k", a, w, multiply_add, init=sums("c")) | begun

    if windows:
        sizes |= {"y": up_to(3), "x": up_to(8), "r": up_to(3), "s": up_to(3)}
        points = {"cycles": lambda s: 4 + s["y"] * s["x"], "strided": ("a", "w", "out")}

        @engine.instruction(core, into=sums, **points, **sizes)
        def convolve() -> Pattern:
            a = near("a")["(y + r - top) (x + s - left) k"].padded(0)
            w = near("w")["r s k n"]
            begun = block("y x n | r s k", a, w, multiply_add)
            return block("y x n | r s k", a, w, multiply_add, init=sums("c")) | begun

    @engine.instruction(core, into=near, **vectors)
    def narrow() -> Pattern:
        return block("r c", sums("x")["r c"], narrowed)

    @engine.instruction(core, into=near, **vectors)
    def add() -> Pattern:
        return block("r c", near("x")["r c"], near("y")["r c"], added)

    if pads:

        @engine.instruction(
            dma, into=near, y=up_to(64), x=up_to(64), c=up_to(64), cycles=lambda s: 20 + s["y"]
        )
        def load_image() -> Pattern:
            image = wildcard("x", dtype=i8)["(y - top) (x - left) c"].padded(0)
            return block("y x c", image, lambda _, x: x)

        @engine.instruction(core, into=near, **vectors)
        def clear() -> Pattern:
            return block("r c", lambda _: 0)

    return engine


engines = {
    (pads, windows): described(pads=pads, windows=windows)
    for pads in (False, True)
    for windows in (False, True)
}


@composite("narrowing.layer")
def layer() -> Pattern:
    """A convolution, channels last, whose sums leave as bytes."""
    x = wildcard("x", dtype=i8)["n (h*sh + r - ph) (w*sw + s - pw) c"].padded(0)
    weights = wildcard("weights", dtype=i8)["r s c o"]
    y = block("n h w o | r s c", x, weights, multiply_add)
    return block("n h w o", y["n h w o"], narrowed)


@composite("narrowing.sum")
def total() -> Pattern:
    """A sum of two images of bytes."""
    x, y = (wildcard(name, dtype=i8)["n h w c"] for name in "xy")
    return block("n h w c", x, y, added)


@dataclass(frozen=True)
class Engine(byocir.Target):
    name, patterns = "narrowing", (layer, total)
    pads: bool = False
    windows: bool = False

    @property
    def machine(self) -> Machine:
        return engines[self.pads, self.windows]


def layer_text(at: int, x: str, side: int, channels: int, window: int, stride: int = 1) -> str:
    """A layer that keeps the sides of its image, but for a stride, and has as many channels as it
    reads."""
    given, pad, side = f"1x{side}x{side}x{channels}", window // 2, -(-side // stride)
    image, step = f"1x{side}x{side}x{channels}", f"{stride} * "
    return f"""
      %z{at} = tir.fill 0 : i32 : tensor<{image}xi32>
      %s{at} = tir.block [n: 1, h: {side}, w: {side}, o: {channels} | r: {window}, s: {window},
            c: {channels}]
          ins({x}[n, {step}h + r - {pad}, {step}w + s - {pad}, c] pad 0 : i8 : tensor<{given}xi8>,
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


def strided_layer(side: int, channels: int, window: int, stride: int) -> ModuleOp:
    """One layer with a stride."""
    wide, narrow = (f"tensor<1x{n}x{n}x{channels}xi8>" for n in (side, -(-side // stride)))
    weights = f"tensor<{window}x{window}x{channels}x{channels}xi8>"
    return parse_module(f"""
    func.func @main(%x: {wide}, %w0: {weights}) -> {narrow} {{
      {layer_text(0, "%x", side, channels, window, stride)}
      func.return %y0 : {narrow}
    }}""")


def sum_text(at: int, x: str, y: str, side: int, channels: int) -> str:
    """A sum of two images."""
    image = f"1x{side}x{side}x{channels}"
    reads = ", ".join(f"{each}[n, h, w, c] : tensor<{image}xi8>" for each in (x, y))
    return f"""
      %e{at} = tir.empty : tensor<{image}xi8>
      %y{at} = tir.block [n: 1, h: {side}, w: {side}, c: {channels}]
          ins({reads}) outs(%e{at}[n, h, w, c] : tensor<{image}xi8>) {{
      ^bb0(%p: i8, %q: i8, %old: i8):
        %low = arith.constant -128 : i32
        %high = arith.constant 127 : i32
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.addi %0, %1 : i32
        %3 = arith.maxsi %2, %low : i32
        %4 = arith.minsi %3, %high : i32
        %5 = arith.trunci %4 : i32 to i8
        tir.yield %5 : i8
      }} loc("sum{at}")"""


Step = tuple[int, int] | tuple[int, int, int]
"""A layer: the number of the image that it reads, and the side of its window. Or a sum: 0, and the
numbers of two images. Image 0 is given, and step n makes image n + 1."""


def net(side: int, channels: int, steps: Sequence[Step]) -> ModuleOp:
    """Layers and sums; all images that none of them reads are results."""
    image, names = f"tensor<1x{side}x{side}x{channels}xi8>", ["%x"]
    lines, given, used = list[str](), [f"%x: {image}"], set[int]()
    for at, step in enumerate(steps):
        if len(step) == 2:
            source, window = step
            given.append(f"%w{at}: tensor<{window}x{window}x{channels}x{channels}xi8>")
            lines.append(layer_text(at, names[source], side, channels, window))
            used.add(source)
        else:
            _, one, other = step
            lines.append(sum_text(at, names[one], names[other], side, channels))
            used |= {one, other}
        names.append(f"%y{at}")
    ends = [name for number, name in enumerate(names) if number and number not in used]
    types = ", ".join(image for _ in ends)
    return parse_module(f"""
    func.func @main({", ".join(given)}) -> ({types}) {{
      {"".join(lines)}
      func.return {", ".join(ends)} : {types}
    }}""")

"""Functions in the form that `vta-stage` leaves, as text: what the tests of the passes after it
start from. Every activation is memref<1 x C x H x W x 16 x i8>, with C in blocks of 16 channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.context import load_context
from byocir.dialects.tir import ConstantOp

Shape = tuple[int, int, int]
"""Blocks of channels, height, width."""


def memref(*shape: int, element: str = "i8", scope: str = "") -> str:
    space = f', "{scope}"' if scope else ""
    return f"memref<{'x'.join(map(str, shape))}x{element}{space}>"


def activation(shape: Shape) -> str:
    return memref(1, *shape, 16)


@dataclass
class Text:
    """Lines of a composite's body; index constants are made where they are first needed."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, line: str) -> None:
        self.lines.append(line)

    def fresh(self, line: str) -> str:
        self.count += 1
        self.add(f"%v{self.count} = {line}")
        return f"%v{self.count}"

    def index(self, number: int) -> str:
        return self.fresh(f"arith.constant {number} : index")

    def alloc(self, *shape: int, element: str = "i32", scope: str = "vta.acc") -> tuple[str, str]:
        type_ = memref(*shape, element=element, scope=scope)
        return self.fresh(f"tir.alloc : {type_}"), type_

    def tile_base(self, loop: str, tile: int, size: int) -> str:
        """min(loop * tile, size - tile)"""
        scaled = self.fresh(f"arith.muli {loop}, {self.index(tile)} : index")
        return self.fresh(f"arith.minsi {scaled}, {self.index(size - tile)} : index")

    def copy(
        self,
        source: tuple[str, str],
        target: tuple[str, str],
        sizes: Sequence[int],
        source_bases: Sequence[str] = (),
        target_bases: Sequence[str] = (),
        pad: str = "",
    ) -> None:
        at = [f"[{', '.join(bases)}]" if bases else "" for bases in (source_bases, target_bases)]
        self.add(
            f"tir.copy {source[0]}{at[0]} to {target[0]}{at[1]} sizes {list(sizes)} {pad} "
            f": {source[1]} to {target[1]}"
        )

    def alu(
        self,
        op: str,
        out: tuple[str, str],
        shape: Shape,
        source: tuple[str, str] | None = None,
        index: str = "n, c, h, w, l",
        number: int = 0,
        iterators: str = "",
        where: str = "",
    ) -> None:
        """`out = out <op> source` or, without a source, `out = out <op> number`."""
        c, h, w = shape
        ins = f"ins({source[0]}[{index}] : {source[1]}) " if source else ""
        self.add(f"tir.block [n: 1, c: {c}, h: {h}, w: {w}, l: 16{iterators}] {ins}")
        self.add(f"outs({out[0]}[n, c, h, w, l] : {out[1]}) {where} {{")
        self.add(f"^bb0({'%s: i32, ' if source else ''}%a: i32):")
        if source is None:
            self.add(f"  %s = arith.constant {number} : i32")
        self.add(f"  %r = arith.{op} %a, %s : i32")
        self.add("  tir.yield %r : i32")
        self.add("}")


@dataclass(frozen=True)
class Conv:
    """A convolution with bias and steps of the ALU, tiled over output channels, rows and input
    channels."""

    input: Shape
    channels: int
    kernel: tuple[int, int]
    stride: int
    pad: int
    dilation: int
    tile: tuple[int, int, int]
    """Blocks of output channels, rows, blocks of input channels; the last divides."""
    steps: tuple[tuple[str, int], ...]

    @property
    def output(self) -> Shape:
        _, h, w = self.input
        sizes = [
            (size + 2 * self.pad - (k - 1) * self.dilation - 1) // self.stride + 1
            for size, k in zip((h, w), self.kernel, strict=True)
        ]
        return self.channels, sizes[0], sizes[1]

    def constants(self) -> dict[str, tuple[str, Sequence[int]]]:
        return {
            "w": ("i8", (self.channels, self.input[0], *self.kernel, 16, 16)),
            "b": ("i32", (self.channels, 16)),
        }

    def body(self, t: Text) -> None:
        (ci, _, _), (co, oh, ow), (r, s) = self.input, self.output, self.kernel
        tco, th, tci = self.tile
        d, st = self.dilation, self.stride
        zero = t.index(0)
        t.add(f"tir.for %co = 0 to {-(-co // tco)} serial {{")
        co0 = t.tile_base("%co", tco, co)
        t.add(f"tir.for %h = 0 to {-(-oh // th)} serial {{")
        h0 = t.tile_base("%h", th, oh)
        acc = t.alloc(1, tco, th, ow, 16)
        t.add(f"tir.fill 0 : i32 into {acc[0]} : {acc[1]}")
        t.add(f"tir.for %ci = 0 to {ci // tci} serial {{")
        ci0 = t.fresh(f"arith.muli %ci, {t.index(tci)} : index")
        rows, columns = (th - 1) * st + (r - 1) * d + 1, (ow - 1) * st + (s - 1) * d + 1
        inp = t.alloc(1, tci, rows, columns, 16, element="i8", scope="vta.inp")
        scaled = t.fresh(f"arith.muli {h0}, {t.index(st)} : index")
        top = t.fresh(f"arith.subi {scaled}, {t.index(self.pad)} : index")
        left = t.index(-self.pad)
        source = ("%in", activation(self.input))
        box = (1, tci, rows, columns, 16)
        t.copy(source, inp, box, (zero, ci0, top, left, zero), pad="pad 0 : i8")
        wgt = t.alloc(tco, tci, r, s, 16, 16, element="i8", scope="vta.wgt")
        weights = ("%w", memref(co, ci, r, s, 16, 16))
        t.copy(weights, wgt, (tco, tci, r, s, 16, 16), (co0, ci0, zero, zero, zero, zero))
        self.contraction(t, inp, wgt, acc)
        t.add("}")
        bias = t.alloc(tco, 16)
        t.copy(("%b", memref(co, 16, element="i32")), bias, (tco, 16), (co0, zero))
        t.alu("addi", acc, (tco, th, ow), bias, "c, l")
        for op, number in self.steps:
            t.alu(op, acc, (tco, th, ow), number=number)
        target = ("%out", activation(self.output))
        t.copy(acc, target, (1, tco, th, ow, 16), (), (zero, co0, h0, zero, zero))
        t.add("}")
        t.add("}")

    def contraction(
        self, t: Text, inp: tuple[str, str], wgt: tuple[str, str], acc: tuple[str, str]
    ) -> None:
        """A tile's part of the sum, of what lies on the chip."""
        (tco, th, tci), (r, s), d, st = self.tile, self.kernel, self.dilation, self.stride
        t.add(f"tir.block [n: 1, o: {tco}, h: {th}, w: {self.output[2]}, ol: 16 |")
        t.add(f"c: {tci}, r: {r}, s: {s}, il: 16]")
        t.add(f"ins({inp[0]}[n, c, {st} * h + {d} * r, {st} * w + {d} * s, il] : {inp[1]},")
        t.add(f"{wgt[0]}[o, c, r, s, ol, il] : {wgt[1]})")
        t.add(f"outs({acc[0]}[n, o, h, w, ol] : {acc[1]}) {{")
        t.add("^bb0(%x: i8, %k: i8, %a: i32):")
        t.add("  %xe = arith.extsi %x : i8 to i32")
        t.add("  %ke = arith.extsi %k : i8 to i32")
        t.add("  %p = arith.muli %xe, %ke : i32")
        t.add("  %q = arith.addi %a, %p : i32")
        t.add("  tir.yield %q : i32")
        t.add("}")


@dataclass(frozen=True)
class Pool:
    """A maximum or sum over windows, tiled over blocks of channels; windows of a maximum are
    guarded, those of a sum read zeros outside."""

    input: Shape
    kernel: tuple[int, int]
    stride: int
    pad: int
    maximum: bool
    steps: tuple[tuple[str, int], ...]

    @property
    def output(self) -> Shape:
        c, h, w = self.input
        sizes = [
            (size + 2 * self.pad - k) // self.stride + 1
            for size, k in zip((h, w), self.kernel, strict=True)
        ]
        return c, sizes[0], sizes[1]

    def constants(self) -> dict[str, tuple[str, Sequence[int]]]:
        return {"p": ("i32", (*self.output[1:], 16))}

    def body(self, t: Text) -> None:
        (c, h, w), (_, oh, ow), (r, s) = self.input, self.output, self.kernel
        pad, st = self.pad, self.stride
        zero = t.index(0)
        source, target = ("%in", activation(self.input)), ("%out", activation(self.output))
        scale = t.alloc(oh, ow, 16)
        t.copy(("%p", memref(oh, ow, 16, element="i32")), scale, (oh, ow, 16))
        t.add(f"tir.for %c = 0 to {c} serial {{")
        edge = 0 if self.maximum else pad
        inp = t.alloc(1, 1, h + 2 * edge, w + 2 * edge, 16)
        corner = (zero, "%c", t.index(-edge), t.index(-edge), zero)
        t.copy(source, inp, (1, 1, h + 2 * edge, w + 2 * edge, 16), corner, pad="pad 0 : i8")
        acc = t.alloc(1, 1, oh, ow, 16)
        first = -(2**31) if self.maximum else 0
        t.add(f"tir.fill {first} : i32 into {acc[0]} : {acc[1]}")
        at = (f"{st} * h + r - {pad - edge}", f"{st} * w + s - {pad - edge}")
        where = ""
        if self.maximum and pad:
            low = ", ".join(f"{index} >= 0" for index in at)
            high = (f"{h + pad - 1} - {st} * h - r >= 0", f"{w + pad - 1} - {st} * w - s >= 0")
            where = f"where({low}, {', '.join(high)})"
        op = "maxsi" if self.maximum else "addi"
        index = f"n, c, {at[0]}, {at[1]}, l"
        t.alu(op, acc, (1, oh, ow), inp, index, iterators=f" | r: {r}, s: {s}", where=where)
        if not self.maximum:
            t.alu("muli", acc, (1, oh, ow), scale, "h, w, l")
        for step, number in self.steps:
            t.alu(step, acc, (1, oh, ow), number=number)
        t.copy(acc, target, (1, 1, oh, ow, 16), (), (zero, "%c", zero, zero, zero))
        t.add("}")


@dataclass(frozen=True)
class Residual:
    """The sum of two activations, each scaled, tiled over rows."""

    input: Shape
    rows: int
    scales: tuple[int, int]
    steps: tuple[tuple[str, int], ...]

    @property
    def output(self) -> Shape:
        return self.input

    def constants(self) -> dict[str, tuple[str, Sequence[int]]]:
        return {}

    def body(self, t: Text) -> None:
        c, h, w = self.input
        zero = t.index(0)
        t.add(f"tir.for %h = 0 to {-(-h // self.rows)} serial {{")
        h0 = t.tile_base("%h", self.rows, h)
        bases, box = (zero, zero, h0, zero, zero), (1, c, self.rows, w, 16)
        sides: list[tuple[str, str]] = []
        for name, scale in zip(("%in", "%side"), self.scales, strict=True):
            side = t.alloc(1, c, self.rows, w, 16)
            t.copy((name, activation(self.input)), side, box, bases)
            t.alu("muli", side, (c, self.rows, w), number=scale)
            sides.append(side)
        t.alu("addi", sides[0], (c, self.rows, w), sides[1])
        for op, number in self.steps:
            t.alu(op, sides[0], (c, self.rows, w), number=number)
        t.copy(sides[0], ("%out", activation(self.output)), box, (), bases)
        t.add("}")


Layer = Conv | Pool | Residual


def function(layers: Sequence[Layer]) -> str:
    """A module with the function @vta_0: each layer reads the one before it, and a residual the
    layer before that as well."""
    first, last = activation(layers[0].input), activation(layers[-1].output)
    attributes = '{byoc.target = #byoc.target<"vta", {}>}'
    lines = [f"func.func @vta_0(%arg: {first}, %res: {last}) attributes {attributes} {{"]
    values = [("%arg", first)]
    for i, layer in enumerate(layers):
        inputs = [("%in", *values[-1])]
        if isinstance(layer, Residual):
            same = [value for value in values[:-1] if value[1] == activation(layer.input)]
            inputs.append(("%side", *(same or values)[-1]))
        for name, (element, shape) in layer.constants().items():
            type_ = "x".join(map(str, (*shape, element)))
            constant = f"%{name}{i}"
            lines.append(f'{constant} = tir.constant <"{i}{name}" : tensor<{type_}>> : ')
            lines.append(f"memref<{type_}>")
            inputs.append((f"%{name}", constant, f"memref<{type_}>"))
        result = ("%res", last)
        if i + 1 < len(layers):
            result = (f"%t{i}", activation(layer.output))
            lines.append(f"{result[0]} = tir.alloc : {result[1]}")
        inputs.append(("%out", *result))
        arguments = ", ".join(f"{inner} = {outer} : {type_}" for inner, outer, type_ in inputs)
        text = Text()
        layer.body(text)
        kind = type(layer).__name__.lower()
        lines += [f'byoc.composite "vta.{kind}" at "graph" ({arguments}) {{', *text.lines]
        lines += ["byoc.yield", f'}} loc("{kind}_{i}")']
        values.append(result)
    return "\n".join([*lines, "func.return", "}"])


def parse(text: str, seed: int = 0, style: str = "random") -> ModuleOp:
    """The module of such a text, with values for its constants: random, or all of one sign's
    extreme ("low", "high")."""
    context = load_context()
    module = Parser(context, text).parse_module()
    rng = np.random.default_rng(seed)
    for op in module.walk():
        if isinstance(op, ConstantOp) and not op.value.data.present:
            array = op.value.data
            op.properties["value"] = ArrayAttr(Array.of(numbers(rng, array, style)))
    module.verify()
    return module


def numbers(rng: np.random.Generator, array: Array, style: str) -> np.ndarray:
    """Values for an array: int8 over its whole range, int32 around the sums of such products."""
    low, high = (-128, 127) if array.dtype == np.int8 else (-(2**17), 2**17)
    if style == "random":
        return rng.integers(low, high + 1, array.shape).astype(array.dtype)
    return np.full(array.shape, low if style == "low" else high, array.dtype)

"""A small machine for products of bytes, whose text tests change to see what is told then."""

import byocir
from byocir.dialects.types import f32, i8, i32
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, constant, optional, wildcard

Scalar = ScalarPattern

npu = Machine("npu")
dma, core = npu.unit("dma", queue=8), npu.unit("core", queue=2)
near = npu.memory("near", i8, row=(16,), rows=1024)
sums = npu.memory("sums", i32, row=(16,), rows=256)
npu.order(Counted())
runs = dict(unit=dma, rows=up_to(16), lanes=up_to(16), cycles=lambda s: 20 + s["rows"])
npu.copy("load", MAIN, near, **runs)
npu.copy("keep", near, MAIN, **runs)


def multiply_add(acc: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return acc + x.to(i32) * w.to(i32)


def scaled(_: Scalar, x: Scalar, s: Scalar) -> Scalar:
    return (x.to(f32) * s).roundeven().clamp(-128, 127).to(i8)


def rectified(_: Scalar, x: Scalar, s: Scalar) -> Scalar:
    return scaled(_, x.max(0), s)


@npu.instruction(
    core, into=sums, m=up_to(16), n=up_to(16), k=up_to(16), cycles=lambda s: 4 + s["m"]
)
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    added = block("m n | k", a, w, multiply_add, init=sums("c"))
    return added | block("m n | k", a, w, multiply_add)


@npu.instruction(into=sums, **runs)
def load_bias() -> Pattern:
    return block("rows lanes", wildcard("bias", dtype=i32)["lanes"], lambda _, x: x)


@npu.instruction(**runs)
def store() -> Pattern:
    x, scale = sums("x")["rows lanes"], wildcard("scale", dtype=f32)["lanes"]
    return block("rows lanes", x, scale, scaled)


@npu.instruction(**runs)
def store_relu() -> Pattern:
    x, scale = sums("x")["rows lanes"], wildcard("scale", dtype=f32)["lanes"]
    return block("rows lanes", x, scale, rectified)


@composite("npu.conv")
def conv() -> Pattern:
    """A convolution of bytes, channels last, with a bias, rectified and scaled."""
    x = wildcard("x", dtype=i8)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    y = block("n h w o | r s c", x, wildcard("w", dtype=i8)["r s c o"], multiply_add)
    bias = wildcard("bias", dtype=i32)["o"]
    y = optional(y, lambda v: block("*i o", v["*i o"], bias, lambda _, x, b: x + b))
    y = optional(y, lambda v: block("*i", v["*i"], lambda _, x: x.max(0)))
    return block("*i *o", y["*i *o"], constant("scale")["~o"], scaled)


class Npu(byocir.Target):
    name, machine, patterns = "npu", npu, (conv,)
    signed_bytes = channels_last = True
    fixed_point = "float_scale_last"

"""A described machine for nets of f32, transformers and convolutions: a unit that multiplies
matrices, and a vector unit that does one operation at a time, on one scratchpad.

Softmax, norms and GELU are patterns of what the model computes; no instruction does as much.
byocir splits them into instructions of the vector unit, and keeps what passes between these, and
between them and the products, on the chip.
"""

from collections.abc import Callable, Sequence
from math import inf

import byocir
from byocir.dialects.types import f32
from byocir.machine import MAIN, Interlocked, Machine, up_to
from byocir.patterns import Pattern, block, composite, constant, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar
from byocir.targets.base import Point

LANES, ROWS = 32, 256

npu = Machine("fnpu")
dma, products, vectors = (npu.unit(name, queue=8) for name in ("dma", "products", "vectors"))
near = npu.memory("near", f32, row=(LANES,), rows=8192, inside_rows=True)
npu.order(Interlocked((near,)))

runs = dict(unit=dma, rows=up_to(ROWS), lanes=up_to(LANES))
npu.copy("load", MAIN, near, cycles=lambda s: 30 + 4 * s["rows"], **runs)
npu.copy("store", near, MAIN, cycles=lambda s: 30 + 4 * s["rows"], **runs)


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x * w


@npu.instruction(
    products, into=near, m=up_to(128), n=up_to(LANES), k=up_to(LANES), strided=("a", "out"),
    cycles=lambda s: LANES + s["m"],
)  # fmt: skip
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return begun | block("m n | k", a, w, multiply_add, init=near("c"))


# The vector unit: an instruction for each operation, a vector of up to 32 lanes a cycle.

box = dict(into=near, i=up_to(ROWS), j=up_to(LANES), cycles=lambda s: 4 + s["i"])


def function(name: str) -> None:
    def apply() -> Pattern:
        return block("i j", near("x")["i j"], lambda _, x: x.unary(name))

    apply.__name__ = name
    npu.instruction(vectors, strided=("x", "out"), **box)(apply)


def operator(name: str) -> None:
    """An operation of two vectors, of vectors with one or with a number for each, or with one
    number for all."""

    def with_vectors() -> Pattern:
        x, others = near("x")["i j"], (near("y")[index] for index in ("i j", "j", "i"))
        own, one, each = (block("i j", x, y, lambda _, x, y: x.binary(name, y)) for y in others)
        return own | one | each

    def with_number() -> Pattern:
        return block("i j", near("x")["i j"], lambda _, x: x.binary(name, number("imm")))

    with_vectors.__name__, with_number.__name__ = name, f"{name}_number"
    npu.instruction(vectors, strided=("x", "y", "out"), **box)(with_vectors)
    npu.instruction(vectors, strided=("x", "out"), **box)(with_number)


def reduction(name: str, first: float) -> None:
    """The sum, or the greatest, of the lanes of each vector, and of a number that was there."""

    def reduce() -> Pattern:
        x, body = near("x")["i j"], lambda old, x: old.binary(name, x)
        return block("i | j", x, body, init=near("old")) | block("i | j", x, body, init=first)

    reduce.__name__ = f"reduce_{name}"
    npu.instruction(vectors, strided=("x",), **(box | dict(i=up_to(LANES))))(reduce)


@npu.instruction(vectors, strided=("x", "y", "out"), **box)
def multiplied() -> Pattern:
    """Products of vectors with vectors, or with one, added to what was there."""
    x, (own, one) = near("x")["(i*step) j"], (near("y")[index] for index in ("i j", "j"))
    with_own, with_one = (block("i j", x, y, multiply_add, init=near("c")) for y in (own, one))
    return with_own | with_one


@npu.instruction(vectors, strided=("out",), **box)
def clear() -> Pattern:
    return block("i j", lambda _: 0.0)


for each in ("exp", "erf", "sqrt"):
    function(each)
for each in ("add", "sub", "mul", "div", "max", "min"):
    operator(each)
reduction("add", 0.0)
reduction("max", -inf)


# What it takes.


def each(y: Pattern, body: Callable[[Scalar], Scalar]) -> Pattern:
    return block("*i", y["*i"], lambda _, x: body(x))


def with_bias(y: Pattern) -> Pattern:
    bias = wildcard("bias", dtype=f32)["n"]
    return optional(y, lambda v: block("*i n", v["*i n"], bias, lambda _, x, b: x + b))


def rectified(y: Pattern) -> Pattern:
    bounded = optional(y, lambda v: each(v, lambda x: x.clamp(0.0, number("most"))))
    return bounded | each(y, lambda x: x.max(0.0))


@composite("fnpu.matmul")
def matmul() -> Pattern:
    """Products of matrices, with a bias, scaled, behind GELU or rectified."""
    a, b = wildcard("a", dtype=f32)["*b m k"], wildcard("b", dtype=f32)["~b k n"]
    y, scale = with_bias(block("*b m n | k", a, b, multiply_add)), constant("scale", dtype=f32)[""]
    y = optional(y, lambda v: block("*i", v["*i"], scale, lambda _, x, s: x / s))
    y = optional(y, lambda v: each(v, lambda x: x * 0.5 * ((x * number("half_root")).erf() + 1.0)))
    return rectified(y)


@composite("fnpu.conv")
def conv() -> Pattern:
    """A convolution, channels last, with a bias, rectified."""
    x = wildcard("x", dtype=f32)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = wildcard("weights", dtype=f32)["r s c o"]
    return rectified(with_bias(block("n h w o | r s c", x, weights, multiply_add)))


@composite("fnpu.depthwise")
def depthwise() -> Pattern:
    """A convolution of each channel by itself, channels last, with a bias, rectified."""
    x = wildcard("x", dtype=f32)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = wildcard("weights", dtype=f32)["r s c"]
    return rectified(with_bias(block("n h w c | r s", x, weights, multiply_add)))


@composite("fnpu.softmax")
def softmax() -> Pattern:
    """Powers of e, over their sum."""
    x = wildcard("x", dtype=f32)["*i k"]
    most = block("*i | k", x, lambda old, x: old.max(x), init=-inf)
    powers = block("*i k", x, most["*i"], lambda _, x, m: (x - m).exp())
    total = block("*i | k", powers["*i k"], lambda old, x: old + x)
    return block("*i k", powers["*i k"], total["*i"], lambda _, x, s: x / s)


@composite("fnpu.layer_norm")
def layer_norm() -> Pattern:
    """Vectors with mean 0 and variance 1, scaled, and moved or not."""
    x, rows = wildcard("x", dtype=f32)["*i c"], "*i"
    gain, offset = (constant(name, dtype=f32)["c"] for name in ("gain", "offset"))
    mean = each(block("*i | c", x, lambda old, x: old + x), lambda x: x / number("size"))
    squares = block("*i | c", x, mean[rows], lambda old, x, m: old + (x - m) * (x - m))
    variance = each(squares, lambda x: x / number("size"))

    def scaled(_: Scalar, x: Scalar, m: Scalar, v: Scalar, g: Scalar) -> Scalar:
        return (x - m) / (v + number("epsilon")).sqrt() * g

    def moved(_: Scalar, x: Scalar, m: Scalar, v: Scalar, g: Scalar, o: Scalar) -> Scalar:
        return scaled(_, x, m, v, g) + o

    reads = x, mean[rows], variance[rows], gain
    return block("*i c", *reads, offset, moved) | block("*i c", *reads, scaled)


@composite("fnpu.add")
def add() -> Pattern:
    """A residual sum, rectified."""
    x, y = wildcard("x", dtype=f32), wildcard("y", dtype=f32)
    return rectified(block("*i", x["*i"], y["*i"], lambda _, x, y: x + y))


class FloatNpu(byocir.Target):
    name, machine, patterns = "fnpu", npu, (matmul, conv, depthwise, softmax, layer_norm, add)
    split_groups = 1
    channels_last = reassociates = True  # it adds products in the order that suits its tiles

    def passes(self, point: Point) -> Sequence[str]:
        """Normalisations become part of the convolutions in front of them."""
        return ["fold-batch-norm"] if point == "before-match" else []

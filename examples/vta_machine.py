"""VTA, described: products of vectors of 16 with blocks of 16 by 16, and an ALU that does one
operation at a time on accumulators, in place.

The built-in target `vta` goes its own way down to the same machine; this one is all that the
machine-independent passes need to know of it. Costs are those of the published Chisel design, as
`byocir.vta_sim` counts them. Hooks say which of VTA's instructions calls are; from these a package
has the words that VTA runs.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_

from xdsl.ir import Attribute

import byocir
from byocir.dialects.tir.bodies import round_even
from byocir.dialects.types import i8, i16, i32, i64, width_of
from byocir.lowering.tir_to_vta import described as words
from byocir.machine import MAIN, Machine, Tokens, Transfer, exactly, multiples_of, up_to
from byocir.patterns import Match, Pattern, block, composite, constant, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar
from byocir.targets.vta_emit import files_of_steps

LANES, MOST, DIAGONALS = 16, 1 << 14, 64
FIRST_DIAGONAL = 1024 - DIAGONALS
FILL, REQUEST, BUS, BURST = 7, 24, 8, 7

vta = Machine("vta16")
load, compute, store = (vta.unit(name, queue=512) for name in ("load", "compute", "store"))
inp = vta.memory("inp", i8, row=(LANES,), rows=2048)
wgt = vta.memory("wgt", i8, row=(LANES, LANES), rows=FIRST_DIAGONAL)
diagonals = vta.memory("diagonals", i8, row=(LANES,), rows=DIAGONALS)
acc = vta.memory("acc", i32, row=(LANES,), rows=2048)
read = vta.channel("read")
asked_first, asked_last = Transfer(read, lead=REQUEST), Transfer(read, lead=REQUEST, rank=1)
vta.order(Tokens(((load, compute), (compute, load), (compute, store), (store, compute)), 255))
vta.assemble = files_of_steps

Sizes = Mapping[str, int]
lanes, vectors = multiples_of(LANES, MOST), dict(rows=up_to(MOST), lanes=exactly(LANES))
boxes = dict(i=up_to(MOST), j=up_to(MOST))


def steps(s: Sizes) -> int:
    """The vectors, or blocks of weights, that an instruction goes through."""
    blocks = -(-s.get("n", LANES) // LANES) * -(-s.get("k", LANES) // LANES)
    inner = s.get("r", 1) * s.get("s", 1) * -(-s.get("lanes", LANES) // LANES)
    return s.get("i", 1) * s.get("j", 1) * blocks * inner


def loads(bytes: int):
    return lambda s: REQUEST + s["rows"] * -(-bytes * s["lanes"] // BUS)


to_inp = dict(unit=load, transfer=asked_first, encode=words.load("inp"), **vectors)
to_acc = dict(unit=compute, transfer=asked_last, encode=words.load("acc"), **vectors)
vta.copy("load_inp", MAIN, inp, cycles=loads(1), **to_inp)
vta.copy("load_acc", MAIN, acc, cycles=loads(4), **to_acc)


@vta.instruction(
    load, into=wgt, rows=up_to(MOST), k=lanes, n=lanes, encode=words.load("wgt"),
    transfer=asked_first,
    cycles=lambda s: REQUEST + s["rows"] * s["k"] * s["n"] // BUS,
)  # fmt: skip
def load_wgt() -> Pattern:
    """Blocks of weights, which the host has packed in the order in which they are loaded."""
    return block("rows k n", wildcard("x", dtype=i8)["rows k n"], lambda _, x: x)


@vta.instruction(
    load, into=diagonals, rows=up_to(DIAGONALS), lanes=exactly(LANES),
    encode=words.load("wgt", FIRST_DIAGONAL), transfer=asked_first,
    cycles=lambda s: REQUEST + s["rows"] * LANES * LANES // BUS,
)  # fmt: skip
def load_diagonals() -> Pattern:
    """Blocks of weights that are 0 but on their diagonal, as which the host packs vectors."""
    return block("rows lanes", wildcard("x", dtype=i8)["rows lanes"], lambda _, x: x)


@vta.instruction(
    compute, into=acc, cycles=loads(1), encode=words.load("acc8"), transfer=asked_last, **vectors
)  # fmt: skip
def load_acc8() -> Pattern:
    return block("rows lanes", wildcard("x", dtype=i8)["rows lanes"], lambda _, x: x.to(i32))


@vta.instruction(
    store, cycles=lambda s: s["rows"] * (3 + BURST), encode=words.store, **vectors
)  # fmt: skip
def store_out() -> Pattern:
    return block("rows lanes", acc("x")["rows lanes"], lambda _, x: x.to(i8))


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x.to(i32) * w.to(i32)


@vta.instruction(
    compute, into=acc, **boxes, n=lanes, k=lanes, r=up_to(64), s=up_to(64), encode=words.gemm(),
    strided=("a", "w", "out"), cycles=lambda s: FILL + steps(s),
)  # fmt: skip
def gemm() -> Pattern:
    """Products of blocks of weights with vectors of their own, or with one vector for all."""
    own, of_windows = inp("a")["(i*sh + r*dh) (j*sw + s*dw) k"], wgt("w")["r s k n"]
    each = block("i j n | r s k", own, of_windows, multiply_add, init=acc("c"))
    one, weights = inp("a")["k"], wgt("w")["k n"]
    return each | block("i j n | k", one, weights, multiply_add, init=acc("c"))


@vta.instruction(
    compute, into=acc, **boxes, lanes=exactly(LANES), r=up_to(64), s=up_to(64),
    encode=words.gemm(FIRST_DIAGONAL),
    strided=("x", "w", "out"), cycles=lambda s: FILL + steps(s),
)  # fmt: skip
def gemm_diagonal() -> Pattern:
    """Products with blocks of weights that are 0 but on their diagonals: each lane times a number,
    the same for all vectors or one for each point of a window."""
    one, factors = inp("x")["i j lanes"], diagonals("w")["lanes"]
    own, of_windows = inp("x")["(i*sh + r*dh) (j*sw + s*dw) lanes"], diagonals("w")["r s lanes"]
    each = block("i j lanes", one, factors, multiply_add, init=acc("c"))
    return each | block("i j lanes | r s", own, of_windows, multiply_add, init=acc("c"))


@vta.instruction(
    compute, into=acc, **boxes, lanes=lanes, strided=("out",), cycles=lambda s: FILL + steps(s),
    encode=words.reset,
)  # fmt: skip
def reset() -> Pattern:
    return block("i j lanes", lambda _: 0)


def alu(name: str, least: int = -(1 << 15), most: int = (1 << 15) - 1) -> None:
    """An operation with a number, and one with vectors of its own or one vector for all."""
    box = dict(into=acc, **boxes, lanes=lanes, encode=words.alu(name))

    def with_number() -> Pattern:
        return block("i j lanes", lambda x: x.binary(name, number("imm")), init=acc("x"))

    def with_vectors() -> Pattern:
        own, one = (
            block("i j lanes", acc("y")[index], lambda x, y: x.binary(name, y), init=acc("x"))
            for index in ("(i*ih) (j*jw) lanes", "lanes")
        )
        return own | one

    with_number.__name__, with_vectors.__name__ = f"{name}_number", f"{name}_vectors"
    cycles = dict(cycles=lambda s: FILL + steps(s), strided=("out",))
    made = vta.instruction(compute, **box, **cycles)(with_number)

    @made.rule
    def immediates_have_16_bits(m: Match) -> tuple[bool, int]:
        """The number fits the instruction."""
        return least <= m["imm"] <= most, m["imm"]

    cycles = dict(cycles=lambda s: FILL + 2 * steps(s), strided=("y", "out"))
    vta.instruction(compute, **box, **cycles)(with_vectors)


for name in ("add", "mul", "max", "min"):
    alu(name)
alu("shr", 0, 31)


# What it takes: products and convolutions with all that leads back to bytes, residual sums, pools.


def each(y: Pattern, body: Callable[[Scalar], Scalar]) -> Pattern:
    return block("*i", y["*i"], lambda _, x: body(x))


def scaled(y: Pattern, name: str, body: Callable[[Scalar], Scalar], to: Attribute) -> Pattern:
    """Integers times a factor, exact, and what is done with them; clamped to a type."""
    factor, most = constant(name, dtype=i32)["~i"], (1 << width_of(to) - 1) - 1

    def clamped(_: Scalar, x: Scalar, m: Scalar) -> Scalar:
        return body(x.to(i64) * m.to(i64)).clamp(-1 - most, most).to(to)

    return block("*i", y["*i"], factor, clamped)


def requantised(y: Pattern, name: str = "sums") -> Pattern:
    """Sums with a bias, rectified, as bytes, rectified. They are rounded down, half up, with what
    a zero point adds, or half to even; those that a factor leaves whole get a zero point alone."""
    bias = constant(f"{name}_bias", dtype=i32)["~i"]
    y = optional(y, lambda v: block("*i", v["*i"], bias, lambda _, x, b: x + b))
    y = optional(y, lambda v: each(v, lambda x: x.max(0)))
    shift, half, zero = (number(f"{name}_{of}") for of in ("shift", "half", "zero"))
    ways = (
        lambda x: x >> shift,
        lambda x: (x + half) >> shift,
        lambda x: round_even(x, half, shift),
        lambda x: round_even(x, half, shift) + zero,
        lambda x: x + zero,
    )
    y = reduce(or_, (scaled(y, f"{name}_factor", way, i8) for way in ways))
    return optional(y, lambda v: each(v, lambda x: x.max(0)))


def term(y: Pattern, name: str) -> Pattern:
    """Bytes as they are or times a factor, and then plus what a zero point adds, or rounds."""
    zero = number(f"{name}_added")
    bare = scaled(y, name, lambda x: x, i32) | scaled(y, name, lambda x: x + zero, i32)
    return bare | each(y, lambda x: x.to(i32)) | each(y, lambda x: x.to(i32) + zero)


def joined(y: Pattern) -> Pattern:
    """A sum or product of terms: bytes and others, or bytes and constants."""
    others = term(byte("other"), "y_factor")["*i"], constant("constants", dtype=i32)["~i"]
    ways = (lambda _, x, y: x + y), (lambda _, x, y: x * y)
    x = term(y, "x_factor")["*i"]
    return reduce(or_, (block("*i", x, other, way) for other in others for way in ways))


def leaky(y: Pattern) -> Pattern:
    """A term times a factor, and what of it is less than 0 times another one."""
    x = term(y, "x_factor")
    below, of = each(x, lambda x: x.min(0)), (lambda _, x, f: x * f)
    factors = (constant(name, dtype=i32)["~i"] for name in ("whole", "below"))
    products = (block("*i", y["*i"], f, of)["*i"] for y, f in zip((x, below), factors, strict=True))
    return block("*i", *products, lambda _, x, y: x + y)


def byte(name: str) -> Pattern:
    return wildcard(name, dtype=i8)


def known(name: str) -> Pattern:
    """Weights of bytes, or of bytes less a zero point, each a sum of bytes."""
    return constant(name, dtype=i8) | constant(name, dtype=i16)


@composite("vta16.conv")
def conv() -> Pattern:
    """A convolution of bytes, channels last, requantised."""
    window = byte("x")["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = known("weights")["r s c o"]
    return requantised(block("n h w o | r s c", window, weights, multiply_add))


@composite("vta16.conv_join")
def conv_join() -> Pattern:
    """A convolution, channels last, and a residual sum, or a product, of its result."""
    return requantised(joined(conv.patterns[0]), "total")


@composite("vta16.depthwise")
def depthwise() -> Pattern:
    """A convolution of bytes, channels last, each of which is summed by itself, requantised."""
    window = byte("x")["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = known("weights")["r s c"]
    return requantised(block("n h w c | r s", window, weights, multiply_add))


@composite("vta16.matmul")
def matmul() -> Pattern:
    """Products of matrices of bytes, each with one of its own or all with one, requantised. Words
    need constant ones, which are packed as blocks of weights."""
    a, others = byte("a")["*b m k"], (known("b"), byte("b"))
    products = (block("*b m n | k", a, b["~b k n"], multiply_add) for b in others)
    return requantised(reduce(or_, products))


@composite("vta16.elementwise")
def elementwise() -> Pattern:
    """A sum or product of bytes, a leaky relu, or bytes by themselves, requantised."""
    x = byte("x")
    return requantised(joined(x) | leaky(x) | term(x, "x_factor"), "total")


def greatest(y: Pattern) -> Pattern:
    window = y["n (h*down + r*apart - top) (w*right + s*aside - left) c"].padded(-128)
    return block("n h w c | r s", window, lambda y, x: y.max(x), init=-128)


@composite("vta16.conv_pool")
def conv_pool() -> Pattern:
    """The greatest bytes in windows of a convolution's result, channels last."""
    return greatest(conv.patterns[0])


@composite("vta16.max_pool")
def max_pool() -> Pattern:
    """The greatest bytes in windows of an image, channels last."""
    return greatest(byte("x"))


@composite("vta16.average_pool")
def average_pool() -> Pattern:
    """Sums of bytes in windows of an image, channels last, requantised."""
    window = byte("x")["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    return requantised(block("n h w c | r s", window, lambda y, x: y + x.to(i32)))


class Vta16(byocir.Target):
    name, machine = "vta16", vta
    patterns = (conv_pool, conv_join, conv, depthwise, matmul, elementwise, max_pool, average_pool)
    channels_last = signed_bytes = True
    channel_multiple = split_groups = LANES
    fixed_point = "floor"

"""VTA, described: products of vectors of 16 with blocks of 16 by 16, and an ALU that does one
operation at a time on accumulators, in place.

The built-in target `vta` goes its own way down to the same machine; this one is all that the
machine-independent passes need to know of it. Costs are those of the published Chisel design, as
`byocir.vta_sim` counts them.
"""

from collections.abc import Callable, Mapping

import byocir
from byocir.dialects.types import i8, i32, i64
from byocir.machine import MAIN, Machine, Tokens, multiples_of, up_to
from byocir.patterns import Match, Pattern, block, composite, constant, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar

LANES, MOST = 16, 1 << 14
FILL, REQUEST, BUS, BURST = 7, 24, 8, 7

vta = Machine("vta16")
load, compute, store = (vta.unit(name, queue=512) for name in ("load", "compute", "store"))
inp = vta.memory("inp", i8, row=(LANES,), rows=2048)
wgt = vta.memory("wgt", i8, row=(LANES, LANES), rows=1024)
acc = vta.memory("acc", i32, row=(LANES,), rows=2048)
vta.order(Tokens(((load, compute), (compute, load), (compute, store), (store, compute)), 255))

Sizes = Mapping[str, int]
lanes = multiples_of(LANES, MOST)


def steps(s: Sizes) -> int:
    """The vectors, or blocks of weights, that an instruction goes through."""
    blocks = -(-s.get("n", LANES) // LANES) * -(-s.get("k", LANES) // LANES)
    inner = s.get("r", 1) * s.get("s", 1) * -(-s.get("lanes", LANES) // LANES)
    return s.get("i", 1) * s.get("j", 1) * blocks * inner


def loads(bytes: int):
    return lambda s: REQUEST + s["rows"] * -(-bytes * s["lanes"] // BUS)


vta.copy("load_inp", MAIN, inp, unit=load, rows=up_to(MOST), lanes=lanes, cycles=loads(1))
vta.copy("load_acc", MAIN, acc, unit=compute, rows=up_to(MOST), lanes=lanes, cycles=loads(4))


@vta.instruction(
    load, into=wgt, rows=up_to(MOST), k=lanes, n=lanes,
    cycles=lambda s: REQUEST + s["rows"] * s["k"] * s["n"] // BUS,
)  # fmt: skip
def load_wgt() -> Pattern:
    return block("rows k n", wildcard("x")["rows k n"], lambda _, x: x)


@vta.instruction(compute, into=acc, rows=up_to(MOST), lanes=lanes, cycles=loads(1))
def load_acc8() -> Pattern:
    return block("rows lanes", wildcard("x", dtype=i8)["rows lanes"], lambda _, x: x.to(i32))


@vta.instruction(
    store, rows=up_to(MOST), lanes=lanes,
    cycles=lambda s: s["rows"] * s["lanes"] // LANES * 3 + s["rows"] * BURST,
)  # fmt: skip
def store_out() -> Pattern:
    return block("rows lanes", acc("x")["rows lanes"], lambda _, x: x.to(i8))


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x.to(i32) * w.to(i32)


boxes = dict(i=up_to(MOST), j=up_to(MOST))


@vta.instruction(
    compute, into=acc, **boxes, n=lanes, k=lanes, r=up_to(64), s=up_to(64),
    strided=("a", "w", "out"), cycles=lambda s: FILL + steps(s),
)  # fmt: skip
def gemm() -> Pattern:
    a, w = inp("a")["(i*sh + r*dh) (j*sw + s*dw) k"], wgt("w")["r s k n"]
    return block("i j n | r s k", a, w, multiply_add, init=acc("c"))


@vta.instruction(
    compute, into=acc, **boxes, lanes=lanes, strided=("out",), cycles=lambda s: FILL + steps(s)
)
def reset() -> Pattern:
    return block("i j lanes", lambda _: 0)


def alu(name: str, least: int = -(1 << 15), most: int = (1 << 15) - 1) -> None:
    """An operation with a number, and one with vectors of its own or one vector for all."""
    box = dict(into=acc, **boxes, lanes=lanes, strided=("x", "y", "out"))

    def with_number() -> Pattern:
        return block("i j lanes", lambda x: x.binary(name, number("imm")), init=acc("x"))

    def with_vectors() -> Pattern:
        each, one = acc("y")["i j lanes"], acc("y")["lanes"]
        apply = lambda x, y: x.binary(name, y)  # noqa: E731
        return block("i j lanes", each, apply, init=acc("x")) | block(
            "i j lanes", one, apply, init=acc("x")
        )

    with_number.__name__, with_vectors.__name__ = f"{name}_number", f"{name}_vectors"
    made = vta.instruction(compute, **box, cycles=lambda s: FILL + steps(s))(with_number)

    @made.rule
    def immediates_have_16_bits(m: Match) -> tuple[bool, int]:
        """The number fits the instruction."""
        return least <= m["imm"] <= most, m["imm"]

    vta.instruction(compute, **box, cycles=lambda s: FILL + 2 * steps(s))(with_vectors)


for name in ("add", "mul", "max", "min"):
    alu(name)
alu("shr", 0, 31)


# What it takes: products and convolutions with all that leads back to bytes, sums and maxima.


def each(y: Pattern, body: Callable[[Scalar], Scalar]) -> Pattern:
    return block("*i", y["*i"], lambda _, x: body(x))


def requantised(y: Pattern) -> Pattern:
    """Integers times a factor, shifted and clamped to bytes, rectified or clipped."""
    zero, low, high, factor = (
        number("zero"),
        number("low"),
        number("high"),
        constant("factor", dtype=i32),
    )

    def scaled(_: Scalar, x: Scalar, m: Scalar) -> Scalar:
        return x.to(i64) * m.to(i64) >> number("shift")

    def narrow(whole: Callable[..., Scalar]) -> Pattern:
        return block(
            "*i", y["*i"], factor["~i"], lambda _, x, m: whole(_, x, m).clamp(-128, 127).to(i8)
        )

    made = narrow(scaled) | narrow(lambda *x: scaled(*x) + zero)
    return optional(
        made, lambda v: each(v, lambda x: x.max(low)) | each(v, lambda x: x.clamp(low, high))
    )


def biased(y: Pattern) -> Pattern:
    bias = wildcard("bias", dtype=i32)["~i"]
    y = optional(y, lambda v: block("*i", v["*i"], bias, lambda _, x, b: x + b))
    return requantised(optional(y, lambda v: each(v, lambda x: x.max(0))))


@composite("vta16.conv")
def conv() -> Pattern:
    """A convolution of bytes, channels last, requantised."""
    x = wildcard("x", dtype=i8)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    return biased(
        block("n h w o | r s c", x, wildcard("weights", dtype=i8)["r s c o"], multiply_add)
    )


@composite("vta16.matmul")
def matmul() -> Pattern:
    """A product of matrices of bytes, requantised."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return biased(block("m n | k", a, b, multiply_add))


class Vta16(byocir.Target):
    name, machine, patterns = "vta16", vta, (conv, matmul)
    channels_last = signed_bytes = True
    fixed_point = "floor"

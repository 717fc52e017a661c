"""Gemmini (default configuration), described: a systolic array of 16 by 16 with a scratchpad and an
accumulator, down to the words of its RoCC instructions.

Products of matrices and convolutions of bytes begin with a bias and leave as sums of 32 bits, or
scaled by an f32 to bytes; weights of nine bits are sums of bytes; residual sums are scaled as they
come in. The hardware holds back what touches the same rows. A word is (funct, rs1, rs2). Array n is
at host address (n + 1) << 32.
"""

from pathlib import Path
from struct import pack, unpack

import byocir
from byocir.dialects.types import f32, i8, i16, i32
from byocir.machine import MAIN, Call, Interlocked, Machine, Place, Register, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, constant, optional, wildcard
from byocir.patterns.policy import Quantisation

DIM = 16
CONFIG, MVIN, MVOUT, COMPUTE, COMPUTE_AGAIN, PRELOAD, FENCE = 0, 2, 3, 4, 5, 6, -1
ACCUMULATOR, ADD, WIDE = 1 << 31, 1 << 30, 1 << 29
NONE, ONE = DIM << 48 | DIM << 32 | 0xFFFFFFFF, 0x3F800000

gemmini = Machine("gemmini", in_columns=True)
load, store = gemmini.unit("load", queue=8), gemmini.unit("store", queue=4)
execute = gemmini.unit("execute", queue=16)
scratchpad = gemmini.memory("sp", i8, row=(DIM,), rows=16384, banks=4)
accumulator = gemmini.memory("acc", i32, row=(DIM,), rows=1024, banks=2)
gemmini.order(Interlocked((scratchpad, accumulator)))
gemmini.issue = Path(__file__).with_name("gemmini_issue.h").read_text()

Word, Scalar = tuple[int, int, int], ScalarPattern


def local(place: Place, rows: int, columns: int, flags: int = 0) -> int:
    return rows << 48 | columns << 32 | flags | place.address


loads = Register("loads", load, lambda v: [(CONFIG, v[0] | 1 << 8 | 1, v[1])])
stores = Register("stores", store, lambda v: [(CONFIG, v[0] | 2, v[1])])
strides = Register("strides", execute, lambda v: [(CONFIG, v[0] | ONE << 32 | 1 << 2, v[1])])


def move(call: Call) -> list[Word]:
    """A move after a fence where it waits for main memory, which the hardware does not watch."""
    x, into = call.places["x"], call.result
    inside, outside, funct = (x, into, MVOUT) if into.memory == MAIN else (into, x, MVIN)
    flags = ACCUMULATOR if inside.memory == accumulator else 0
    flags |= ADD if into in call.read else WIDE if into.memory == MAIN and into.bytes == 4 else 0
    at = (outside.array + 1 << 32) + outside.address * outside.bytes
    words = [(funct, at, local(inside, call.sizes["rows"], call.sizes["lanes"], flags))]
    return [(FENCE, 0, 0), *words] if call.waits else words


def moved(call: Call) -> dict[Register, tuple[int, int]]:
    x, into, scale = call.places["x"], call.result, call.places.get("scale")
    bits = unpack("<I", pack("<f", scale.values()))[0] if scale else ONE
    if into.memory == MAIN:
        return {stores: (call.form << 2, bits << 32 | into.stride("rows") * into.bytes)}
    fields = bits << 32 | into.stride("lanes", DIM) << 16 | (into.bytes > x.bytes) << 2
    return {loads: (fields, x.stride("rows") * x.bytes)}


def product_words(call: Call) -> list[Word]:
    m, n, k = (call.sizes[name] for name in "mnk")
    flags = ACCUMULATOR | (ADD if call.start is None else 0)
    rows, sums = local(call.places["a"], m, k), local(call.result, m, n, flags)
    if call.is_kept:
        return [(PRELOAD, NONE, sums), (COMPUTE_AGAIN, rows, NONE)]
    return [(PRELOAD, local(call.places["w"], k, n), sums), (COMPUTE, rows, NONE)]


def scaled(_: Scalar, x: Scalar, scale: Scalar) -> Scalar:
    return (x.to(f32) * scale).roundeven().clamp(-128, 127).to(i8)


def multiply_add(acc: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return acc + x.to(i32) * w.to(i32)


x, factor, runs = wildcard("x"), wildcard("scale")[""], "rows lanes"
incoming = dict(unit=load, encode=move, registers=moved, rows=up_to(DIM))
outgoing = dict(unit=store, encode=move, registers=moved, rows=up_to(DIM), lanes=up_to(DIM))
summing = dict(into=accumulator, **incoming)
wide = dict(lanes=up_to(4 * DIM), cycles=lambda s: 40 + s["rows"] * -(-s["lanes"] // DIM))
gemmini.copy("mvin", MAIN, scratchpad, **incoming, **wide)
gemmini.copy("mvout", accumulator, MAIN, **outgoing, cycles=lambda s: 10 + 4 * s["rows"])


@gemmini.instruction(**summing, lanes=up_to(DIM), cycles=lambda s: 40 + s["rows"])
def mvin_bias() -> Pattern:
    return block(runs, x["lanes"], lambda _, x: x)


@gemmini.instruction(**summing, **wide)
def mvin_sums() -> Pattern:
    begun = block(runs, x[runs], factor, lambda _, x, s: scaled(_, x, s).to(i32))
    added = (x[runs], factor, lambda sum, x, s: sum + scaled(sum, x, s).to(i32))
    return begun | block(runs, *added, init=accumulator("sum"))


@gemmini.instruction(**outgoing, cycles=lambda s: 10 + s["rows"])
def mvout_scaled() -> Pattern:
    sums = accumulator("x")[runs]
    rectified = block(runs, sums, factor, lambda _, x, s: scaled(_, x.max(0), s))
    return block(runs, sums, factor, scaled) | rectified


@gemmini.instruction(
    execute, into=accumulator, m=up_to(DIM), n=up_to(DIM), k=up_to(DIM), cycles=lambda s: DIM,
    keeps="w", kept_cycles=lambda s: max(s["m"], 4),
    encode=product_words, strided=("a", "out"), registers=lambda call: {
        strides: (call.places["a"].stride("m") << 16, call.result.stride("m") << 48)
    },
)  # fmt: skip
def product() -> Pattern:
    a, w = scratchpad("a")["(m*step) k"], scratchpad("w")["k n"]
    added = block("m n | k", a, w, multiply_add, init=accumulator("c"))
    return added | block("m n | k", a, w, multiply_add)


def stored(y: Pattern) -> Pattern:
    """Sums, or what they are with a bias or a number, rectified, and scaled to bytes."""
    biases = wildcard("bias", dtype=i32)["o"], constant("number", dtype=i32)[""]
    own, one = ((bias, lambda _, x, b: x + b) for bias in biases)
    y = optional(y, lambda v: block("*i o", v["*i o"], *own) | block("*i o", v["*i o"], *one))
    y = optional(y, lambda v: block("*i", v["*i"], lambda _, x: x.max(0)))
    return optional(y, lambda v: block("*i", v["*i"], constant("scale")[""], scaled))


@composite("gemmini.matmul")
def matmul() -> Pattern:
    """Products of matrices of signed bytes, each with one of its own or all with one."""
    a, b = wildcard("a", dtype=i8)["*b m k"], wildcard("b", dtype=i8) | constant("b", dtype=i16)
    return stored(block("*b m n | k", a, b["~b k n"], multiply_add) @ "product")


@composite("gemmini.conv")
def conv() -> Pattern:
    """A convolution of signed bytes, channels last: at each point of the window a product."""
    x = wildcard("x", dtype=i8)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = wildcard("weights", dtype=i8) | constant("weights", dtype=i16)
    return stored(block("n h w o | r s c", x, weights["r s c o"], multiply_add) @ "product")


@composite("gemmini.add")
def add() -> Pattern:
    """A sum of bytes that are scaled first."""
    given = (wildcard("x", dtype=i8)["*i"], wildcard("y", dtype=i8)["*i"])
    narrow = [block("*i", x, constant(f"scale{i}")[""], scaled) for i, x in enumerate(given)]
    x, y = (block("*i", x["*i"], lambda _, x: x.to(i32))["*i"] for x in narrow)
    return stored(block("*i", x, y, lambda _, x, y: x + y))


class Gemmini(byocir.Target):
    name, machine, patterns = "gemmini", gemmini, (conv, matmul, add)
    channels_last = signed_bytes = True
    split_groups, fixed_point = DIM, "float_scale_last"
    quantisation = Quantisation(per_channel=False)

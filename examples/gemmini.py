"""Gemmini (default configuration), described: a systolic array of 16 by 16 with a scratchpad and an
accumulator, down to the words of its RoCC instructions.

Products of matrices and convolutions of signed bytes, whose sums leave as 32 bits. Load, execute
and store run side by side; the hardware holds back what touches the same rows, so two tiles in
flight are nothing but other rows. A word is (funct, rs1, rs2). Array n of the program is at host
address (n + 1) << 32.
Stores that scale to bytes are not described yet: the host does that.
"""

from struct import pack, unpack

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Call, Interlocked, Machine, Place, Register, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, wildcard

DIM = 16
CONFIG, MVIN, MVOUT, COMPUTE, PRELOAD, FENCE = 0, 2, 3, 4, 6, -1
ACCUMULATOR, ADD, WIDE, NONE = 1 << 31, 1 << 30, 1 << 29, (1 << 32) - 1

gemmini = Machine("gemmini")
load, execute, store = (
    gemmini.unit(name, queue=n) for name, n in (("load", 8), ("execute", 16), ("store", 4))
)
scratchpad = gemmini.memory("sp", i8, row=(DIM,), rows=16384, banks=4)
accumulator = gemmini.memory("acc", i32, row=(DIM,), rows=1024, banks=2)
gemmini.order(Interlocked((scratchpad, accumulator)))

Word = tuple[int, int, int]
ONE = unpack("<I", pack("<f", 1.0))[0]

# 1. Words: where operands lie, and registers that hold strides and scales.


def host(place: Place) -> int:
    size = 1 if place.buffer.type.element_type == i8 else 4
    return ((place.array + 1) << 32) + place.address * size


def local(place: Place, rows: int, columns: int, flags: int = 0) -> int:
    return rows << 48 | columns << 32 | flags | place.address


def fenced(call: Call, *words: Word) -> list[Word]:
    """Words after a fence where the call waits for what the hardware does not hold back."""
    return [*([(FENCE, 0, 0)] if call.waits else []), *words]


loads = Register("loads", load, lambda v: [(CONFIG, ONE << 32 | v[1] << 16 | 1 << 8 | 1, v[0])])
stores = Register("stores", store, lambda stride: [(CONFIG, 2, ONE << 32 | stride)])
strides = Register(
    "strides", execute, lambda v: [(CONFIG, ONE << 32 | v[0] << 16 | 1 << 2, v[1] << 48)]
)

# 2. Instructions: what each does, its limits, cost and words.


def mvin_words(call: Call) -> list[Word]:
    x, into = call.places.values()
    return fenced(call, (MVIN, host(x), local(into, call.sizes["rows"], call.sizes["lanes"])))


gemmini.copy(
    "mvin", MAIN, scratchpad, unit=load, rows=up_to(DIM), lanes=up_to(4 * DIM),
    cycles=lambda s: 40 + s["rows"] * -(-s["lanes"] // DIM), encode=mvin_words,
    registers=lambda call: {loads: (call.places["x"].stride("rows"), call.result.block_rows)},
)  # fmt: skip


def mvout_words(call: Call) -> list[Word]:
    x, into = call.places.values()
    source = local(x, call.sizes["rows"], call.sizes["lanes"], ACCUMULATOR | WIDE)
    return fenced(call, (MVOUT, host(into), source))


gemmini.copy(
    "mvout", accumulator, MAIN, unit=store, rows=up_to(DIM), lanes=up_to(DIM),
    cycles=lambda s: 10 + 4 * s["rows"], encode=mvout_words,
    registers=lambda call: {stores: 4 * call.result.stride("rows")},
)  # fmt: skip


def product_words(call: Call) -> list[Word]:
    m, n, k = (call.sizes[name] for name in "mnk")
    a, w = call.places["a"], call.places["w"]
    flags = ACCUMULATOR | (ADD if call.start is None else 0)
    weights = local(w, k, n), local(call.result, m, n, flags)
    return fenced(
        call, (PRELOAD, *weights), (COMPUTE, local(a, m, k), DIM << 48 | DIM << 32 | NONE)
    )


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


@gemmini.instruction(
    execute, into=accumulator, m=up_to(DIM), n=up_to(DIM), k=up_to(DIM), cycles=lambda s: DIM,
    encode=product_words, strided=("a", "out"),
    registers=lambda call: {strides: (call.places["a"].stride("m"), call.result.stride("m"))},
)  # fmt: skip
def product() -> Pattern:
    a, w = scratchpad("a")["(m*step) k"], scratchpad("w")["k n"]
    added = block("m n | k", a, w, multiply_add, init=accumulator("c"))
    return added | block("m n | k", a, w, multiply_add)


# 3. What it takes.


@composite("gemmini.matmul")
def matmul() -> Pattern:
    """A product of matrices of signed bytes."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add) @ "product"


@composite("gemmini.conv")
def conv() -> Pattern:
    """A convolution of signed bytes, channels last: at each point of the window a product."""
    x = wildcard("x", dtype=i8)["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded(0)
    weights = wildcard("weights", dtype=i8)["r s c o"]
    return block("n h w o | r s c", x, weights, multiply_add) @ "product"


class Gemmini(byocir.Target):
    name, machine, patterns = "gemmini", gemmini, (conv, matmul)
    channels_last = True

"""VTA, described: products of vectors of 16 with blocks of 16 by 16, and an ALU that does one
operation at a time on accumulators, in place. `--target vta_machine.py:Vta16{config=FILE}` takes
other sizes from a `vta_config.json`.

The built-in target `vta` goes its own way down to the same machine; this one is all that the
machine-independent passes need to know of it. Costs are those of the published Chisel design, as
`byocir.vta_sim` counts them. Hooks say which of VTA's instructions calls are; from these a package
has the words that VTA runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from math import prod
from operator import or_

from xdsl.ir import Attribute

import byocir
from byocir.dialects.tir.bodies import round_even
from byocir.dialects.types import i8, i16, i32, i64, width_of
from byocir.dialects.vta_config import configured, with_config_read
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta import described as words
from byocir.machine import MAIN, Machine, Tokens, Transfer, exactly, multiples_of, up_to
from byocir.patterns import Match, Pattern, block, composite, constant, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar
from byocir.targets.vta_emit import files_of_steps
from byocir.vta_sim import Memory, VTAConfig

MOST, FILL, REQUEST, BUS, BURST, BURST_BYTES = up_to(1 << 14), 7, 24, 8, 7, 128
WINDOW = "n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"


def byte(name: str) -> Pattern:
    return wildcard(name, dtype=i8)


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x.to(i32) * w.to(i32)


class Vta(Machine):
    """The memories, units and instructions of the VTA of a configuration."""

    def __init__(self, config: VTAConfig) -> None:
        super().__init__("vta16", assemble=files_of_steps)
        if config.batch > 1:  # calls move vectors of one image
            told = f"expected a VTA of batch 1 for a described machine, found {config.name}"
            raise ByocirError("B270", told)
        side, blocks = config.block_in, config.depth(Memory.WGT)
        few = min(64, blocks // 4)
        inp = dict(row=(side,), rows=config.depth(Memory.INP), interleaved=True)
        self.inp = self.memory("inp", i8, **inp)
        self.wgt = self.memory("wgt", i8, row=(side, side), rows=blocks - few)
        self.diagonals = self.memory("diagonals", i8, row=(side,), rows=few)
        acc = dict(row=(side,), rows=config.depth(Memory.ACC), interleaved=True)
        self.acc = self.memory("acc", i32, **acc)
        load, compute, store = (self.unit(name, queue=512) for name in ("load", "compute", "store"))
        pairs = (load, compute), (compute, load), (compute, store), (store, compute)
        self.order(Tokens(pairs, 255))
        self.side, self.lane, self.lanes = side, exactly(side), multiples_of(side, 1 << 14)
        self._moves(load, compute, store, widens=config.acc_8bit)
        self.box = dict(unit=compute, into=self.acc, i=MOST, j=MOST)
        self._products()
        for name in ("add", "mul", "max", "min") if config.alu_mul else ("add", "max", "min"):
            self._alu(name)
        self._alu("shr", 0, 31)

    def _moves(self, load, compute, store, widens: bool) -> None:
        """Loads, of blocks of weights as the host has packed them, and stores."""
        side, read, lines = self.side, self.channel("read"), dict(rows=MOST, lanes=self.lanes)
        first, last = (Transfer(read, lead=REQUEST, rank=rank) for rank in (0, 1))
        early, late = dict(unit=load, transfer=first), dict(unit=compute, transfer=last)

        def loads(memory: str, bytes: int = 1, first: int = 0):
            cycles = dict(cycles=lambda s: REQUEST + prod(s.values()) * bytes // BUS)
            return dict(encode=words.load(memory, first), **cycles)

        self.copy("load_acc", MAIN, self.acc, **late, **lines, **loads("acc", 4))
        box = dict(into=self.inp, y=MOST, x=self.lanes)

        @self.instruction(**early, **box, **loads("inp"))
        def load_inp() -> Pattern:
            """Rows of vectors, and zeros around them."""
            padded = byte("x")["(y - top) (x - left)"].padded(0)
            return block("y x", padded, lambda _, x: x)

        @load_inp.rule
        def zeros_have_four_bits(m: Match) -> tuple[bool, tuple[int, ...]]:
            """At most 15 vectors of zeros are on each side."""
            (height, width), (rows, lanes) = m["work"].extents.values(), m["x"].type.shape
            sides = m["top"], height - rows - m["top"], m["left"], width - lanes - m["left"]
            return max(*sides[:2], *(n // side for n in sides[2:])) <= 15, sides

        blocks = dict(into=self.wgt, rows=MOST, k=self.lanes, n=self.lanes)

        @self.instruction(**early, **blocks, **loads("wgt"))
        def load_wgt() -> Pattern:
            return block("rows k n", byte("x")["rows k n"], lambda _, x: x)

        blocks = dict(into=self.diagonals, rows=up_to(self.diagonals.rows), lanes=self.lane)

        @self.instruction(**early, **blocks, **loads("wgt", side, self.wgt.rows))
        def load_diagonals() -> Pattern:
            """Blocks that are 0 but on their diagonals, as which the host packs vectors."""
            return block("rows lanes", byte("x")["rows lanes"], lambda _, x: x)

        if widens:

            @self.instruction(into=self.acc, **late, **lines, **loads("acc8"))
            def load_acc8() -> Pattern:
                return block("rows lanes", byte("x")["rows lanes"], lambda _, x: x.to(i32))

        def stored(s):
            vectors, bursts = s["lanes"] // side, -(-s["lanes"] // BURST_BYTES)
            return s["rows"] * (vectors * (1 + side // BUS) + bursts * BURST)

        @self.instruction(store, encode=words.store, **lines, cycles=stored)
        def store_out() -> Pattern:
            return block("rows lanes", self.acc("x")["rows lanes"], lambda _, x: x.to(i8))

    def _cycles(self, each: int = 1):
        """Says how long each vector, or block of weights, takes that an instruction meets."""
        by = dict.fromkeys(("n", "k", "lanes"), self.side)

        def cycles(s):
            return FILL + each * prod(-(-size // by.get(name, 1)) for name, size in s.items())

        return dict(cycles=cycles)

    def _products(self) -> None:
        """Products of blocks of weights with vectors of their own, or with one vector for all."""
        inp, wgt, diagonals, acc = self.inp, self.wgt, self.diagonals, self.acc
        box, windows = dict(**self.box, **self._cycles()), dict(r=up_to(64), s=up_to(64))
        told = dict(encode=words.gemm(), strided=("a", "w", "out"))

        @self.instruction(**box, **windows, n=self.lanes, k=self.lanes, **told)
        def gemm() -> Pattern:
            own, of_windows = inp("a")["(i*sh + r*dh) (j*sw + s*dw) k"], wgt("w")["r s k n"]
            each = block("i j n | r s k", own, of_windows, multiply_add, init=acc("c"))
            one, weights = inp("a")["k"], wgt("w")["k n"]
            return each | block("i j n | k", one, weights, multiply_add, init=acc("c"))

        told = dict(encode=words.gemm(wgt.rows), strided=("x", "w", "out"))

        @self.instruction(**box, **windows, lanes=self.lane, **told)
        def gemm_diagonal() -> Pattern:
            """Products with blocks that are 0 but on their diagonals: each lane times a number, the
            same for all vectors or one for each point of a window."""
            one, factors = inp("x")["i j lanes"], diagonals("w")["lanes"]
            each = block("i j lanes", one, factors, multiply_add, init=acc("c"))
            own = inp("x")["(i*sh + r*dh) (j*sw + s*dw) lanes"]
            of_windows = diagonals("w")["r s lanes"]
            return each | block("i j lanes | r s", own, of_windows, multiply_add, init=acc("c"))

        @self.instruction(**box, lanes=self.lanes, encode=words.reset, strided=("out",))
        def reset() -> Pattern:
            return block("i j lanes", lambda _: 0)

    def _alu(self, name: str, least: int = -(1 << 15), most: int = (1 << 15) - 1) -> None:
        """An operation with a number, and one with vectors of its own or one vector for all."""
        acc, told = self.acc, dict(**self.box, lanes=self.lanes, encode=words.alu(name))

        def with_number() -> Pattern:
            return block("i j lanes", lambda x: x.binary(name, number("imm")), init=acc("x"))

        def with_vectors() -> Pattern:
            ys = (acc("y")[index] for index in ("(i*ih) (j*jw) lanes", "lanes"))
            of = (block("i j lanes", y, lambda x, y: x.binary(name, y), init=acc("x")) for y in ys)
            return reduce(or_, of)

        with_number.__name__, with_vectors.__name__ = f"{name}_number", f"{name}_vectors"
        made = self.instruction(**told, **self._cycles(), strided=("out",))(with_number)

        @made.rule
        def immediates_have_16_bits(m: Match) -> tuple[bool, int]:
            """The number fits the instruction."""
            return least <= m["imm"] <= most, m["imm"]

        self.instruction(**told, **self._cycles(2), strided=("y", "out"))(with_vectors)


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


def known(name: str) -> Pattern:
    """Weights of bytes, or of bytes less a zero point, each a sum of bytes."""
    return constant(name, dtype=i8) | constant(name, dtype=i16)


@composite("vta16.conv")
def conv() -> Pattern:
    """A convolution of bytes, channels last, requantised."""
    window, weights = byte("x")[WINDOW].padded(0), known("weights")["r s c o"]
    return requantised(block("n h w o | r s c", window, weights, multiply_add))


@composite("vta16.conv_join")
def conv_join() -> Pattern:
    """A convolution, channels last, and a residual sum, or a product, of its result."""
    return requantised(joined(conv.patterns[0]), "total")


@composite("vta16.depthwise")
def depthwise() -> Pattern:
    """A convolution of bytes, channels last, each of which is summed by itself, requantised."""
    window, weights = byte("x")[WINDOW].padded(0), known("weights")["r s c"]
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
    window = byte("x")[WINDOW].padded(0)
    return requantised(block("n h w c | r s", window, lambda y, x: y + x.to(i32)))


@dataclass(frozen=True)
class Vta16(byocir.Target):
    name = "vta16"
    patterns = (conv_pool, conv_join, conv, depthwise, matmul, elementwise, max_pool, average_pool)
    channels_last = signed_bytes = True
    fixed_point = "floor"
    config: str = ""

    read_files = staticmethod(with_config_read)
    machine = cached_property(lambda self: machine_of(configured(self.config)))
    channel_multiple = split_groups = property(lambda self: self.machine.side)


machine_of = cache(Vta)

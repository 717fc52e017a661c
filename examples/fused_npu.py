"""An NPU whose instructions go all the way: one convolves, adds a bias, rectifies, scales and
writes bytes, and nobody sees the sums between. Most NPUs for edge devices are of this kind.

One unit moves data, and one computes, which pads what it reads. Words of 64 bits set registers and
say what a unit begins. In this folder:

    byocir run digits/digits_int8.onnx --shape image=1,1,8,8 --target fused_npu.py --verify --timing

`docs/describe-your-machine.md` tells what machines are made of.
"""

import byocir
from byocir.dialects.types import i8, i32, i64
from byocir.machine import MAIN, Call, Counted, Machine, up_to
from byocir.patterns import Pattern, block, composite, constant, number, optional, wildcard
from byocir.patterns import ScalarPattern as Scalar

# 1. What it is. Each cycle moves 16 bytes, or multiplies 16 channels by 16 others.

npu = Machine("fused")
dma, core = npu.unit("dma", queue=8), npu.unit("core", queue=4)
images = npu.memory("images", i8, row=(16,), rows=16384, interleaved=True)
weights = npu.memory("weights", i8, row=(16,), rows=32768)
params = npu.memory("params", i32, row=(16,), rows=1024)
npu.order(Counted())

# 2. Its words set the registers that are not 0, which hold sizes, numbers, and of operands the
# array, the address and what each iterator adds to it (the next point, or the next 16 lanes). The
# last one begins a command when few enough others run.

REGISTERS = ["top", "left", "height", "width", "sh", "sw", "dh", "dw", "half", "shift"]
REGISTERS += (sizes := ["y", "x", "n", "c", "r", "s", "k", "rows", "lanes"])
for name in ("x", "z", "x_factor", "z_factor", "a", "w", "bias", "factor", "out"):
    REGISTERS += [f"{name}.{of}" for of in ("array", "address", *sizes)]


def words(call: Call) -> list[int]:
    held = {**call.numbers, **call.sizes}
    for name, place in call.places.items():
        held |= {f"{name}.array": place.array + 1, f"{name}.address": place.address}
        held |= {f"{name}.{by}": place.stride(by) or place.stride(by, 16) for by in call.sizes}
        if name == "a" and len(place.box) > 2:
            held["height"], held["width"] = (end - begin for begin, end in place.box[-3:-1])
    waits = call.waits.get("dma", 255) << 8 | call.waits.get("core", 255)
    begun = 128 + npu.instructions.index(call.instruction), call.form << 16 | waits
    changed = [(REGISTERS.index(name), value) for name, value in held.items() if value]
    return [number << 48 | value & (1 << 48) - 1 for number, value in (*changed, begun)]


# 3. What it does. A block that reads what another one makes is part of the same instruction.

moved = dict(unit=dma, rows=up_to(16384), lanes=up_to(4096), encode=words)
vectors = dict(cycles=lambda s: 20 + s["rows"] * -(-s["lanes"] // 16), **moved)
npu.copy("load_image", MAIN, images, **vectors)
npu.copy("load_weights", MAIN, weights, **vectors)
npu.copy("load_params", MAIN, params, cycles=lambda s: 20 + s["rows"] * s["lanes"] // 4, **moved)
npu.copy("store_image", images, MAIN, **vectors)


def steps(s: dict[str, int]) -> int:
    channels = s["k"] if "k" in s else s["c"]
    return 20 + s["y"] * s["x"] * s.get("r", 1) * s.get("s", 1) * -(-channels // 16)


def multiply_add(total: Scalar, x: Scalar, w: Scalar) -> Scalar:
    return total + x.to(i32) * w.to(i32)


def scaled(x: Scalar, factor: Scalar) -> Scalar:
    wide = x.to(i64) * factor.to(i64) + number("half")
    return (wide >> number("shift")).clamp(-128, 127).to(i8)


def term(_: Scalar, x: Scalar, factor: Scalar) -> Scalar:
    return (x.to(i64) * factor.to(i64)).clamp(-(1 << 31), (1 << 31) - 1).to(i32)


def finished(index: str, sums: Pattern) -> Pattern:
    """Sums, with a bias or without, rectified or not, as bytes."""
    x, bias, factor = sums[index], params("bias")[index[-1]], params("factor")[index[-1]]
    bare = block(index, x, factor, lambda _, x, f: scaled(x, f))
    bare |= block(index, x, factor, lambda _, x, f: scaled(x.max(0), f))
    both = block(index, x, bias, factor, lambda _, x, b, f: scaled(x + b, f))
    both |= block(index, x, bias, factor, lambda _, x, b, f: scaled((x + b).max(0), f))
    return bare | both


window = "(y*sh + r*dh - top) (x*sw + s*dw - left)"
pixels, channels = images("a")[f"{window} c"], dict(c=up_to(4096))
box = dict(unit=core, into=images, encode=words, cycles=steps, y=up_to(64), x=up_to(1024))
windows = dict(**box, r=up_to(64), s=up_to(64))
weighed = dict(**windows, inside=i32, strided=("a", "w", "out"))


@npu.instruction(**weighed, n=up_to(16), k=up_to(4096))
def convolve() -> Pattern:
    a, w = images("a")[f"{window} k"].padded(0), weights("w")["r s k n"]
    return finished("y x n", block("y x n | r s k", a, w, multiply_add))


@npu.instruction(**weighed, **channels)
def convolve_depthwise() -> Pattern:
    w = weights("w")["r s c"]
    return finished("y x c", block("y x c | r s", pixels.padded(0), w, multiply_add))


@npu.instruction(**windows, **channels, inside=i32, strided=("a", "out"))
def average_pool() -> Pattern:
    sums = block("y x c | r s", pixels.padded(0), lambda total, x: total + x.to(i32))
    return finished("y x c", sums)


@npu.instruction(**windows, **channels, strided=("a", "out"))
def max_pool() -> Pattern:
    return block("y x c | r s", pixels.padded(-128), lambda most, x: most.max(x), init=-128)


@npu.instruction(**box, **channels, inside=i32)
def add() -> Pattern:
    given = images("x"), images("z"), params("x_factor"), params("z_factor")
    terms = [each["y x c"] for each in given[:2]] + [each["c"] for each in given[2:]]
    sums = block("y x c", *terms, lambda _, x, z, f, g: term(_, x, f) + term(_, z, g))
    return finished("y x c", sums)


# 4. What it takes: what ends in bytes.


def stored(y: Pattern) -> Pattern:
    bias = constant("bias", dtype=i32)["o"]
    y = optional(y, lambda y: block("*i o", y["*i o"], bias, lambda _, x, b: x + b))
    y = optional(y, lambda y: block("*i", y["*i"], lambda _, x: x.max(0)))
    return block("*i *o", y["*i *o"], constant("factor")["~o"], lambda _, x, f: scaled(x, f))


byte, kernel = wildcard("x", dtype=i8), wildcard("w", dtype=i8)
image = byte["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"]


@composite("fused.conv")
def conv() -> Pattern:
    whole = block("n h w o | r s c", image.padded(0), kernel["r s c o"], multiply_add)
    return stored(whole | block("n h w c | r s", image.padded(0), kernel["r s c"], multiply_add))


@composite("fused.dense")
def dense() -> Pattern:
    return stored(block("*b m n | k", byte["*b m k"], kernel["~b k n"], multiply_add))


@composite("fused.pool")
def pool() -> Pattern:
    average = stored(block("n h w c | r s", image.padded(0), lambda y, x: y + x.to(i32)))
    return average | block("n h w c | r s", image.padded(-128), lambda y, x: y.max(x), init=-128)


@composite("fused.sum")
def residual() -> Pattern:
    given = ((wildcard(name, dtype=i8)["*i"], constant(f"{name}_factor")[""]) for name in "xz")
    x, z = (block("*i", byte, factor, term)["*i"] for byte, factor in given)
    return stored(block("*i", x, z, lambda _, x, z: x + z))


class Fused(byocir.Target):
    name, machine, patterns = "fused", npu, (conv, dense, pool, residual)
    channels_last = signed_bytes = True
    fixed_point, channel_multiple = "half_up", 16

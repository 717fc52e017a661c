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

sizes = ["y", "x", "n", "c", "r", "s", "k", "rows", "lanes"]
REGISTERS = [*sizes, "sh", "sw", "dh", "dw", "top", "left", "height", "width", "pad"]
REGISTERS += ["half", "shift", "x_zero", "z_zero"]
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


def term(x: Scalar, factor: Scalar, zero: str = "") -> Scalar:
    wide = x.to(i64) * factor.to(i64)
    return (wide + number(zero) if zero else wide).clamp(-(1 << 31), (1 << 31) - 1).to(i32)


def finished(index: str, sums: Pattern) -> Pattern:
    """Sums, with a bias or without, rectified or not, as bytes."""
    x, bias, factor = sums[index], params("bias")[index[-1]], params("factor")[index[-1]]
    bare = block(index, x, factor, lambda _, x, f: scaled(x, f))
    bare |= block(index, x, factor, lambda _, x, f: scaled(x.max(0), f))
    both = block(index, x, bias, factor, lambda _, x, b, f: scaled(x + b, f))
    both |= block(index, x, bias, factor, lambda _, x, b, f: scaled((x + b).max(0), f))
    return bare | both


window = "(y*sh + r*dh - top) (x*sw + s*dw - left)"
pixels, channels = images("a")[f"{window} c"].padded("pad"), dict(c=up_to(4096))
box = dict(unit=core, into=images, encode=words, cycles=steps, y=up_to(64), x=up_to(1024))
windows = dict(**box, r=up_to(64), s=up_to(64))
weighed = dict(**windows, inside=i32, strided=("a", "w", "out"))


@npu.instruction(**weighed, n=up_to(16), k=up_to(4096))
def convolve() -> Pattern:
    pixels = images("a")[f"{window} k"].padded("pad")
    sums = block("y x n | r s k", pixels, weights("w")["r s k n"], multiply_add)
    return finished("y x n", sums)


@npu.instruction(**weighed, **channels)
def convolve_depthwise() -> Pattern:
    sums = block("y x c | r s", pixels, weights("w")["r s c"], multiply_add)
    return finished("y x c", sums)


@npu.instruction(**windows, **channels, inside=i32, strided=("a", "out"))
def average_pool() -> Pattern:
    sums = block("y x c | r s", pixels, lambda total, x: total + x.to(i32))
    return finished("y x c", sums)


@npu.instruction(**windows, **channels, strided=("a", "out"))
def max_pool() -> Pattern:
    return block("y x c | r s", pixels, lambda most, x: most.max(x), init=-128)


@npu.instruction(**box, **channels, inside=i32)
def add() -> Pattern:
    of = [images(name)["y x c"] for name in "xz"] + [params(f"{name}_factor")["c"] for name in "xz"]
    plain = block("y x c", *of, lambda _, x, z, f, g: term(x, f) + term(z, g))
    sums = block("y x c", *of, lambda _, x, z, f, g: term(x, f, "x_zero") + term(z, g, "z_zero"))
    return finished("y x c", plain | sums)


# 4. What it takes: what ends in bytes.


def stored(y: Pattern) -> Pattern:
    bias, factor = constant("bias", dtype=i32)["~o"], constant("factor")["~o"]
    y = optional(y, lambda y: block("*i *o", y["*i *o"], bias, lambda _, x, b: x + b))
    y = optional(y, lambda y: block("*i", y["*i"], lambda _, x: x.max(0)))
    return block("*i *o", y["*i *o"], factor, lambda _, x, f: scaled(x, f))


byte, kernel = wildcard("x", dtype=i8), wildcard("w", dtype=i8)
image = byte["n (h*sh + r*dh - ph) (w*sw + s*dw - pw) c"].padded("pad")


@composite("fused.conv")
def conv() -> Pattern:
    whole = block("n h w o | r s c", image, kernel["r s c o"], multiply_add)
    return stored(whole | block("n h w c | r s", image, kernel["r s c"], multiply_add))


@composite("fused.dense")
def dense() -> Pattern:
    return stored(block("*b m n | k", byte["*b m k"], kernel["~b k n"], multiply_add))


@composite("fused.pool")
def pool() -> Pattern:
    average = stored(block("n h w c | r s", image, lambda y, x: y + x.to(i32)))
    return average | block("n h w c | r s", image, lambda y, x: y.max(x), init=-128)


def multiplied(name: str) -> Pattern:
    given = wildcard(name, dtype=i8)["*i"], constant(f"{name}_factor")[""]
    plain = block("*i", *given, lambda _, x, f: term(x, f))
    return plain | block("*i", *given, lambda _, x, f: term(x, f, f"{name}_zero"))


@composite("fused.sum")
def residual() -> Pattern:
    x, z = multiplied("x")["*i"], multiplied("z")["*i"]
    return stored(block("*i", x, z, lambda _, x, z: x + z))


class Fused(byocir.Target):
    name, machine, patterns = "fused", npu, (conv, dense, pool, residual)
    channels_last = signed_bytes = True
    fixed_point, channel_multiple = "half_up", 16

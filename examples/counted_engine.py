"""A small engine, described: two memories, a DMA unit and a core, products of up to 16 by 16 by 16.

The core counts what the DMA unit has outstanding and waits until that is few enough. From this
description byocir tiles products, brings operands in while the core computes, picks instructions,
allocates rows, places the waits, encodes and simulates. In this folder:

    byocir run digits/digits_int8.onnx --shape image=1,1,8,8 --target counted_engine.py --verify

`docs/describe-your-machine.md` builds it step by step.
"""

from struct import pack

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Call, Counted, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, wildcard

engine = Machine("engine")
dma, core = engine.unit("dma", queue=8), engine.unit("core", queue=2)
near = engine.memory("near", i8, row=(16,), rows=1024)
sums = engine.memory("sums", i32, row=(16,), rows=256)
engine.order(Counted())


def words(call: Call) -> bytes:
    """Gives the code of a call: its opcode, how much may be outstanding, sizes and where operands
    lie.
    """
    waits = call.waits
    numbers = [call.instruction.opcode or 0, waits.get("dma", 255), waits.get("core", 255)]
    numbers += call.sizes.values()
    for place in call.places.values():
        numbers += [place.address, *(place.stride(name) for name in call.sizes)]
    return pack(f"<{len(numbers)}i", *numbers)


engine.copy(
    "load", MAIN, near, unit=dma, opcode=1, encode=words,
    cycles=lambda s: 20 + s["rows"], rows=up_to(16), lanes=up_to(64),
)  # fmt: skip
engine.copy(
    "store", sums, MAIN, unit=dma, opcode=2, encode=words,
    cycles=lambda s: 20 + 4 * s["rows"], rows=up_to(16), lanes=up_to(16),
)  # fmt: skip


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


@engine.instruction(
    core, into=sums, opcode=3, encode=words,
    cycles=lambda s: 4 + s["m"], m=up_to(16), n=up_to(16), k=up_to(16),
)  # fmt: skip
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    return block("m n | k", a, w, multiply_add, init=sums("c")) | block(
        "m n | k", a, w, multiply_add
    )


@composite("engine.gemm")
def gemm() -> Pattern:
    """Products of matrices of signed bytes, each with one of its own or all with one."""
    a, b = wildcard("a", dtype=i8)["*b m k"], wildcard("b", dtype=i8)["~b k n"]
    return block("*b m n | k", a, b, multiply_add) @ "gemm"


class Engine(byocir.Target):
    name, machine, patterns = "engine", engine, (gemm,)

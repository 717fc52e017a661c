"""acme is a machine that is described: two memories, a DMA unit and a core that multiplies
matrices.

From the description byocir tiles products, brings operands in while the core computes, picks
instructions, allocates rows, keeps units in order, encodes and simulates. To make it yours, change
in this order: memories, copies, instructions, what is encoded, the patterns of work. `byocir
conform acme.py` says after each step whether it is right; `byocir run --timing` how fast it is.
"""

from struct import pack

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Call, Counted, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, wildcard

# 1. Units, each of which runs its instructions in order, and memories, of rows.

machine = Machine("acme")
dma, core = machine.unit("dma", queue=8), machine.unit("core", queue=2)
near = machine.memory("near", i8, row=(16,), rows=1024)
sums = machine.memory("sums", i32, row=(16,), rows=256)
machine.order(Counted())  # a command waits until few enough of another unit are outstanding


def words(call: Call) -> bytes:
    """Gives the code of a call: its opcode, how much may be outstanding, sizes and where operands
    lie."""
    waits = call.waits
    numbers = [call.instruction.opcode or 0, waits.get("dma", 255), waits.get("core", 255)]
    numbers += call.sizes.values()
    for place in call.places.values():
        numbers += [place.address, *(place.stride(name) for name in call.sizes)]
    return pack(f"<{len(numbers)}i", *numbers)


# 2. Instructions: copies, and patterns of blocks on operands in memories. The pattern is the
# meaning: it selects the instruction, is checked, and is what the simulator computes.

machine.copy(
    "load", MAIN, near, unit=dma, opcode=1, encode=words,
    cycles=lambda s: 20 + s["rows"], rows=up_to(16), lanes=up_to(64),
)  # fmt: skip
machine.copy(
    "store", sums, MAIN, unit=dma, opcode=2, encode=words,
    cycles=lambda s: 20 + 4 * s["rows"], rows=up_to(16), lanes=up_to(16),
)  # fmt: skip


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


@machine.instruction(
    core, into=sums, opcode=3, encode=words,
    cycles=lambda s: 4 + s["m"], m=up_to(16), n=up_to(16), k=up_to(16),
)  # fmt: skip
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    added = block("m n | k", a, w, multiply_add, init=sums("c"))
    begun = block("m n | k", a, w, multiply_add)
    return added | begun


# 3. The work that it takes, whatever its size: how it runs is found.


@composite("acme.gemm")
def gemm() -> Pattern:
    """Products of matrices of signed bytes, each with one of its own or all with one."""
    a, b = wildcard("a", dtype=i8)["*b m k"], wildcard("b", dtype=i8)["~b k n"]
    return block("*b m n | k", a, b, multiply_add)


class Acme(byocir.Target):
    """Runs products of matrices of bytes, on a machine that is described."""

    name, machine, patterns = "acme", machine, (gemm,)

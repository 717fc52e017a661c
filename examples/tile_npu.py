"""A toy accelerator whose work is scheduled by hand: products in tiles, through two memories, by
one instruction.

It keeps tiles of factors in `tile.factors` and of sums in `tile.sums`, and multiplies two tiles
with sides of at most 8 in one step. A script of primitives says how a product runs; all that
follows, and what simulates it, comes from the description. In this folder:

    byocir explain digits/digits_f32.onnx --shape image=1,1,8,8 --target tile_npu.py \\
        --node /classifier/Gemm

`docs/tensor-level.md` tells what schedules are made of, `docs/describe-your-machine.md` what
machines are.
"""

from collections.abc import Mapping
from typing import Any

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.types import f32
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Match, Pattern, ScalarPattern, block, composite, wildcard

SIDE = 8

# 1. What the device is: two memories, and one unit that copies tiles and multiplies them.

tile = Machine("tile")
unit = tile.unit("tile")
factors = tile.memory("factors", f32, row=(SIDE,), rows=2 * SIDE)
sums = tile.memory("sums", f32, row=(SIDE,), rows=SIDE)
sides = {"rows": up_to(SIDE), "lanes": up_to(SIDE)}
for name, source, into in (("load", MAIN, factors), ("begin", MAIN, sums), ("store", sums, MAIN)):
    tile.copy(name, source, into, unit=unit, cycles=lambda s: s["rows"], **sides)


@tile.instruction(unit, cycles=lambda s: s["rows"], **sides)
def clear() -> Pattern:
    """Sets a tile of main memory to zero."""
    return block("rows lanes", lambda _: 0)


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x * w


@tile.instruction(unit, into=sums, cycles=lambda s: s["m"])
def mma() -> Pattern:
    """Adds the product of two tiles to a tile of sums."""
    a, b, c = factors("a")["m k"], factors("b"), sums("c")
    straight = block("m n | k", a, b["k n"], multiply_add, init=c)
    return straight | block("m n | k", a, b["n k"], multiply_add, init=c)


@mma.rule
def tiles_are_small(m: Match) -> tuple[bool, Any]:
    """No side of a tile is longer than 8."""
    sides = (*m["a"].type.shape, *m["b"].type.shape)
    return max(sides) <= SIDE, sides


# 2. What it takes, and how that runs: a tile of sums stays while tiles of factors come in.


@composite("tile.gemm")
def gemm() -> Pattern:
    """A product with a matrix, or with one that is turned."""
    a, b = wildcard("a", dtype=f32)["m k"], wildcard("b", dtype=f32)
    straight = block("m n | k", a, b["k n"], multiply_add) @ "gemm"
    return straight | block("m n | k", a, b["n k"], multiply_add) @ "gemm"


def side(extent: int) -> int:
    """The longest side of tiles that fill an extent."""
    return next(size for size in range(SIDE, 0, -1) if extent % size == 0)


def schedule_of(extents: Mapping[str, int]) -> str:
    m, n, k = (side(extents[name]) for name in "mnk")
    return (
        f"m, n, k = tile(gemm, m={m}, n={n}, k={k}); stage(gemm, 2, tile.sums, at=n); "
        "stage(gemm, 0, tile.factors, at=k); stage(gemm, 1, tile.factors, at=k); "
        "tensorise(gemm, tile.mma)"
    )


class Tile(byocir.Target):
    """A toy accelerator that multiplies tiles."""

    name, machine = "tile", tile
    patterns, instructions = (gemm,), (mma.pattern,)

    def schedule(self, composite: CompositeOp) -> str | None:
        match = gemm.matched_in(composite)
        return schedule_of(match["gemm"].extents) if match is not None else None

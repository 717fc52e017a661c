"""A machine with tiles of pixels by channels as registers, with several kinds of loads."""

from __future__ import annotations

from collections.abc import Sequence

from narrowing_engine import layer, multiply_add, narrowed

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block, wildcard


def described(
    *, pads: bool = False, plain: bool = True, near: bool = False, strided: Sequence[str] = ()
) -> Machine:
    """A machine with tiles as registers; its loads set zeros around images, or move as they find
    it, or there are such and such. Images may have a memory on their way, of which lines are
    `strided`, or not."""
    tiles = Machine("tiles")
    core = tiles.unit("core")
    images = tiles.memory("images", i8, row=(4, 16), rows=4)
    weights = tiles.memory("weights", i8, row=(16, 8), rows=4)
    sums = tiles.memory("sums", i32, row=(4, 8), rows=4)
    sizes = {"m": up_to(4), "n": up_to(8), "k": up_to(16)}
    if near:
        lines = tiles.memory("lines", i8, row=(16,), rows=64)
        moved = {"rows": up_to(8), "lanes": up_to(16), "cycles": lambda s: 8 + s["rows"]}
        tiles.copy("load_lines", MAIN, lines, unit=core, **moved)

    def load_image() -> Pattern:
        x = lines("x") if near else wildcard("x")
        return block("m k", x["m k"], lambda _, x: x)

    def load_padded() -> Pattern:
        image = wildcard("x")["(y - top) (m - left) k"].padded(0)
        return block("y m k", image, lambda _, x: x)

    limits = {"m": sizes["m"], "k": sizes["k"]}
    if plain:
        tiles.instruction(core, into=images, cycles=lambda s: 4, strided=strided, **limits)(
            load_image
        )
    if pads:
        limits["y"] = up_to(1)
        tiles.instruction(core, into=images, cycles=lambda s: 4, **limits)(load_padded)

    @tiles.instruction(core, into=weights, k=sizes["k"], n=sizes["n"], cycles=lambda s: 16)
    def load_weights() -> Pattern:
        return block("k n", wildcard("x")["k n"], lambda _, x: x)

    @tiles.instruction(core, into=sums, cycles=lambda s: 4, **sizes)
    def product() -> Pattern:
        a, w = images("a")["m k"], weights("w")["k n"]
        begun = block("m n | k", a, w, multiply_add)
        return block("m n | k", a, w, multiply_add, init=sums("c")) | begun

    @tiles.instruction(core, m=sizes["m"], n=sizes["n"], cycles=lambda s: 4)
    def store() -> Pattern:
        return block("m n", sums("x")["m n"], narrowed)

    return tiles


class Tiles(byocir.Target):
    name, machine, patterns = "narrowing", described(pads=False), (layer,)


class PaddedTiles(byocir.Target):
    name, machine, patterns = "narrowing", described(pads=True, plain=False), (layer,)


class Both(byocir.Target):
    """Has loads of either kind."""

    name, machine, patterns = "narrowing", described(pads=True), (layer,)


class Levels(byocir.Target):
    """Brings images near the registers first."""

    name, machine, patterns = "narrowing", described(near=True), (layer,)


class StridedLevels(byocir.Target):
    name, machine, patterns = "narrowing", described(near=True, strided=("x",)), (layer,)

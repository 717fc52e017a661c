"""Tiles of images in registers, where rows have more than one pixel: each point of a window is a
tile of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from narrowing_engine import layer, multiply_add, narrowed, strided_layer

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.types import i8, i32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block, wildcard
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes


def described(*, pads: bool = False, near: bool = False, strided: Sequence[str] = ()) -> Machine:
    """A machine with tiles as registers; its loads set zeros around images or move as they find
    it. Images may have a memory on their way, of which lines are `strided`, or not."""
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

    limits = {"m": sizes["m"], "k": sizes["k"], **({"y": up_to(1)} if pads else {})}
    load = tiles.instruction(core, into=images, cycles=lambda s: 4, strided=strided, **limits)
    load(load_padded if pads else load_image)

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
    name, machine, patterns = "narrowing", described(pads=True), (layer,)


class Levels(byocir.Target):
    """Brings images near the registers first."""

    name, machine, patterns = "narrowing", described(near=True), (layer,)


class StridedLevels(byocir.Target):
    name, machine, patterns = "narrowing", described(near=True, strided=("x",)), (layer,)


@settings(max_examples=3 if settings.default.max_examples < 100 else 200, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 16),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
    st.sampled_from([Tiles, PaddedTiles, Levels, StridedLevels]),
)
@example(4, 8, 3, 1, Tiles)
@example(4, 8, 3, 1, PaddedTiles)
@example(9, 8, 3, 2, Tiles)
@example(9, 8, 3, 2, PaddedTiles)
@example(9, 8, 1, 2, PaddedTiles)
@example(9, 8, 1, 2, Levels)
@example(6, 16, 3, 2, Levels)
@example(6, 16, 3, 2, StridedLevels)
def test_convolutions_are_products_of_tiles_of_pixels(
    side, channels, window, stride, target
) -> None:
    module = strided_layer(side, channels, window, stride)
    package = byocir.compile(module.clone(), targets=[target()], levels=("tensor",))
    assert [each.taken for each in package.report.decisions] == [True]
    feeds = random_feeds(module)
    found = package.run(feeds, check=True)
    for name, expected in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found[name], expected)


def test_blocks_that_write_a_part_of_a_buffer_go_no_way_around() -> None:
    """A copy of all that is in a memory on the way would overwrite the other part."""
    register("narrowing", Levels)
    image = 'memref<8x16xi8, "tiles.images">'
    parts = "\n".join(
        f"""
        tir.block [i: 4, j: 16] at(%c{start}, %c0) ins(%x[i, j] : memref<8x16xi8>)
            outs(%near[i, j] : {image}) {{
        ^bb0(%a: i8, %old: i8):
          tir.yield %a : i8
        }}"""
        for start in (0, 4)
    )
    module = parse_module(f"""
      func.func @f(%x: memref<8x16xi8>)
          attributes {{byoc.target = #byoc.target<"narrowing", {{}}>}} {{
        %c0 = arith.constant 0 : index
        %c4 = arith.constant 4 : index
        %near = tir.alloc : {image}
        {parts}
        func.return
      }}""")
    before = print_module(module)
    run_passes(module, load_context(), "route-copies")
    assert print_module(module) == before


@pytest.mark.parametrize("stride", [1, 2])
def test_images_are_brought_near_once_for_all_points_of_windows(stride: int) -> None:
    """Pixels come from main memory once for a tile, and go on to registers for each point."""
    module = strided_layer(6, 16, 3, stride)
    package = byocir.compile(module, targets=[StridedLevels()], levels=("tensor",))
    (region,) = package.report.regions
    far, near = re.findall(r"stage\(product, 0, ([^)]*)\)", region.composites[0].schedule)
    assert far.split(", at=")[0] == "tiles.lines"
    assert near == "tiles.images, at=s" + (", strided=True" if stride > 1 else "")

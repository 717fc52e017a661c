"""Tiles of images in registers, where rows have more than one pixel: each point of a window is a
tile of its own."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from narrowing_engine import strided_layer
from pixel_tiles import Both, Levels, PaddedTiles, StridedLevels, Tiles

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes


@settings(max_examples=3 if settings.default.max_examples < 100 else 200, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 16),
    st.sampled_from([1, 3]),
    st.integers(1, 3),
    st.sampled_from([Tiles, PaddedTiles, Both, Levels, StridedLevels]),
)
@example(4, 8, 3, 1, Tiles)
@example(4, 8, 3, 1, PaddedTiles)
@example(9, 8, 3, 2, Tiles)
@example(9, 8, 3, 2, PaddedTiles)
@example(9, 8, 3, 2, Both)
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


def test_the_host_sets_pads_where_loads_take_neighbours_alone() -> None:
    """A strided layer reads pixels that lie apart, which the load that sets pads does not take."""
    for stride, images in ((2, ["1x9x9x8", "1x11x11x8"]), (1, ["1x9x9x8"])):
        module = strided_layer(9, 8, 3, stride)
        package = byocir.compile(module, targets=[Both()], levels=("tensor",))
        assert [f"tensor<{each}xi8>" for each in images[-1:]] == package.report.regions[0].inputs[
            :1
        ]


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

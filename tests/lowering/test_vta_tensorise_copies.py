"""Boxes as two-dimensional transfers: the right elements, and few instructions."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.lowering.tir_to_vta.copies import Dimension, Transfer, transfers


def run(parts: list[Transfer], dram: np.ndarray, sram: np.ndarray) -> None:
    """What LOADs do."""
    for part in parts:
        top, bottom, left, right = part.pads
        assert max(part.pads) <= 15
        image = np.zeros((top + part.rows + bottom, left + part.columns + right), dram.dtype)
        for row in range(part.rows):
            start = part.dram + row * part.stride
            image[top + row, left : left + part.columns] = dram[start : start + part.columns]
        sram[part.sram : part.sram + image.size] = image.ravel()


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    """An array's shape, a box's first index and sizes, and the shape of the buffer around it."""
    rank = draw(st.integers(0, 4))
    reach = draw(st.sampled_from([0, 2, 18]))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    low = tuple(draw(st.integers(-reach, size)) for size in shape)
    sizes = tuple(draw(st.integers(1, size + 2 + reach // 9)) for size in shape)
    spare = draw(st.sampled_from([0, 2]))
    buffer = tuple(size + draw(st.integers(0, spare)) for size in sizes)
    return shape, low, sizes, buffer


@given(boxes())
def test_a_box_with_zeros_around_the_array(case: tuple[tuple[int, ...], ...]) -> None:
    shape, low, sizes, buffer = case
    array = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape)
    expected = np.full(buffer, -1)
    for index in itertools.product(*map(range, sizes)):
        at = tuple(base + i for base, i in zip(low, index, strict=True))
        inside = all(0 <= i < size for i, size in zip(at, shape, strict=True))
        expected[index] = array[at] if inside else 0
    dimensions, first = [], 0
    found = np.full(buffer, -1)
    for i, size in enumerate(shape):
        before = min(max(-low[i], 0), sizes[i])
        after = min(max(low[i] + sizes[i] - size, 0), sizes[i] - before)
        strides = (array.strides[i] // 8, found.strides[i] // 8)
        dimensions.append(Dimension(sizes[i] - before - after, *strides, before, after))
        first += max(low[i], 0) * strides[0] if sizes[i] > before + after else 0
    run(transfers(dimensions), array.ravel()[first:], found.reshape(-1))
    np.testing.assert_array_equal(found, expected)


def test_whole_dimensions_are_one_row() -> None:
    dimensions = [Dimension(2, 196, 196), Dimension(14, 14, 14), Dimension(14, 1, 1)]
    assert transfers(dimensions) == [Transfer(0, 0, 1, 392, 392)]


def test_a_padded_window_is_one_load_per_plane() -> None:
    dimensions = [Dimension(2, 196, 256), Dimension(14, 14, 16, 1, 1), Dimension(14, 1, 1, 1, 1)]
    assert transfers(dimensions) == [
        Transfer(0, 0, 14, 14, 14, (1, 1, 1, 1)),
        Transfer(256, 196, 14, 14, 14, (1, 1, 1, 1)),
    ]


def test_rows_of_a_tile_are_one_load() -> None:
    dimensions = [Dimension(2, 196, 56), Dimension(4, 14, 14), Dimension(14, 1, 1)]
    assert transfers(dimensions) == [Transfer(0, 0, 2, 56, 196)]

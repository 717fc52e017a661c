"""Tiled layouts: the maps and the arrays agree, whatever is cut into tiles."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.rewrites.tiled_layout import TiledLayout


@st.composite
def layouts(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    cut = draw(st.permutations(range(len(shape))))[: draw(st.integers(0, len(shape)))]
    return TiledLayout(shape, {d: draw(st.integers(1, 5)) for d in cut})


def at(index, point):
    dims = [AffineExpr.dimension(i) for i in range(len(point))]
    return AffineMap(len(point), 0, tuple(index(dims))).eval(list(point), [])


@given(layouts())
def test_an_element_lies_where_both_maps_say(layout):
    plain = np.arange(1, 1 + np.prod(layout.shape)).reshape(layout.shape)
    packed = layout.pack(plain)
    assert packed.shape == layout.packed
    for point in np.ndindex(layout.shape):
        place = at(layout.packed_index, point)
        assert packed[tuple(place)] == plain[point]
        assert tuple(at(layout.plain_index, place)) == point
    assert np.count_nonzero(packed) == plain.size  # zeros fill the rest
    assert layout.divides == (packed.size == plain.size)


def test_weights_in_two_dimensions():
    layout = TiledLayout((3, 5, 2), {0: 2, 1: 4})
    assert layout.packed == (2, 2, 2, 2, 4)
    values = np.arange(30).reshape(3, 5, 2)
    assert layout.pack(values)[1, 1, 1].tolist() == [[values[2, 4, 1], 0, 0, 0], [0] * 4]

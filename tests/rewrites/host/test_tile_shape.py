"""Register tiles fit the processor and cover all there is."""

from hypothesis import given
from hypothesis import strategies as st

from byocir.rewrites.host.tile_shape import heights_of, split, tile_shape
from byocir.toolchain.cpu import CPUS


@given(st.integers(1, 300), st.lists(st.integers(1, 60), max_size=2), st.sampled_from(sorted(CPUS)))
def test_tiles_fit_registers_and_cover_all_rows(extent, rows, cpu):
    shape = tile_shape(CPUS[cpu], extent, rows, fused=True)
    if shape is None:
        assert extent < 4
        return
    assert shape.rows * shape.vectors + shape.vectors + 1 <= CPUS[cpu].registers or shape.rows == 1
    for row, height in zip(rows, heights_of(rows, shape.rows), strict=True):
        covered = [i for start, stop, step in split(row, height) for i in range(start, stop, step)]
        assert covered[0] == 0
        assert len(covered) == len(set(covered))
        ends = [stop for _, stop, _ in split(row, height)]
        assert ends[-1] == row
        assert all((stop - start) % step == 0 for start, stop, step in split(row, height))

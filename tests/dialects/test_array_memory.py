"""Memory that C code reads arrays from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.array import CHUNK, SharedMemory
from byocir.toolchain.calling import ALIGN, aligned, aligned_zeros

SHAPES = st.lists(st.integers(1, 7), max_size=3).map(tuple)
DTYPES = st.sampled_from([np.dtype(np.int8), np.dtype(np.float32), np.dtype(np.int64)])


@given(SHAPES, DTYPES, st.integers(0, 3))
def test_aligned_values_are_the_values(shape, dtype, skipped):
    memory = np.zeros(8 * 8**3 + 64, np.uint8)[skipped * dtype.itemsize :]
    values = memory[: np.prod(shape, dtype=int) * dtype.itemsize].view(dtype).reshape(shape)
    values[...] = np.arange(values.size).reshape(shape)
    found = aligned(values)
    assert found.ctypes.data % ALIGN == 0
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, values)
    assert aligned(found) is found


def test_values_in_another_order_are_copied():
    values = aligned_zeros((3, 4), np.dtype(np.float32)) + np.arange(4, dtype=np.float32)
    assert aligned(values.T).flags.c_contiguous
    np.testing.assert_array_equal(aligned(values.T), values.T)


@given(st.lists(st.tuples(SHAPES, DTYPES), max_size=6))
def test_arrays_that_share_memory_do_not_overlap(wanted):
    memory = SharedMemory()
    arrays = [memory.zeros(shape, dtype) for shape, dtype in wanted]
    for i, array in enumerate(arrays):
        assert array.ctypes.data % ALIGN == 0
        assert not array.any()
        array[...] = i + 1
    for i, (array, (shape, dtype)) in enumerate(zip(arrays, wanted, strict=True)):
        assert (array.shape, array.dtype) == (shape, dtype)
        assert (array == i + 1).all()


def test_an_array_of_more_than_a_piece_has_its_own():
    memory = SharedMemory()
    small, large = (memory.zeros((n,), np.dtype(np.uint8)) for n in (10, CHUNK + 10))
    assert large.size == CHUNK + 10
    assert not np.shares_memory(small, large)

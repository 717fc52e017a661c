"""Numbers are sums of products of a constant input with weights, or are too large for that."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.rewrites.numbers_as_products import (
    input_of_numbers,
    least_count,
    weights_of_numbers,
)


@given(
    hnp.arrays(np.int32, (2, 3, 16), elements=st.integers(-241_900, 241_900)),
    st.sampled_from([2, 16]),
)
def test_numbers_are_products_of_one_input(numbers: np.ndarray, block: int) -> None:
    numbers = numbers[..., :block] // (1 if block > 2 else 16)
    weights = weights_of_numbers(numbers, block, 127, 127)
    assert weights is not None
    np.testing.assert_array_equal(weights @ input_of_numbers(block, 127), numbers)


@given(
    hnp.arrays(np.int32, 4, elements=st.integers(-(2**31), 2**31 - 1) | st.integers(-999, 999)),
    st.sampled_from([1, 127, 255, 32767]),
    st.sampled_from([1, 7, 127, 32767, 2**31 - 1]),
)
def test_as_many_products_as_numbers_need_do(numbers: np.ndarray, largest: int, most: int) -> None:
    count = least_count(numbers, largest, most)
    if count > 10_000:
        return
    weights = weights_of_numbers(numbers, count, largest, most)
    if weights is None:  # no weight is as large as the lower digit
        assert largest // 2 > most
        return
    assert np.abs(weights).max() <= most
    np.testing.assert_array_equal(weights @ input_of_numbers(count, largest), numbers)
    assert count == 1 or weights_of_numbers(numbers, count - 1, largest, most) is None

"""Functions are asked once about each combination of numbers that occurs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.machine.call_cycles import asked


@given(st.data())
def test_each_combination_is_asked_once(data: st.DataObject) -> None:
    whole = data.draw(st.lists(st.integers(1, 4), max_size=3))

    def drawn(most: int) -> np.ndarray:
        sides = [data.draw(st.sampled_from([1, size])) for size in whole]
        count = int(np.prod(sides, dtype=np.int64))
        drawn = data.draw(st.lists(st.integers(0, most), min_size=count, max_size=count))
        return np.array(drawn, np.int64).reshape(sides)

    numbers = [drawn(3) for _ in range(data.draw(st.integers(0, 4)))]
    where, seen = drawn(1) > 0, list[tuple[int, ...]]()

    def question(*given: int) -> float:
        seen.append(given)
        return sum(10**i * n for i, n in enumerate(given)) + 0.5

    found = asked(question, numbers, where)
    wanted = sum((10**i * array for i, array in enumerate(numbers)), np.zeros(())) + 0.5
    assert np.array_equal(found, np.where(where, wanted, 0))
    assert len({*seen}) == len(seen)

"""Functions are asked once about each combination of numbers that occurs, and one block costs what
it does among many."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.machine.call_cycles import asked, cycles_of_block, cycles_of_calls


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


@given(st.data())
def test_one_block_costs_what_it_does_among_many(data: st.DataObject) -> None:
    def cost(sizes: dict[str, int]) -> float:
        return 0.5 + sum(10**i * n for i, n in enumerate(sizes.values()))

    def cost_kept(sizes: dict[str, int]) -> float:
        return cost(sizes) / 2

    keeps = data.draw(st.sampled_from(["", "w"]))
    instruction = SimpleNamespace(keeps=keeps, cost=cost, cost_kept=cost_kept)
    iterators = data.draw(st.sampled_from([{"a": (0,)}, {"a": (1,), "b": ()}, {"a": (0, 2)}, {}]))
    turns = data.draw(st.frozensets(st.integers(0, 2)))
    fit = SimpleNamespace(instruction=instruction, iterators=iterators, turns=turns)
    side = st.lists(st.integers(1, 9), min_size=3, max_size=3)
    sizes, blocks = data.draw(side), data.draw(st.lists(side, min_size=1, max_size=4))
    extents = [np.array(column, np.int64) for column in zip(*blocks, strict=True)]
    of_each = [np.full(len(blocks), size, np.int64) for size in sizes]
    found = cycles_of_calls(fit, of_each, extents, np.ones(len(blocks), np.bool_))
    assert found.tolist() == [cycles_of_block(fit, sizes, block) for block in blocks]

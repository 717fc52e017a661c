"""Arena planning against the best of all orders, one of which is exact."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byocir.lowering.tir_to_c.arena import ALIGN, Lifetime, lower_bound, place, plan

lifetimes = st.builds(
    lambda nbytes, first, length: Lifetime(nbytes, first, first + length),
    st.integers(0, 9 * ALIGN),
    st.integers(0, 9),
    st.integers(0, 5),
)


@pytest.mark.hypothesis
@given(st.lists(lifetimes, max_size=30))
def test_buffers_that_meet_do_not_overlap(buffers):
    arena = plan(buffers)
    assert arena.nbytes >= arena.lower_bound == lower_bound(buffers)
    placed = list(zip(arena.offsets, buffers, strict=True))
    for i, (offset, buffer) in enumerate(placed):
        assert offset % ALIGN == 0
        assert offset + buffer.nbytes <= arena.nbytes
        for other, their in placed[:i]:
            apart = offset + buffer.nbytes <= other or other + their.nbytes <= offset
            assert apart or not buffer.meets(their)


@pytest.mark.hypothesis
@given(st.lists(lifetimes, max_size=5))
def test_the_plan_is_near_the_best(buffers):
    """Some order always gives the best plan: that of the best plan's own offsets."""
    best = min(place(buffers, order).nbytes for order in permutations(range(len(buffers))))
    found = plan(buffers)
    assert found.lower_bound <= best <= found.nbytes
    assert 2 * found.nbytes <= 3 * best


def test_no_buffers_take_no_room():
    assert plan([]).nbytes == 0


def test_one_after_the_other_share():
    chain = [Lifetime(100, i, i + 1) for i in range(8)]
    assert plan(chain).nbytes == lower_bound(chain) == 256

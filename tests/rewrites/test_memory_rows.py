"""What is alive at once lies in rows of its own, far from what was used lately."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from byocir.rewrites.memory_rows import Full, Life, arranged, spread

ROWS = 48


def longer(life: Life, slack: int) -> Life:
    return replace(life, last=life.last + slack)


lives = st.builds(
    lambda rows, first, steps: Life(rows, first, first + steps),
    st.integers(1, 12),
    st.integers(0, 200),
    st.integers(0, 6) | st.integers(0, 150),
)


@given(st.lists(lives, max_size=40), st.sampled_from([1, 2, 4]))
def test_rows_of_lives_that_meet_do_not_overlap(needed: list[Life], banks: int) -> None:
    found = arranged(ROWS, needed, banks)
    if isinstance(found, Full):
        alive = [needed[i] for i in found.alive]
        assert all(a.meets(b) for a in alive for b in alive)
        assert found.wanted == sum(life.rows for life in alive)
        return
    taken = [(row, row + life.rows, life) for row, life in zip(found, needed, strict=True)]
    bank = ROWS // banks
    for i, (low, high, life) in enumerate(taken):
        assert low >= 0
        assert high <= ROWS
        assert low // bank == (high - 1) // bank or low % bank == 0
        assert all(high <= a or b <= low for a, b, o in taken[:i] if o.meets(life))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20))
def test_lives_that_all_meet_are_refused_only_where_they_do_not_fit(sizes: list[int]) -> None:
    found = arranged(ROWS, [Life(rows, i, 99) for i, rows in enumerate(sizes)])
    assert isinstance(found, Full) == (sum(sizes) > ROWS)


def test_what_follows_lies_elsewhere() -> None:
    tiles = [Life(4, step, step) for step in range(6)]
    assert spread(10, tiles, longer) == [0, 4, 0, 4, 0, 4]
    assert spread(4, tiles, longer) == [0] * 6
    assert spread(10, [Life(4, 6, 6)], longer, before=[(0, tiles[-1])]) == [4]
    assert spread(10, [Life(11, 0, 0)], longer) == Full((0,), 11)


def test_rows_are_taken_again_at_once_only_where_there_are_none_left() -> None:
    """A step that needs the whole memory does not keep other steps from running beside each
    other."""
    tiles = [Life(4, step, step) for step in range(12)]
    full = Life(10, 12, 12)
    found = spread(10, [*tiles, full], longer)
    assert not isinstance(found, Full)
    assert found[:10] == [0, 4] * 5


@given(st.lists(lives, max_size=40), st.sampled_from([1, 2, 4]))
def test_spreading_finds_room_wherever_there_is_some(needed: list[Life], banks: int) -> None:
    found, least = spread(ROWS, needed, longer, banks), arranged(ROWS, needed, banks)
    assert isinstance(found, Full) == isinstance(least, Full)
    taken = [] if isinstance(found, Full) else [*zip(found, needed, strict=True)]
    for i, (low, life) in enumerate(taken):
        near = [(row, other) for row, other in taken[:i] if other.meets(life)]
        assert all(low + life.rows <= row or row + other.rows <= low for row, other in near)

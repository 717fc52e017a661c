"""The conflicts of a program are those that every two of its instructions have, but for those that
follow from earlier ones."""

from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from byocir.machine_sim import Access, Instruction, Program, accesses, conflicts

ACCESSES = st.builds(
    lambda memory, start, size: Access(memory, start, start + size),
    st.sampled_from(["near", "far"]),
    st.integers(0, 9),
    st.integers(0, 4),
)
SOME = st.lists(ACCESSES, max_size=3)
PROGRAMS = st.lists(
    st.builds(lambda unit, reads, writes: (unit, reads, writes), st.integers(0, 2), SOME, SOME),
    max_size=12,
)


def _meet(one: Sequence[Access], other: Sequence[Access]) -> bool:
    return any(
        a.memory == b.memory and max(a.start, b.start) < min(a.stop, b.stop)
        for a in one
        for b in other
    )


def _expected(program: Sequence[Instruction]) -> dict[int, list[int]]:
    found, known = dict[int, list[int]](), dict[tuple[int, int], int]()
    for index, each in enumerate(program):
        latest = dict[int, int]()
        for before, other in enumerate(program[:index]):
            read = _meet(each.writes, other.reads) or _meet(each.reads, other.writes)
            if other.unit != each.unit and (read or _meet(each.writes, other.writes)):
                latest[other.unit] = before
        latest = {u: last for u, last in latest.items() if last > known.get((each.unit, u), -1)}
        known |= {(each.unit, unit): last for unit, last in latest.items()}
        if latest:
            found[index] = sorted(latest.values())
    return found


@given(PROGRAMS, st.sampled_from([1 << 22, 3]), st.sampled_from([None, ("near",)]))
def test_conflicts_are_those_of_pairs(parts, most, memories) -> None:
    program = [Instruction(unit, reads=reads, writes=writes) for unit, reads, writes in parts]
    named = [
        each._replace(
            reads=[a for a in each.reads if memories is None or a.memory in memories],
            writes=[a for a in each.writes if memories is None or a.memory in memories],
        )
        for each in program
    ]
    with patch.object(accesses, "MOST", most):
        assert conflicts(Program.of(program), memories) == _expected(named)

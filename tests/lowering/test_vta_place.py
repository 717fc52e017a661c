"""Buffers that loops meet have addresses of their own as long as they are used, and alternate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block

from byocir.dialects.tir import AllocOp, FillOp, ForOp
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.place import Placer, Places
from byocir.vta_sim import DEFAULT_CONFIG, Memory

SMALL = replace(DEFAULT_CONFIG, log_acc_buff_size=12)
DEPTH = SMALL.depth(Memory.ACC)


@dataclass(frozen=True)
class Buffer:
    """A buffer of so many accumulators, last used by so many steps after it."""

    size: int
    steps: int


@dataclass(frozen=True)
class Loop:
    """Steps that run so many times."""

    count: int
    steps: Sequence[Buffer | Loop]

    def fill(self, block: Block) -> None:
        """Appends the ops of the steps to a block."""
        uses: dict[int, list[AllocOp]] = {}
        for number, step in enumerate(self.steps):
            if isinstance(step, Loop):
                loop = ForOp.of(step.count)
                step.fill(loop.body.block)
                block.add_op(loop)
            else:
                alloc = AllocOp.of(i32, (step.size, 1, SMALL.block_out), "vta.acc")
                block.add_op(alloc)
                last = min(number + step.steps, len(self.steps) - 1)
                uses.setdefault(last, []).append(alloc)
            for alloc in uses.get(number, ()):
                block.add_op(FillOp.of(IntegerAttr(0, i32), alloc.result))


def loops(steps: st.SearchStrategy[Buffer | Loop]) -> st.SearchStrategy[Loop]:
    return st.builds(Loop, st.integers(1, 4), st.lists(steps, min_size=1, max_size=4))


buffers = st.builds(Buffer, st.integers(1, DEPTH // 3), st.integers(0, 3))
bodies = st.lists(loops(buffers | loops(buffers)), min_size=1, max_size=3)


def steps_of(block: Block) -> Iterator[tuple[AllocOp, bool]]:
    """Each buffer as it is met, and as it is used for the last time."""
    for op in block.ops:
        if isinstance(op, AllocOp):
            yield op, True
        elif isinstance(op, ForOp):
            for _ in range(op.extent.value.data):
                yield from steps_of(op.body.block)
        elif isinstance(op, FillOp):
            assert op.destination is not None
            assert isinstance(op.destination.owner, AllocOp)
            yield op.destination.owner, False


def size_of(op: AllocOp) -> int:
    return shape_of(op.result.type)[0]


def check(block: Block, places: Places) -> None:
    """Asserts that what is used at once lies apart."""
    rows = {op: iter(starts) for op, starts in places.items()}
    used: dict[AllocOp, range] = {}
    for op, begins in steps_of(block):
        if not begins:
            del used[op]
            continue
        start = next(rows[op])
        taken = range(start, start + size_of(op))
        assert start >= 0
        assert taken.stop <= DEPTH
        assert all(o.stop <= start or taken.stop <= o.start for o in used.values())
        used[op] = taken
    assert not any(list(left) for left in rows.values())


def fits(block: Block) -> bool:
    """Whether each buffer fits twice beside all others."""
    return 2 * sum(map(size_of, {op for op, _ in steps_of(block)})) <= DEPTH


def alternate(places: Places) -> bool:
    """Whether what a loop meets next always lies elsewhere than what it met before."""
    return all(
        a + size_of(op) <= b or b + size_of(op) <= a
        for op, starts in places.items()
        for a, b in pairwise(starts)
    )


@given(bodies)
@example([Loop(1, [Buffer(35, 0)]), Loop(3, [Buffer(1, 1), Loop(4, [Buffer(30, 0)])])])
def test_what_is_used_at_once_lies_apart(given_loops: list[Loop]) -> None:
    placer = Placer(SMALL)
    for loop in given_loops:
        body = Block()
        loop.fill(body)
        try:
            places = placer.places(body)
        except ByocirError as error:
            event(f"refused: {error.code}")
            assert not fits(body)
            return
        check(body, places)
        if fits(body):
            assert alternate(places)


def test_a_tile_that_fits_once() -> None:
    body = Block()
    Loop(1, [Loop(3, [Buffer(40, 0), Buffer(40, 0), Buffer(24, 0)])]).fill(body)
    places = Placer(SMALL).places(body)
    check(body, places)


def test_tiles_that_do_not_fit() -> None:
    body = Block()
    Loop(1, [Loop(3, [Buffer(40, 1), Buffer(25, 0)])]).fill(body)
    with pytest.raises(ByocirError, match=r"B331.*vta\.acc .* found 65 .* 64 there: 40x1x16, 25x"):
        Placer(SMALL).places(body)

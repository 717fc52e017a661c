"""Tiles are those for which the banks of a memory have room, not its rows alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from random_machines import gemm, multiply_add, product_module

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Machine, Memory, up_to
from byocir.patterns import Pattern, block
from byocir.rewrites.memory_rows import Full, Life, arranged

machine = Machine("random")
core = machine.unit("core")
near = machine.memory("near", i8, row=(16,), rows=256)
sums = machine.memory("sums", i32, row=(16,), rows=64, banks=2)
for name, source, into in (("load", MAIN, near), ("store", sums, MAIN)):
    machine.copy(
        name, source, into, unit=core, cycles=lambda s: s["rows"], rows=up_to(16), lanes=up_to(16)
    )


@machine.instruction(core, into=sums, cycles=lambda s: 1, m=up_to(16), n=up_to(16), k=up_to(16))
def product() -> Pattern:
    return block("m n | k", near("a")["m k"], near("w")["k n"], multiply_add)


class Banked(byocir.Target):
    name, patterns = "random", (gemm,)
    machine = machine


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.sampled_from([1, 2, 4]))
def test_buffers_find_room_where_they_are_placed(rows: list[int], banks: int) -> None:
    memory = Memory("near", i8, (16,), 64, banks)
    placed = arranged(64, [Life(each, 0, 0) for each in rows], banks)
    assert memory.holds(rows) == (not isinstance(placed, Full))


def test_a_buffer_larger_than_a_bank_begins_with_one() -> None:
    module = product_module(48, 16, 16, relu=False)
    package = byocir.compile(module, targets=[Banked()], levels=("tensor",))
    assert [each.taken for each in package.report.decisions] == [True]

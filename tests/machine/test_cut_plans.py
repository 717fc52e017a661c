"""Plans are the same whether it is told why there are no others or not, and whether all or the best
are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import add, sub

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrowing_engine import multiply_add
from random_machines import conv_module
from xdsl.ir import Block

from byocir.dialects.tir import BlockOp, buffer
from byocir.dialects.tir.scalar import Emitted, number_attr
from byocir.dialects.types import i8, i32, tensor
from byocir.machine import Limit, Machine, exactly, multiples_of, up_to
from byocir.machine.cut_plans import Plan, plans_of
from byocir.machine.find_instruction import Asked, fits
from byocir.machine.instructions import Fit
from byocir.machine.nearest_misses import Misfit, nearest_first
from byocir.patterns import Match, Pattern, block
from byocir.rewrites.machine.pieces import each_element


def lanes_of(lanes: Limit, *, ruled: bool = False) -> Machine:
    """Describes a machine with so many lanes, which adds rows and subtracts single vectors; with a
    rule that always holds, instructions see the sizes of blocks.
    """
    machine = Machine("vectors")
    core = machine.unit("core")
    near = machine.memory("near", i32, row=(8,), rows=512)

    @machine.instruction(core, lanes=lanes, i=up_to(4), j=multiples_of(2, 16), cycles=lambda s: 9)
    def added() -> Pattern:
        own = near("y")["i j lanes"]
        return block("i j lanes", own, lambda x, y: x + y, init=near("x"))

    @machine.instruction(core, lanes=lanes, cycles=lambda s: s["lanes"])
    def subtracted() -> Pattern:
        return block("lanes", near("y")["lanes"], lambda x, y: x - y, init=near("x"))

    for each in machine.instructions if ruled else ():

        @each.rule
        def any_size(m: Match) -> tuple[bool, str]:
            """Blocks have any size."""
            return True, "one"

    return machine


MACHINES = [lanes_of(limit) for limit in (exactly(8), multiples_of(8, 24), up_to(8))]
SIZES = st.lists(st.sampled_from([1, 2, 3, 8, 9, 12, 16, 40]), min_size=1, max_size=4)


@pytest.mark.parametrize("asked", ["pattern", "memories"])
@given(machine=st.sampled_from(MACHINES), shape=SIZES, adds=st.booleans())
def test_plans_do_not_depend_on_reasons(
    asked: Asked, machine: Machine, shape: list[int], adds: bool
) -> None:
    outside = Block(arg_types=[tensor(i32, shape)] * 2)

    def computed(y: Emitted, x: Emitted) -> Emitted:
        return (add if adds else sub)(x, y)

    made = each_element(outside.args[1], computed, outside.args[0])
    outside.add_op(made)
    told = plans_of(machine, made, made.extents, asked, reasons := list[str]())
    found = plans_of(machine, made, made.extents, asked, every=True)
    assert [*map(_seen, found)] == [*map(_seen, told)]
    assert found or reasons
    _expect_the_best(plans_of(machine, made, made.extents, asked), found)


def _expect_the_best(kept: Sequence[Plan], every: Sequence[Plan]) -> None:
    """What is left out of all plans does parts of what a kept one does, in no fewer cycles."""
    assert [each for each in map(_seen, every) if each in map(_seen, kept)] == [*map(_seen, kept)]
    for plan in every:
        assert any(
            plan.instruction is each.instruction
            and each.cycles <= plan.cycles
            and all(most >= size for most, size in zip(each.sizes, plan.sizes, strict=True))
            for each in kept
        )


def test_plans_leave_out_calls_that_do_parts_of_others() -> None:
    """A call may run over few iterators of a convolution, or over all of them, which is best."""
    machine = Machine("six")
    unit = machine.unit("unit", queue=1)
    near = machine.memory("near", i8, row=(8,), rows=64)
    sums = machine.memory("sums", i32, row=(8,), rows=64)

    @machine.instruction(unit, into=sums, cycles=lambda s: 9 + prod(s.values()))
    def convolve() -> Pattern:
        x, w = near("x")["(y + r) (x + s) k"], near("w")["r s k n"]
        added = block("y x n | r s k", x, w, multiply_add, init=sums("c"))
        return added | block("y x n | r s k", x, w, multiply_add)

    module = conv_module((6, 5, 8), ((2, 1, 1, 0, 0),) * 2, 8)
    (made,) = (op for op in module.walk() if isinstance(op, BlockOp))
    for start in (None, number_attr(0, i32)):
        every = plans_of(machine, made, made.extents, "pattern", None, start, every=True)
        kept = plans_of(machine, made, made.extents, "pattern", None, start)
        assert [each.sizes for each in kept] == [made.extents]
        assert len(every) > len(kept)
        _expect_the_best(kept, every)


@given(
    lanes=st.sampled_from([exactly(8), multiples_of(8, 24), up_to(8)]),
    shape=SIZES,
    adds=st.booleans(),
    shared=st.booleans(),
)
def test_instructions_without_rules_fit_as_if_they_saw_all_sizes(
    lanes: Limit, shape: list[int], adds: bool, shared: bool
) -> None:
    """What they say about a block of other sizes may serve for this one."""
    outside = Block(arg_types=[buffer(i32, shape, "vectors.near")] * 2)

    def computed(y: Emitted, x: Emitted) -> Emitted:
        return (add if adds else sub)(x, y)

    made = each_element(outside.args[1], computed, outside.args[1 if shared else 0])
    outside.add_op(made)
    own, ruled = (
        [_said(each) for each in fits(lanes_of(lanes, ruled=ruled), made, made.extents)]
        for ruled in (False, True)
    )
    assert own == ruled


def _said(found: Fit | Misfit) -> tuple[object, ...]:
    if isinstance(found, Misfit):
        return found.reason, found.reached
    return found.instruction.name, found.iterators, found.operands, found.memories


def _seen(plan: Plan) -> tuple[object, ...]:
    return plan.instruction, plan.fit.iterators, plan.fit.operands, plan.sizes, plan.cycles


def test_the_instruction_that_comes_nearest_is_told_first() -> None:
    """Only the number of lanes keeps the second one from a subtraction."""
    outside = Block(arg_types=[tensor(i32, [3])] * 2)
    made = each_element(outside.args[1], lambda y, x: x - y, outside.args[0])
    outside.add_op(made)
    misfits = list[Misfit]()
    assert plans_of(lanes_of(exactly(8)), made, made.extents, "pattern", misfits) == []
    first, *others = map(str, nearest_first(misfits))
    assert first == "vectors.subtracted: expected lanes exactly 8, found 3"
    assert any(each.startswith("vectors.added: expected body") for each in others)

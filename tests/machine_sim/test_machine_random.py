"""The engines on random programs. Machines that know the rules only run them in any order: what is
called safe gives the same bytes in all of them, what is called a race happens both ways. And a
clock that ticks has the same times."""

import pytest
from drawn_choices import strategy
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_clock import Clock
from machine_programs import (
    KINDS,
    SIZES,
    Machine,
    Program,
    at_random,
    careless,
    conflict,
    in_runs,
    ordered,
    putting_off,
    timed,
)

from byocir.machine_sim import Stuck, Wait, hazards, legal_order, order_of, run_times

DRAWN = settings.default.max_examples
few = settings(max_examples=4 * DRAWN if DRAWN >= 500 else DRAWN // 2)
"""Two thousand of each kind with `make fuzz`."""
ORDERS = 4


def in_program_order(program: Program):
    """What memories hold after a program, one instruction after the other."""
    alone = Machine(program)
    for index in range(len(program.instructions)):
        alone.queues[program.instructions[index].unit].append(index)
        alone.tokens = [len(program.instructions)] * len(alone.tokens)
        alone.act(index)
    return alone.memory


def check_orders(program: Program) -> None:
    """Any order gives the same bytes."""
    expected = in_program_order(program)
    for seed in range(ORDERS):
        machine = Machine(program).run(at_random(seed))
        assert machine.whole
        assert machine.memory == expected


def happens_both_ways(program: Program, first: int, second: int) -> bool:
    """Whether some run has `second` before `first`, and some the other way round."""
    for one, other in ((first, second), (second, first)):
        ran = Machine(program).run(putting_off(one)).ran
        if ran.index(other) > ran.index(one):
            return False
    return True


def races(program: Program) -> list[tuple[int, int]]:
    return [(h.first, h.second) for h in hazards(program.model, program.columns)]


@pytest.mark.parametrize("kind", KINDS)
def test_programs_in_order_give_the_same_bytes_in_any_order(kind):
    @few
    @given(strategy(lambda choose: ordered(choose, kind)))
    def check(program):
        assert hazards(program.model, program.columns) == []
        check_orders(program)

    check()


def weaker(program: Program):
    """A program with one wait less, or one that waits for one instruction less, for each wait."""
    for index, instruction in enumerate(program.instructions):
        for number, queue in enumerate(instruction.pops):
            pushers = [i for i, each in enumerate(program.instructions) if queue in each.pushes]
            poppers = [i for i, each in enumerate(program.instructions) if queue in each.pops]
            other = pushers[poppers.index(index)]
            left = [q for q in program.instructions[other].pushes if q != queue]
            pops = [*instruction.pops[:number], *instruction.pops[number + 1 :]]
            yield program.changed(other, pushes=left).changed(index, pops=pops)
        for number, wait in enumerate(instruction.waits):
            others = [*instruction.waits[:number], *instruction.waits[number + 1 :]]
            yield program.changed(index, waits=others)
            yield program.changed(index, waits=[*others, Wait(wait.unit, wait.most + 1)])
    for memory in sorted(program.model.guarded):
        guarded = program.model.guarded - {memory}
        yield Program(type(program.model)(program.model.units, (), guarded), program.instructions)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "one unit"])
def test_each_wait_is_needed_or_proved_redundant(kind):
    @few
    @given(strategy(lambda choose: ordered(choose, kind)))
    def check(program):
        for changed in weaker(program):
            found = races(changed)
            for first, second in found:
                assert happens_both_ways(changed, first, second)
            if not found:
                check_orders(changed)

    check()


@few
@given(strategy(careless))
def test_all_races_and_deadlocks_of_careless_programs_are_found(program):
    found = hazards(program.model, program.columns)
    kinds = {h.kind for h in found}
    assert ("deadlock" in kinds) != Machine(program).run(at_random(0)).whole
    order = legal_order(order_of(program.model, program.columns))
    assert sorted(order) == sorted(Machine(program).run(at_random(1)).ran)
    if "deadlock" in kinds:
        return
    told = {(h.first, h.second) for h in found if h.kind == "race"}
    instructions = program.instructions
    real = {
        (i, j)
        for j in range(len(instructions))
        for i in range(j)
        if instructions[i].unit != instructions[j].unit
        and conflict(instructions[i], instructions[j], list(SIZES))
        and happens_both_ways(program, i, j)
    }
    assert told <= real
    assert bool(told) == bool(real)


@few
@given(st.one_of(strategy(timed), strategy(in_runs)))
def test_times_are_those_of_a_clock_that_ticks(program):
    clock = Clock(program).run()
    if clock.stuck:
        with pytest.raises(Stuck):
            run_times(program.model, program.columns)
        return
    times = run_times(program.model, program.columns)
    assert times.delivered.tolist() == clock.delivered
    assert times.start.tolist() == clock.start
    assert times.end.tolist() == clock.end
    assert times.cycles == max([*clock.done, clock.now])
    for unit in (*times.units, times.sequencer):
        assert sum(vars(unit).values()) == times.cycles
        assert min(vars(unit).values()) >= 0

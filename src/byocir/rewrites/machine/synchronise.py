"""synchronise: says what each instruction of a machine waits for, by what keeps its units in order.

Does: finds from what instructions read and write those that must not overlap, and says so as the
machine's order demands: `waits(dma = 1)` where instructions count what is outstanding, `pops(load)`
and `pushes(compute)` where they exchange tokens, nothing where the machine itself holds them back.
Where no tokens lead from one unit to another they go by way of a third one, in an instruction that
leaves a row as it is if that unit does nothing between the two. Where a unit begins with loads over
a channel, tokens keep what follows these in the program from overtaking them: loads of lower rank
would go first, each time, until their memories are full.

Requires: functions whose ops are instructions with buffers that have rows. Raises ByocirError B273
for two units that must wait for each other and cannot.

Guarantees: whatever the units' speed, the results are those of the program's order. What one wait
implies is not waited for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import Calls, InOrder, Machine, Tokens, Transfer, Unit
from byocir.machine.calls import IssuedCalls, ops_in
from byocir.machine.operand_places import Span
from byocir.machine_sim import Accesses, Program, conflicts
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.relays import carrier, relay_of
from byocir.rewrites.unit_order import OrderedStep, Ordering, UnorderedError

_Pair = tuple[int, int]
"""The unit that pushes tokens, and the one that pops them."""


@dataclass(frozen=True)
class SynchronisePass(ModulePass):
    """Notes on the instructions of a machine what they wait for."""

    name = "synchronise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            synchronise(machine, ops_in(machine, function.body.block))


def synchronise(machine: Machine, calls: Sequence[Calls]) -> None:
    """Sets what each call waits for. Raises ByocirError B273."""
    order = machine.ordered
    if isinstance(order, InOrder):
        return
    if isinstance(order, Tokens):
        _exchange(machine, order, calls)
    else:
        _count([unit.name for unit in machine.units], calls, _needs(machine, calls))


def _needs(machine: Machine, calls: Sequence[Calls]) -> list[dict[int, int]]:
    """Finds the calls that each call must come after: of other units the latest one, where no
    earlier call of its own unit comes after that. Memories that the machine itself watches do not
    count, nor do arrays that no call writes.
    """
    written, guarded = {call.into[0] for call in calls}, machine.guarded

    def rows() -> Iterator[tuple[int, bool, str, Sequence[Span]]]:
        for number, call in enumerate(calls):
            for writes, places in ((False, call.read), (True, [call.result])):
                for at in places:
                    alone = at.memory.is_main and at.buffer not in written
                    if at.memory not in guarded and not alone:
                        yield number, writes, at.home, at.rows()

    units = [machine.units.index(call.unit) for call in calls]
    program = Program(
        np.array(units, np.int64), np.zeros(len(calls), np.int64), Accesses.of(rows())
    )
    found = conflicts(program)
    return [{units[each]: each for each in found.get(at, ())} for at in range(len(calls))]


def _count(units: Sequence[str], calls: Sequence[Calls], needs: Sequence[dict[int, int]]) -> None:
    """Makes calls wait until few enough calls of a unit are outstanding. Calls are issued in order:
    what one has waited for, all later ones have.
    """
    listed, known = IssuedCalls(calls), dict[int, int]()
    own = np.array([units.index(call.unit.name) for call in calls], np.int64)[listed.op]
    turns_of = [np.flatnonzero(own == unit) for unit in range(len(units))]
    for at in listed.in_turn:
        begin = listed.turns_of(at)[0]
        waits = {each: last for each, last in needs[at].items() if last > known.get(each, -1)}
        known |= waits
        counts: dict[int, int] = {}
        for each, last in waits.items():
            done = listed.turns_of(last)
            latest = done[np.searchsorted(done, begin) - 1]
            issued = np.searchsorted(turns_of[each], [latest + 1, begin])
            counts[each] = int(issued[1] - issued[0])
        calls[at].op.set_order({units[each]: counts[each] for each in sorted(counts)})


def _exchange(machine: Machine, order: Tokens, calls: Sequence[Calls]) -> None:
    """Makes calls pop tokens that earlier calls push."""
    units = [unit.name for unit in machine.units]
    needs = _needs_in_turn(machine, order, calls)
    steps = _ordered(machine, order, calls, needs)
    while len(steps) > len(calls):
        calls = _with_carriers(machine, calls, needs, steps)
        needs = _needs_in_turn(machine, order, calls)
        steps = _ordered(machine, order, calls, needs)
    _keep_room(order.capacity, IssuedCalls(calls), steps)
    for call, step in zip(calls, steps, strict=True):
        pops, pushes = ([units[each] for each in side] for side in (step.pops, step.pushes))
        call.op.set_order({}, pops, pushes)


def _needs_in_turn(machine: Machine, order: Tokens, calls: Sequence[Calls]) -> list[dict[int, int]]:
    """Finds the calls that each call must come after, and those that it is not to overtake."""
    needs = _needs(machine, calls)
    for at, before in _overtaking(order, calls):
        unit = machine.units.index(calls[before].unit)
        needs[at][unit] = max(before, needs[at].get(unit, before))
    return needs


def _overtaking(order: Tokens, calls: Sequence[Calls]) -> Iterator[tuple[int, int]]:
    """Yields calls that would take a channel from one of another unit in front of them, each with
    that one, where the other unit has not done anything but ask for channels before. Those that
    take turns do not wait for each other: the last one is issued behind the first that would wait.
    """
    asking = dict[Unit, int]()
    working = set[Unit]()
    turns = 0
    for at, call in enumerate(calls):
        own = call.transfer
        if own is None:
            working.add(call.unit)
        if call.unit not in working:
            for unit, before in list(asking.items()):
                is_apart = before < turns and (unit, call.unit) in order.pairs
                if is_apart and _goes_first(own, calls[before].transfer):
                    yield at, asking.pop(unit)
            asking[call.unit] = at
        if not call.is_beside:
            turns = at + 1


def _goes_first(one: Transfer | None, other: Transfer | None) -> bool:
    """Tells whether a transfer takes the channel of another that has asked for it, too."""
    if one is None or other is None:
        return False
    return one.channel == other.channel and one.rank < other.rank


def _keep_room(capacity: int, issued: IssuedCalls, steps: Sequence[OrderedStep]) -> None:
    """Lets no more tokens of a pair of units wait than there is room for, so that the program can
    run in the order in which it is issued. A token too many is left out, with its pop: the one in
    front of it, whose pop is still to come, is pushed in its place.
    """
    pushes, pops = dict[_Pair, list[int]](), dict[_Pair, list[int]]()
    for at, step in enumerate(steps):
        for other in step.pushes:
            pushes.setdefault((step.unit, other), []).append(at)
        for other in step.pops:
            pops.setdefault((other, step.unit), []).append(at)
    for pair, own in pushes.items():
        kept: list[tuple[int, int]] = []
        for push, pop in zip(own, pops[pair], strict=True):
            pushed = issued.turns_of(push)[-1]
            oldest = kept[-capacity] if len(kept) >= capacity else None
            if oldest is not None and issued.turns_of(oldest[1])[0] > pushed:
                before, popped = kept.pop()
                steps[before].pushes.remove(pair[1])
                steps[pop].pops.remove(pair[0])
                kept.append((push, popped))
            else:
                kept.append((push, pop))


def _ordered(
    machine: Machine, order: Tokens, calls: Sequence[Calls], needs: Sequence[dict[int, int]]
) -> list[OrderedStep]:
    units, relay = machine.units, relay_of(machine)
    pairs = [(units.index(one), units.index(other)) for one, other in order.pairs]
    ordering = Ordering(len(units), pairs, None if relay is None else units.index(relay))
    for call, before in zip(calls, needs, strict=True):
        try:
            ordering.add(units.index(call.unit), before.values())
        except UnorderedError as error:
            raise _unordered(call, calls[error.first.source or 0]) from None
    return ordering.steps


def _with_carriers(
    machine: Machine,
    calls: Sequence[Calls],
    needs: Sequence[dict[int, int]],
    steps: Sequence[OrderedStep],
) -> list[Calls]:
    """Puts instructions in front of calls that carry tokens to them from what they need; gives all
    calls.
    """
    carried: list[int] = []
    for step in steps:
        if step.source is None:
            carried += step.pops
            continue
        call = calls[step.source]
        for producer in carried:
            _carry(machine, calls[needs[step.source][producer]], call)
        carried = []
    body = calls[0].op.parent
    assert body is not None
    return ops_in(machine, body)


def _carry(machine: Machine, first: Calls, then: Calls) -> None:
    """Puts an instruction between two calls that leaves a row as it is which the first reads or
    writes. Raises ByocirError B273 where the unit between theirs has none.
    """
    relay, home = relay_of(machine), then.op.parent
    assert relay is not None
    assert home is not None
    places = [each for each in first.places.values() if not each.memory.is_main]
    made = (carrier(machine, relay, each, then.op.location) for each in places)
    found = next((op for op in made if op is not None), None)
    if found is None:
        raise _unordered(then, first)
    home.insert_op_before(found, then.op)


def _unordered(call: Calls, before: Calls) -> ByocirError:
    return ByocirError(
        "B273",
        f"expected tokens from unit {before.unit.name} to unit {call.unit.name}, on which "
        f"{before.instruction.name} and then {call.instruction.name} access the same rows, found "
        "no such pair",
        where=place(call.op.location),
        help="name the pair in Tokens, or let one unit run both",
    )

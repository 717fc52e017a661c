"""Orders, by tokens, what units that run side by side do.

Each unit runs its instructions in order. Two instructions of different units that touch the same
element, one of them writing, must run in program order. A single pass finds few tokens that say so:

- For an instruction b and another unit A only the latest conflicting a of A matters: A is in order.
- What b already knows is not said again. A clock per instruction holds, for each unit, the latest
  instruction known to be done when it is done; it covers orders by way of a third unit.
- So along each queue both the pushing and the popping instructions advance, the k-th pop takes the
  k-th push, and no instruction exchanges two tokens of a pair of units.

Every wait is for an earlier instruction, so the program order itself is always possible, and
nothing deadlocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

NEVER = -1


@dataclass
class OrderedStep:
    """Describes an instruction of the ordered stream: its unit, its number in the program (None if
    it was inserted to carry tokens in front of the next that has one), and the units with which it
    exchanges tokens.
    """

    unit: int
    source: int | None
    pops: list[int] = field(default_factory=list[int])
    pushes: list[int] = field(default_factory=list[int])


class UnorderedError(Exception):
    """Says that two steps must be in order, between whose units there are no tokens."""

    def __init__(self, first: OrderedStep) -> None:
        super().__init__()
        self.first = first


class Ordering:
    """Orders a program, whose instructions are given one by one, by tokens between these pairs of
    units (who pushes, who pops); `steps` is the program with its tokens. An order between other
    units goes by way of the unit `relay`, if there is one; instructions that only carry tokens run
    on it, too.
    """

    def __init__(
        self, units: int, pairs: Collection[tuple[int, int]], relay: int | None = None
    ) -> None:
        self.steps: list[OrderedStep] = []
        self._pairs, self._relay = pairs, relay
        self._steps_of: list[int] = []
        self._clocks: list[list[int]] = []
        self._known = [[NEVER] * units for _ in range(units)]
        self._of_unit: list[list[int]] = [[] for _ in range(units)]
        self._last_pop = dict.fromkeys(pairs, NEVER)

    def add(self, unit: int, before: Iterable[int], *, last: bool = False) -> None:
        """Appends an instruction that must come after others. `before` has the numbers of the
        latest of these in other units (`byocir.machine_sim.conflicts`); the `last` instruction
        comes after all. An instruction that only carries tokens is put in front of it if one is
        needed. Raises UnorderedError where no tokens lead from one unit to another.
        """
        needs = {self.steps[step].unit: step for step in map(self._steps_of.__getitem__, before)}
        if last:
            needs = {other: steps[-1] for other, steps in enumerate(self._of_unit) if steps}
        needs.pop(unit, None)
        known, relay = self._known[unit], self._relay
        for other in [each for each in needs if (each, unit) not in self._pairs]:
            if relay is not None:
                need = needs.pop(other)
                if need > known[other]:
                    needs[relay] = max(needs.get(relay, NEVER), self._relayed(relay, other, need))
        self._steps_of.append(self._append(unit, len(self._steps_of), needs))

    def _append(self, unit: int, source: int | None, needs: dict[int, int]) -> int:
        """Appends a step that waits for these steps of other units; gives the step's number."""
        step, known = len(self.steps), self._known[unit]
        self.steps.append(OrderedStep(unit, source))
        for producer, need in sorted(needs.items(), key=lambda each: -each[1]):
            if need > known[producer]:  # an earlier wait may imply this one already
                self._wait(producer, need, unit, step)
        known[unit] = step
        self._clocks.append(list(known))
        self._of_unit[unit].append(step)
        return step

    def _wait(self, producer: int, pushing: int, consumer: int, popping: int) -> None:
        """Makes one step wait for another by a token; it then knows all that the pushing step
        knows.
        """
        if (producer, consumer) not in self._pairs:
            raise UnorderedError(self.steps[pushing])
        self.steps[pushing].pushes.append(consumer)
        self.steps[popping].pops.append(producer)
        self._last_pop[producer, consumer] = popping
        self._learn(self._known[consumer], pushing)

    def _learn(self, clock: list[int], step: int) -> None:
        clock[:] = map(max, clock, self._clocks[step])

    def _relayed(self, relay: int, producer: int, need: int) -> int:
        """Finds a step of the relay that comes after the step `need` of `producer`.

        The earliest one that waits for it anyway. Otherwise one is made to wait: the first after
        the producer's latest step, where it costs the relay least; else the last after `need`; else
        a new instruction that only carries tokens.
        """
        steps = self._of_unit[relay]
        waiting = bisect_left(steps, need, key=lambda step: self._clocks[step][producer])
        if waiting < len(steps):
            return steps[waiting]
        free = bisect_right(steps, max(need, self._last_pop[producer, relay]))
        if free == len(steps):
            return self._append(relay, None, {producer: need})
        after = max(bisect_right(steps, self._of_unit[producer][-1]), free)
        chosen = after if after < len(steps) else len(steps) - 1
        self._wait(producer, need, relay, steps[chosen])
        for step in steps[chosen:]:
            self._learn(self._clocks[step], need)
        return steps[chosen]

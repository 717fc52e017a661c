"""Orders what units that run side by side do, from what each of their instructions reads and
writes.

Each unit runs its instructions in order. Two instructions of different units that touch the same
element, one of them writing, must run in program order. Where tokens say so, there are as few as a
single pass can do:

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
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.types import Shape

Elements = NDArray[np.int64] | slice | tuple[slice, ...]
"""Elements of a space: distinct indices, a range, or a box."""
NEVER = -1


@dataclass(frozen=True)
class TouchedMemory:
    """A memory whose accesses may conflict, and how many elements it has. Spaces of equal keys are
    the same memory."""

    key: object
    shape: int | Shape


Touched = Sequence[tuple[TouchedMemory, Elements]]


@dataclass(frozen=True)
class Effects:
    """Keeps what an instruction of a unit reads and writes; units are numbers from 0. `last` is for
    one that comes after everything."""

    unit: int
    reads: Touched = ()
    writes: Touched = ()
    last: bool = False


class History:
    """Keeps, for each element of each memory, the latest step of each unit that read or wrote
    it."""

    def __init__(self, units: int) -> None:
        self._units = range(units)
        self._last: dict[tuple[TouchedMemory, int, bool], NDArray[np.int64]] = {}

    def conflicts(self, access: Effects) -> dict[int, int]:
        """Gives the latest step of each other unit that must be done before this access, if one
        must.
        """
        found: dict[int, int] = {}
        for writing, touched in ((False, access.reads), (True, access.writes)):
            for space, elements in touched:
                for unit in self._units:
                    if unit != access.unit:
                        latest = self._latest(space, unit, elements, writing)
                        if latest > found.get(unit, NEVER):
                            found[unit] = latest
        return found

    def _latest(self, space: TouchedMemory, unit: int, elements: Elements, writing: bool) -> int:
        latest = NEVER
        for wrote in (True, False) if writing else (True,):
            steps = self._last.get((space, unit, wrote))
            if steps is not None:
                latest = max(latest, int(steps[elements].max(initial=NEVER)))
        return latest

    def note(self, access: Effects, step: int) -> None:
        """Notes that a step makes this access."""
        for wrote, touched in ((False, access.reads), (True, access.writes)):
            for space, elements in touched:
                key = (space, access.unit, wrote)
                if key not in self._last:
                    self._last[key] = np.full(space.shape, NEVER, np.int64)
                self._last[key][elements] = step


@dataclass
class OrderedStep:
    """An instruction of the ordered stream: its unit, the index of the access it comes from (None
    for one that is inserted to carry tokens), and the units that it exchanges tokens with."""

    unit: int
    source: int | None
    pops: list[int] = field(default_factory=list[int])
    pushes: list[int] = field(default_factory=list[int])


class UnorderedError(Exception):
    """Two steps that must be in order, between whose units there are no tokens."""

    def __init__(self, first: OrderedStep) -> None:
        super().__init__()
        self.first = first


class Ordering:
    """Orders a stream of accesses, given one by one, by tokens between these pairs of units (who
    pushes, who pops); `steps` is the stream with its tokens. What other pairs need goes by way of
    the unit `relay`, if there is one, which also runs instructions that only carry tokens."""

    def __init__(
        self, units: int, pairs: Collection[tuple[int, int]], relay: int | None = None
    ) -> None:
        self.steps: list[OrderedStep] = []
        self._pairs, self._relay = pairs, relay
        self._history = History(units)
        self._clocks: list[list[int]] = []
        self._known = [[NEVER] * units for _ in range(units)]
        self._of_unit: list[list[int]] = [[] for _ in range(units)]
        self._last_pop = dict.fromkeys(pairs, NEVER)

    def add(self, access: Effects, source: int) -> None:
        """Appends an access, after an instruction that only carries tokens if one is needed. Raises
        UnorderedError where no tokens lead from one unit to another."""
        needs = self._history.conflicts(access)
        if access.last:
            needs = {unit: steps[-1] for unit, steps in enumerate(self._of_unit) if steps}
        needs.pop(access.unit, None)
        known, relay = self._known[access.unit], self._relay
        for unit in [each for each in needs if (each, access.unit) not in self._pairs]:
            if relay is not None:
                need = needs.pop(unit)
                if need > known[unit]:
                    needs[relay] = max(needs.get(relay, NEVER), self._relayed(relay, unit, need))
        step = self._append(access.unit, source, needs)
        self._history.note(access, step)

    def _append(self, unit: int, source: int | None, needs: dict[int, int]) -> int:
        """Appends a step that waits for these steps of other units; gives its number."""
        step, known = len(self.steps), self._known[unit]
        self.steps.append(OrderedStep(unit, source))
        for producer, need in sorted(needs.items(), key=lambda each: -each[1]):
            if need > known[producer]:  # one that was waited for may itself come after this one
                self._wait(producer, need, unit, step)
        known[unit] = step
        self._clocks.append(list(known))
        self._of_unit[unit].append(step)
        return step

    def _wait(self, producer: int, pushing: int, consumer: int, popping: int) -> None:
        """Realises one order by a token, and takes over what the pushing step knows."""
        if (producer, consumer) not in self._pairs:
            raise UnorderedError(self.steps[pushing])
        self.steps[pushing].pushes.append(consumer)
        self.steps[popping].pops.append(producer)
        self._last_pop[producer, consumer] = popping
        self._learn(self._known[consumer], pushing)

    def _learn(self, clock: list[int], step: int) -> None:
        clock[:] = map(max, clock, self._clocks[step])

    def _relayed(self, relay: int, producer: int, need: int) -> int:
        """Gives a step of the relay that comes after the step `need` of `producer`.

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

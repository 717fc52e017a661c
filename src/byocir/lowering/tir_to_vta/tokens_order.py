"""Chooses tokens that make three concurrent modules respect the order of a program.

Load, compute and store each run their instructions in order. Two instructions of different modules
that touch the same element, one of them writing, must run in program order. Here each such pair is
realised by tokens, with as few as a single pass can do:

- For an instruction b and another module A only the latest conflicting a of A matters: A is in
  order.
- What b already knows is not said again. A clock per instruction holds, for each module, the latest
  instruction known to be done when it is done; it covers orders by way of the third module.
- So along each queue both the pushing and the popping instructions advance, the k-th pop takes the
  k-th push, and no instruction needs a flag twice.

No queue joins load and store: such a pair is ordered by way of a compute instruction between them.
Every wait is for an earlier instruction, so the program order itself is always possible, and
nothing deadlocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from byocir.lowering.tir_to_vta.tokens_accesses import Access, Elements, Space
from byocir.vta_sim.tokens import TOKEN_FIFOS, Queue

FIFOS = {(fifo.producer, fifo.consumer): fifo for fifo in TOKEN_FIFOS}
NEVER = -1


@dataclass
class Step:
    """An instruction of the ordered stream: the module that runs it, the index of the access it
    comes from (None for one that is inserted to carry tokens), and its dependency flags."""

    queue: Queue
    source: int | None
    tokens: set[str] = field(default_factory=lambda: set[str]())


class History:
    """For each element of each space, the latest step of each module that read or wrote it."""

    def __init__(self) -> None:
        self._last: dict[tuple[Space, Queue, bool], NDArray[np.int64]] = {}

    def conflicts(self, access: Access) -> dict[Queue, int]:
        """The latest step of each other module that must be done before this access."""
        found: dict[Queue, int] = {}
        for writing, elements in ((False, access.reads), (True, access.writes)):
            for space, index in elements:
                for queue in Queue:
                    if queue != access.queue:
                        latest = self._latest(space, queue, index, writing)
                        found[queue] = max(found.get(queue, NEVER), latest)
        return found

    def _latest(self, space: Space, queue: Queue, index: Elements, writing: bool) -> int:
        latest = NEVER
        for wrote in (True, False) if writing else (True,):
            steps = self._last.get((space, queue, wrote))
            if steps is not None:
                latest = max(latest, int(steps[index].max(initial=NEVER)))
        return latest

    def note(self, access: Access, step: int) -> None:
        """Notes that a step makes this access."""
        for wrote, elements in ((False, access.reads), (True, access.writes)):
            for space, index in elements:
                key = (space, access.queue, wrote)
                if key not in self._last:
                    self._last[key] = np.full(space.size, NEVER, np.int64)
                self._last[key][index] = step


class Ordering:
    """Orders a stream of accesses, given one by one; `steps` is the stream with its tokens."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._history = History()
        self._clocks: list[list[int]] = []
        self._known = {queue: [NEVER] * len(Queue) for queue in Queue}
        self._of_queue: dict[Queue, list[int]] = {queue: [] for queue in Queue}
        self._last_pop = dict.fromkeys(FIFOS, NEVER)

    def add(self, access: Access, source: int) -> None:
        """Appends an access, after an instruction that only carries tokens if one is needed."""
        needs = self._history.conflicts(access)
        if access.last:
            needs = {q: steps[-1] for q, steps in self._of_queue.items() if steps}
        queue = access.queue
        far = {Queue.LOAD: Queue.STORE, Queue.STORE: Queue.LOAD}.get(queue)
        if far is not None and needs.get(far, NEVER) > self._known[queue][far]:
            relay = self._relay(far, needs[far])
            needs[Queue.COMPUTE] = max(needs.get(Queue.COMPUTE, NEVER), relay)
        if far is not None:
            needs.pop(far, None)
        step = self._append(queue, source, needs)
        self._history.note(access, step)

    def _append(self, queue: Queue, source: int | None, needs: dict[Queue, int]) -> int:
        """Appends a step that waits for these steps of neighbouring modules; gives its number."""
        step = len(self.steps)
        self.steps.append(Step(queue, source))
        known = self._known[queue]
        needs = {q: need for q, need in needs.items() if q != queue and need > known[q]}
        for producer, need in needs.items():
            # Another step that is waited for may itself come after this one.
            others = (other for q, other in needs.items() if q != producer)
            if all(self._clocks[other][producer] < need for other in others):
                self._wait(producer, need, queue, step)
        known[queue] = step
        self._clocks.append(list(known))
        self._of_queue[queue].append(step)
        return step

    def _wait(self, producer: Queue, pushing: int, consumer: Queue, popping: int) -> None:
        """Realises one order by a token, and takes over what the pushing step knows."""
        fifo = FIFOS[producer, consumer]
        self.steps[pushing].tokens.add(fifo.push)
        self.steps[popping].tokens.add(fifo.pop)
        self._last_pop[producer, consumer] = popping
        self._learn(self._known[consumer], pushing)

    def _learn(self, clock: list[int], step: int) -> None:
        clock[:] = map(max, clock, self._clocks[step])

    def _relay(self, producer: Queue, need: int) -> int:
        """A compute step that comes after the step `need` of `producer`.

        The earliest one that waits for it anyway. Otherwise one is made to wait: the first after
        the producer's latest step, where it costs compute least; else the last after `need`; else a
        new instruction that only carries tokens.
        """
        compute = self._of_queue[Queue.COMPUTE]
        waiting = bisect_left(compute, need, key=lambda step: self._clocks[step][producer])
        if waiting < len(compute):
            return compute[waiting]
        free = bisect_right(compute, max(need, self._last_pop[producer, Queue.COMPUTE]))
        if free == len(compute):
            return self._append(Queue.COMPUTE, None, {producer: need})
        after = max(bisect_right(compute, self._of_queue[producer][-1]), free)
        chosen = after if after < len(compute) else len(compute) - 1
        self._wait(producer, need, Queue.COMPUTE, compute[chosen])
        for step in compute[chosen:]:
            self._learn(self._clocks[step], need)
        return compute[chosen]

"""Lists the buffers of a machine's program, and how long each is alive."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from byocir.dialects.tir import AllocOp
from byocir.dialects.types import shape_of
from byocir.machine import Calls, Memory
from byocir.rewrites.machine.steps import Step, loads_of, steps_of
from byocir.rewrites.memory_rows import Full, Life, arranged


@dataclass
class Use:
    """Says that a program uses a buffer in a memory from one of its steps to another."""

    buffer: AllocOp
    memory: Memory
    first: int
    last: int


def lives_of(uses: Iterable[Use]) -> dict[Memory, dict[AllocOp, Life]]:
    """Lists buffers by the memory that has their rows, in the order of their use, each alive in all
    of its uses.
    """
    known: dict[int, Use] = {}  # by identity, as hashing an op takes long
    for use in uses:
        whole = known.setdefault(id(use.buffer), use)
        whole.first, whole.last = min(whole.first, use.first), max(whole.last, use.last)
    found: dict[Memory, dict[AllocOp, Life]] = {}
    for use in known.values():
        rows = use.memory.rows_of(shape_of(use.buffer.result.type))
        found.setdefault(use.memory.storage, {})[use.buffer] = Life(rows, use.first, use.last)
    return found


def full_memories(lives: Mapping[Memory, Mapping[AllocOp, Life]]) -> list[Memory]:
    """Lists the memories that do not hold what is alive at once."""
    placed = ((m, arranged(m.rows, [*own.values()], m.banks)) for m, own in lives.items())
    return [memory for memory, rows in placed if isinstance(rows, Full)]


class Lives:
    """Lists buffers by memory, in the order of their use, each alive from the first call that uses
    it to the last. What an op uses is alive from the first call that runs beside it.
    """

    def __init__(self, calls: Sequence[Calls], loads: Collection[Calls] | None = None) -> None:
        """Follows calls in order; `loads` are those of `loads_of`, if they are known."""
        self._ends: list[int] = []
        """The last call of each step."""
        self._steps: list[int] = []
        """The step of each call."""
        steps = steps_of(calls, loads_of(calls) if loads is None else loads)
        self.of = lives_of(self._uses(steps))

    def _uses(self, steps: Sequence[Step]) -> Iterator[Use]:
        """Yields the uses of buffers, and notes where steps end."""
        first = 0
        for step in steps:
            for at, call in enumerate([*step.loads, *step.work], len(self._steps)):
                begin = at if call.is_beside else first
                yield from (Use(*own, begin, at) for own in call.buffers)
                first = first if call.is_beside else at + 1
                self._steps.append(len(self._ends))
            self._ends.append(len(self._steps) - 1)

    def longer(self, life: Life, slack: int) -> Life:
        """Makes a life end so many steps later: until then, what comes next can be made beside
        it.
        """
        step = min(self._steps[life.last] + slack, len(self._ends) - 1)
        return replace(life, last=self._ends[step])

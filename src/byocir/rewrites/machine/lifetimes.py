"""Lists the buffers of a machine's program, and how long each is alive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from byocir.dialects.tir import AllocOp
from byocir.dialects.types import shape_of
from byocir.machine import Calls, Memory
from byocir.rewrites.machine.steps import loads_of, steps_of
from byocir.rewrites.memory_rows import Full, Life, arranged


@dataclass
class _Used:
    """Describes a buffer, and the calls that use it first and last."""

    buffer: AllocOp
    memory: Memory
    first: int
    last: int

    def life(self) -> Life:
        rows = self.memory.rows_of(shape_of(self.buffer.result.type))
        return Life(rows, self.first, self.last)


class Lives:
    """Lists buffers by memory, in the order of their use, each alive from the first call that uses
    it to the last. What an op uses is alive from the first call that runs beside it.
    """

    def __init__(self, calls: Sequence[Calls], loads: Collection[Calls] | None = None) -> None:
        """Follows calls in order; `loads` are those of `loads_of`, if they are known."""
        self._used: dict[int, _Used] = {}
        """The buffers that calls use, by identity."""
        self._ends: list[int] = []
        """The last call of each step."""
        self._steps: list[int] = []
        """The step of each call."""
        first = 0
        for step in steps_of(calls, loads_of(calls) if loads is None else loads):
            for at, call in enumerate([*step.loads, *step.work], len(self._steps)):
                self._use(call, at if call.is_beside else first, at)
                first = first if call.is_beside else at + 1
                self._steps.append(len(self._ends))
            self._ends.append(len(self._steps) - 1)
        self.of: dict[Memory, dict[AllocOp, Life]] = {}
        for each in self._used.values():
            self.of.setdefault(each.memory, {})[each.buffer] = each.life()

    def _use(self, call: Calls, first: int, last: int) -> None:
        for buffer, memory in call.buffers:
            used = self._used.get(id(buffer))
            if used is None:
                self._used[id(buffer)] = _Used(buffer, memory, first, last)
            else:
                used.first, used.last = min(used.first, first), last

    def longer(self, life: Life, slack: int) -> Life:
        """Makes a life end so many steps later: until then, what comes next can be made beside
        it.
        """
        step = min(self._steps[life.last] + slack, len(self._ends) - 1)
        return replace(life, last=self._ends[step])

    def full(self) -> list[Memory]:
        """Lists the memories that do not hold what is alive at once."""
        return [each for each, own in self.of.items() if isinstance(_arranged(each, own), Full)]


def _arranged(memory: Memory, lives: Mapping[AllocOp, Life]) -> list[int] | Full:
    return arranged(memory.rows, list(lives.values()), memory.banks)

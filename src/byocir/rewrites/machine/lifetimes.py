"""Lists the buffers of a machine's program, and how long each is alive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from byocir.dialects.tir import AllocOp
from byocir.dialects.types import shape_of
from byocir.machine import Calls, Memory
from byocir.rewrites.machine.steps import loads_of, steps_of
from byocir.rewrites.memory_rows import Full, Life, arranged


class Lives:
    """Lists buffers by memory, in the order of their use, each alive from the first call that uses
    it to the last; a call that runs beside another op uses its buffers until that is done.
    """

    def __init__(self, calls: Sequence[Calls], loads: Collection[Calls] | None = None) -> None:
        """Follows calls in order; `loads` are those of `loads_of`, if they are known."""
        self._found: dict[Memory, dict[AllocOp, list[int]]] = {}
        self._ends: list[int] = []
        """The last call of each step."""
        self._steps: list[int] = []
        """The step of each call."""
        beside: list[Calls] = []
        for step in steps_of(calls, loads_of(calls) if loads is None else loads):
            for call in [*step.loads, *step.work]:
                for each in [call] if call.is_beside else [*beside, call]:
                    self._use(each, len(self._steps))
                beside = [*beside, call] if call.is_beside else []
                self._steps.append(len(self._ends))
            self._ends.append(len(self._steps) - 1)
        self.of: Mapping[Memory, Mapping[AllocOp, Life]] = {
            memory: {
                owner: Life(memory.rows_of(shape_of(owner.result.type)), *ends)
                for owner, ends in own.items()
            }
            for memory, own in self._found.items()
        }

    def _use(self, call: Calls, at: int) -> None:
        for place in call.places.values():
            owner, memory = place.buffer.owner, place.memory
            if isinstance(owner, AllocOp) and not memory.is_main:
                ends = self._found.setdefault(memory, {}).setdefault(owner, [at, at])
                ends[1] = at

    def longer(self, life: Life, slack: int) -> Life:
        """Makes a life end so many steps later: until then, what comes next can be made beside
        it.
        """
        step = min(self._steps[life.last] + slack, len(self._ends) - 1)
        return replace(life, last=self._ends[step])

    def fit(self) -> bool:
        """Tells if all memories hold what is alive at once."""
        return not any(isinstance(_arranged(*each), Full) for each in self.of.items())


def _arranged(memory: Memory, lives: Mapping[AllocOp, Life]) -> list[int] | Full:
    return arranged(memory.rows, list(lives.values()), memory.banks)

"""Ranks the tries of instructions on a block: of each instruction the nearest miss, and of these
the nearest one first.

An instruction is tried on many choices of a block's iterators, and most of them fail for reasons
that nobody cares about. If it computes what the block does, the try with the most iterators is the
nearest, and among these the one that came furthest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from byocir.machine.instructions import Instruction


class Reached(IntEnum):
    """Says what stopped an instruction that was tried on a block, the nearest to success last."""

    KIND = 0
    """It reads another number of arrays, or only one of both copies, or sums up."""
    BODY = 1
    """It computes something else of as many arrays."""
    MEMORIES = 2
    """It works on other memories."""
    DIMENSIONS = 3
    """An operand of the block has more dimensions than it reads."""
    INDICES = 4
    """It reads or writes elsewhere."""
    OPERANDS = 5
    """An operand is of another type, or the result begins with something else."""
    SIZES = 6
    """A limit or a rule refuses all calls."""
    ROWS = 7
    """Calls begin inside rows, or their rows lie apart."""
    FEEDING = 8
    """It does the block, but nothing brings what it reads, or takes away what it writes."""


@dataclass(frozen=True)
class Misfit:
    """Says why an instruction does not do a block; an empty reason means that it takes other
    operands.
    """

    instruction: Instruction
    reason: str
    reached: Reached = Reached.KIND
    kept: int = 0
    """The iterators with several points that one call would run over."""
    alike: int = 0
    """A measure of what fits where the try ended: more is nearer."""

    @property
    def nearness(self) -> tuple[int, ...]:
        """Gives a key by which tries of one instruction sort from the farthest to the nearest."""
        does, computes = self.reached == Reached.FEEDING, self.reached > Reached.BODY
        return does, computes, self.kept, self.reached, self.alike

    def __str__(self) -> str:
        return f"{self.instruction.name}: {self.reason}"

    @property
    def with_place(self) -> str:
        """Words it with the line of the description that declares the instruction."""
        file, _, line = self.instruction.where.rpartition(":")
        return f"{self}; see {Path(file).name}:{line}" if file else str(self)


def nearest_first(misfits: Iterable[Misfit]) -> list[Misfit]:
    """Selects the nearest miss of each instruction, and sorts these, the nearest first. Those that
    compute another kind of thing are left out, unless there is nothing else to tell.
    """
    best = dict[Instruction, Misfit]()
    for each in misfits:
        known = best.get(each.instruction)
        if each.reason and (known is None or each.nearness > known.nearness):
            best[each.instruction] = each
    found = sorted(best.values(), key=lambda each: (-each.reached, -each.kept, -each.alike))
    return [each for each in found if each.reached > Reached.KIND] or found

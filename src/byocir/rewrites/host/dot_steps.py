"""Lists the instructions that multiply vectors and add the products of neighbours.

Where one is, `pack-weights` lays neighbours of a constant side by side, and the C code takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

from byocir.dialects.types import i8, i16, ui8
from byocir.toolchain.cpu import Cpu


@dataclass(frozen=True)
class DotStep:
    """Describes a step that multiplies `count` neighbours at once. One operand has them side by
    side for each lane, as integers of the type `packed`; of the other operand all lanes share the
    same neighbours.
    """

    count: int
    packed: Attribute

    def is_on(self, cpu: Cpu, shared: Attribute) -> bool:
        """Tells if a processor has this step for another operand of type `shared`."""
        if self.count == 2:
            return cpu.adds_pairs and self.packed == i16 and shared in (i8, ui8)
        types = {self.packed, shared}
        return self.count == 4 and cpu.adds_quads and types in ({i8}, {i8, ui8})

    def shifts(self, shared: Attribute) -> bool:
        """Tells if signed bytes meet signed ones, of which one must be made unsigned."""
        return self.count == 4 and self.packed == shared == i8


def dot_step_of(weights: Attribute, shared: Attribute, cpu: Cpu) -> DotStep | None:
    """Chooses the step with the most neighbours for bytes of these types; None if the processor has
    none.
    """
    steps = (DotStep(4, weights), DotStep(2, i16))
    return next((step for step in steps if step.is_on(cpu, shared)), None)

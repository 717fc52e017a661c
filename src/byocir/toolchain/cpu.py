"""Lists the processors that schedules know, by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Cpu:
    """Describes a processor, as code for it sees it: `vector` bytes in each of `registers` vector
    registers, the bytes of its second cache, and the flags with which C compilers use all
    of it.

    `level` is the x86-64 level that a machine must have, 0 for any machine, and `features` what it
    must have beyond that, as compilers call it. Where `fuses` is set,
    products and sums of contractions may be rounded once, and be added in another order than the
    block's; the first is done where processors have instructions for it.
    """

    name: str
    level: int
    vector: int
    registers: int
    fuses: bool
    l2: int
    flags: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    def runs_on(self, level: int, features: Collection[str]) -> bool:
        """Tells if a machine of an x86-64 level and these features runs code for it."""
        return self.level <= level and set(self.features) <= set(features)

    @property
    def adds_pairs(self) -> bool:
        """Tells if it multiplies vectors of 16-bit integers and adds neighbours in one instruction,
        as all x86-64 do that have a level."""
        return self.level > 0

    @property
    def adds_quads(self) -> bool:
        """Tells if it multiplies vectors of unsigned by signed 8-bit integers and adds four
        neighbours to 32 bits in one instruction."""
        return VNNI in self.features


VNNI = "avx512vnni"

_TABLE = (
    Cpu("generic", 0, 16, 16, False, 2**18),
    Cpu("x86-64-v2", 2, 16, 16, True, 2**18, ("-march=x86-64-v2",)),
    Cpu("x86-64-v3", 3, 32, 16, True, 2**18, ("-march=x86-64-v3",)),
    # gcc's default there is to vectorise with half of a register.
    Cpu(
        *("x86-64-v4", 4, 64, 32, True, 2**20),
        ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    ),
    Cpu(
        *("x86-64-v4-vnni", 4, 64, 32, True, 2**20),
        ("-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512"),
        (VNNI,),
    ),
)
CPUS = {cpu.name: cpu for cpu in _TABLE}
"""Every processor that code can be made for; `l2`, the bytes of a cache, is the least that is
common there."""


def fitting(level: int, features: Collection[str] = ()) -> Cpu:
    """Chooses the most capable processor of the table whose code a machine of this x86-64 level,
    with these features, can run.
    """
    able = [cpu for cpu in _TABLE if cpu.runs_on(level, features)]
    return max(able, key=lambda cpu: (cpu.level, len(cpu.features)))

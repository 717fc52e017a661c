"""What schedules need to know of a processor: one table, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cpu:
    """A processor as code for it sees it: `vector` bytes in each of `registers` vector registers,
    the bytes of its first and second cache, and the flags that make C compilers use all of it.

    `level` is the x86-64 level that a machine must have, 0 for any machine. Where `fuses` is set,
    products and sums of contractions may be rounded once, and be added in another order than the
    block's; the first is done where processors have instructions for it."""

    name: str
    level: int
    vector: int
    registers: int
    fuses: bool
    l1: int
    l2: int
    flags: tuple[str, ...] = ()

    @property
    def adds_pairs(self) -> bool:
        """Whether it multiplies vectors of 16-bit integers and adds neighbours in one instruction,
        as all x86-64 do that have a level."""
        return self.level > 0


_TABLE = (
    Cpu("generic", 0, 16, 16, False, 2**15, 2**18),
    Cpu("x86-64-v2", 2, 16, 16, True, 2**15, 2**18, ("-march=x86-64-v2",)),
    Cpu("x86-64-v3", 3, 32, 16, True, 2**15, 2**18, ("-march=x86-64-v3",)),
    # gcc's default there is to vectorise with half of a register.
    Cpu(
        *("x86-64-v4", 4, 64, 32, True, 2**15, 2**20),
        ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    ),
)
CPUS = {cpu.name: cpu for cpu in _TABLE}
"""Every processor that code can be made for; caches are the smallest that are common there."""

GENERIC = CPUS["generic"]


def fitting(level: int) -> Cpu:
    """The most capable of those that a machine of an x86-64 level runs."""
    return max((cpu for cpu in _TABLE if cpu.level <= level), key=lambda cpu: cpu.level)

"""Finds which instructions of a stream must be in order: those on different modules that touch the
same element of a memory, one of them writing.

Micro-ops are followed, since they say which elements a nest touches; DRAM counts as far as it is
both loaded and stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim import Access, Instruction, Program, conflicts
from byocir.vta_sim.isa import Decoded, Opcode
from byocir.vta_sim.sanitizer_accesses import Elements, StreamAccessReader, Touched
from byocir.vta_sim.sanitizer_dram import DramMap
from byocir.vta_sim.token_order import route


def conflicts_of(
    decoded: Decoded, image: NDArray[np.uint8], size: int
) -> Mapping[int, Sequence[int]]:
    """Gives by instruction those that must be done before it starts, as `machine_sim.conflicts`
    does. ``image`` uint8 [B] is the start of DRAM, with all micro-ops; DRAM has ``size`` bytes.
    """
    reader, shared = StreamAccessReader(decoded.config, image, {}), DramMap(decoded, size)
    program: list[Instruction] = []
    for unit, insn in zip(route(decoded).tolist(), decoded.instructions(), strict=True):
        touched, segments = reader.read(insn), shared.touched(insn.index)
        moved = [] if segments is None else list(_runs("DRAM", segments))
        stored = insn.opcode == Opcode.STORE
        reads = [*_all_runs(touched.reads), *([] if stored else moved)]
        writes = [*_all_runs(touched.writes), *(moved if stored else [])]
        program.append(Instruction(unit, reads=reads, writes=writes))
    return conflicts(Program.of(program))


def _all_runs(touched: Sequence[Touched]) -> Iterator[Access]:
    for memory, elements in touched:
        yield from _runs(memory.name, elements)


def _runs(memory: str, elements: Elements) -> Iterator[Access]:
    """Yields the runs of elements, which ascend."""
    if isinstance(elements, slice):
        yield Access(memory, int(elements.start), int(elements.stop))
        return
    ends = np.flatnonzero(np.diff(elements) > 1)
    starts: list[int] = elements[np.concatenate([[0], ends + 1])].tolist()
    stops: list[int] = (elements[np.append(ends, -1)] + 1).tolist()
    for start, stop in zip(starts, stops, strict=True):
        yield Access(memory, start, stop)

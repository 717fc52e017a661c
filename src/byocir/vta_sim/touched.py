"""Finds which instructions of a stream must be in order: those on different modules that touch the
same element of a memory, one of them writing.

Micro-ops are followed, since they say which elements a nest touches; DRAM counts as far as it is
both loaded and stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim import Accesses, Program, conflicts
from byocir.vta_sim.config import Memory
from byocir.vta_sim.isa import Decoded, Opcode, Queue
from byocir.vta_sim.sanitizer_accesses import Elements, StreamAccessReader
from byocir.vta_sim.sanitizer_dram import DramMap
from byocir.vta_sim.token_order import route

USERS = {
    Memory.UOP: (Queue.COMPUTE, ()),
    Memory.INP: (Queue.LOAD, (Queue.COMPUTE,)),
    Memory.WGT: (Queue.LOAD, (Queue.COMPUTE,)),
    Memory.ACC: (Queue.COMPUTE, (Queue.STORE,)),
}
"""The module that writes a scratchpad, and the other modules that read it."""


def conflicts_of(
    decoded: Decoded, image: NDArray[np.uint8], size: int
) -> Mapping[int, Sequence[int]]:
    """Gives by instruction those that must be done before it starts, as `machine_sim.conflicts`
    does. ``image`` uint8 [B] is the start of DRAM, with all micro-ops; DRAM has ``size`` bytes.
    """
    units = route(decoded).astype(np.int64)
    reader, shared = StreamAccessReader(decoded.config, image, {}), DramMap(decoded, size)

    def rows() -> Iterator[tuple[int, bool, str, list[tuple[int, int]]]]:
        for insn, unit in zip(decoded.instructions(), units.tolist(), strict=True):
            touched, segments = reader.read(insn), shared.touched(insn.index)
            for memory, elements in touched.reads:
                if unit in USERS[memory][1]:
                    yield insn.index, False, memory.name, _runs(elements)
            for memory, elements in touched.writes:
                if USERS[memory][1]:
                    yield insn.index, True, memory.name, _runs(elements)
            if segments is not None:
                yield insn.index, insn.opcode == Opcode.STORE, "DRAM", _runs(segments)

    return conflicts(Program(units, np.zeros_like(units), Accesses.of(rows())))


def _runs(elements: Elements) -> list[tuple[int, int]]:
    """Lists the runs of elements, which ascend: where each begins and ends."""
    if isinstance(elements, slice):
        return [(int(elements.start), int(elements.stop))]
    if not elements.size:
        return []
    ends = np.flatnonzero(np.diff(elements) > 1)
    starts: list[int] = elements[np.concatenate([[0], ends + 1])].tolist()
    stops: list[int] = (elements[np.append(ends, -1)] + 1).tolist()
    return [*zip(starts, stops, strict=True)]

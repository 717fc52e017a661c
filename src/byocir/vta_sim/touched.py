"""Follows the memories of a stream that two modules touch, and what each instruction does with
them: that is what dependency tokens must order.

Micro-ops are followed, since they say which elements a nest touches; DRAM counts as far as it is
both loaded and stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim import Shadow, Touch, conflicting
from byocir.vta_sim.config import Memory
from byocir.vta_sim.isa import Decoded, Instruction, Opcode, Queue
from byocir.vta_sim.sanitizer_accesses import StreamAccessReader
from byocir.vta_sim.sanitizer_dram import DramMap
from byocir.vta_sim.token_order import route

USERS = {
    Memory.UOP: (Queue.COMPUTE, ()),
    Memory.INP: (Queue.LOAD, (Queue.COMPUTE,)),
    Memory.WGT: (Queue.LOAD, (Queue.COMPUTE,)),
    Memory.ACC: (Queue.COMPUTE, (Queue.STORE,)),
}
"""The module that writes a scratchpad, and the other modules that read it."""


class TouchedMemories:
    """Lists the memories that a stream touches and two modules share. ``image`` uint8 [B] is the
    start of DRAM, with all micro-ops; DRAM has ``size`` bytes.
    """

    def __init__(self, decoded: Decoded, image: NDArray[np.uint8], size: int) -> None:
        self._decoded, self._reader = decoded, StreamAccessReader(decoded.config, image, {})
        self.map = DramMap(decoded, size)
        self.dram = Shadow(self.map.segments, {Queue.STORE}, {Queue.LOAD, Queue.COMPUTE})
        self.scratchpads: Mapping[Memory, Shadow] = {
            memory: Shadow(decoded.config.depth(memory), {writer}, readers, keeps_writes=True)
            for memory, (writer, readers) in USERS.items()
        }

    def conflicts(self) -> Iterator[dict[int, int]]:
        """Yields for each instruction those that must be done before it starts: of each other
        module the last one that it conflicts with.
        """
        pairs = zip(route(self._decoded).tolist(), self._decoded.instructions(), strict=True)
        return conflicting((queue, [*self._touches(insn)]) for queue, insn in pairs)

    def _touches(self, insn: Instruction) -> Iterator[Touch]:
        accesses = self._reader.read(insn)
        for touched, writes in ((accesses.reads, False), (accesses.writes, True)):
            for memory, elements in touched:
                yield Touch(self.scratchpads[memory], elements, writes)
        segments = self.map.touched(insn.index)
        if segments is not None:
            yield Touch(self.dram, segments, insn.opcode == Opcode.STORE)

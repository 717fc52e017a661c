"""Hazards of a stream: what its tokens leave to chance, and what it does that no run can get right.

Load, compute and store run side by side. Queues and tokens fix a partial order (``tokens.clocks``);
two instructions of different modules that touch the same element, one of them writing, must be
ordered by it. For each element only the latest write, and the latest read of each module, are kept
(modules are in order, so what is ordered after the latest is ordered after all): time and memory
are linear in the stream and in what it touches. This is the happens-before race detection of
FastTrack (Flanagan and Freund, PLDI 2009) with three threads and one writer per memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.engine_numpy import Machine, as_dram
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded, Instruction, Opcode, decode
from byocir.vta_sim.sanitizer_accesses import Accesses, AccessReader, Elements
from byocir.vta_sim.sanitizer_dram import DramMap
from byocir.vta_sim.sanitizer_report import Hazard, Places
from byocir.vta_sim.sanitizer_tokens import token_hazards
from byocir.vta_sim.tokens import Links, Queue, check_form, clocks, link, positions, run_order

Index = NDArray[np.int64]
WRITERS = {
    Memory.UOP: Queue.COMPUTE,
    Memory.INP: Queue.LOAD,
    Memory.WGT: Queue.LOAD,
    Memory.ACC: Queue.COMPUTE,
}
READERS = {
    Memory.UOP: (),
    Memory.INP: (Queue.COMPUTE,),
    Memory.WGT: (Queue.COMPUTE,),
    Memory.ACC: (Queue.STORE,),
}
"""The modules other than the writer that read a scratchpad."""


def sanitize(
    insns: NDArray[np.uint8],
    dram: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    locations: Sequence[str] | None = None,
) -> list[Hazard]:
    """All hazards of a stream (uint8 [N, 16]) on an image (uint8 [B]), in stream order.

    ``locations`` says where each instruction came from, for the report. The image gives the
    micro-ops, which decide what GEMM and ALU touch; where a stream loads micro-ops that it has
    stored, it is run to know them. Raises VTAError V0xx and V1xx for arguments and instructions
    that are none, as ``simulate`` does.
    """
    decoded = decode(insns, config)
    check_form(decoded)
    return hazards(decoded, link(decoded), dram, locations)


def hazards(
    decoded: Decoded,
    links: Links,
    dram: NDArray[np.uint8],
    locations: Sequence[str] | None = None,
) -> list[Hazard]:
    """As ``sanitize``, for a stream that is decoded, well formed and linked."""
    places, image = Places(decoded, locations), as_dram(dram)
    order = run_order(links)
    known = clocks(links, order)
    found = token_hazards(decoded, links, order, known, places)
    if len(order) == len(decoded):
        found += _Detector(decoded, links, order, known, image, places).run()
    return sorted(found, key=_position)


def _position(hazard: Hazard) -> tuple[int, int]:
    last = hazard.second or hazard.first
    return (last.index if last else -1, hazard.first.index if hazard.first else -1)


@dataclass
class _Shadow:
    """What is remembered of one memory: per element the position of the latest write (in the
    writer's queue, from 1; 0 for none) and of the latest read of each other module."""

    name: str
    writer: Queue
    written: Index
    read: dict[Queue, Index] = field(default_factory=dict[Queue, Index])

    @staticmethod
    def of(name: str, writer: Queue, readers: Sequence[Queue], size: int) -> _Shadow:
        read = {queue: np.zeros(size, np.int64) for queue in readers}
        return _Shadow(name, writer, np.zeros(size, np.int64), read)


class _Detector:
    """One pass over a stream in a legal order."""

    def __init__(
        self,
        decoded: Decoded,
        links: Links,
        order: list[int],
        known: Index,
        dram: NDArray[np.uint8],
        places: Places,
    ) -> None:
        self._instructions, self._order, self._places = decoded.instructions(), order, places
        self._queues: list[int] = links.queue.tolist()
        self._known: list[list[int]] = known.tolist()
        self._positions: list[int] = positions(links).tolist()
        self._rows = [np.flatnonzero(links.queue == queue) for queue in Queue]
        config = decoded.config
        self._map = DramMap(decoded, len(dram))
        self._reader = AccessReader(config, dram, self._loaded_uops(dram, config))
        self._shadows = {
            memory: _Shadow.of(memory.name, writer, READERS[memory], config.depth(memory))
            for memory, writer in WRITERS.items()
        }
        loaders = (Queue.LOAD, Queue.COMPUTE)
        self._dram = _Shadow.of("DRAM", Queue.STORE, loaders, self._map.segments)
        self._found: list[Hazard] = []

    def run(self) -> list[Hazard]:
        """All findings but those of tokens."""
        self._outside()
        for index in self._order:
            insn = self._instructions[index]
            accesses = self._reader.read(insn)
            for memory, elements in accesses.reads:
                self._unwritten(insn, self._shadows[memory], elements)
                self._touch(insn, self._shadows[memory], elements, writes=False)
            for memory, elements in accesses.writes:
                self._touch(insn, self._shadows[memory], elements, writes=True)
            self._beyond(insn, accesses)
            segments = self._map.touched(index)
            if segments is not None:
                self._touch(insn, self._dram, segments, writes=insn.opcode == Opcode.STORE)
        return self._found

    def _loaded_uops(
        self, dram: NDArray[np.uint8], config: VTAConfig
    ) -> dict[int, NDArray[np.uint32]]:
        """The elements that each LOAD UOP loads, if stores may have changed them: then the values
        that they store must be known. Ends early where the stream cannot run."""
        loaded: dict[int, NDArray[np.uint32]] = {}
        if not self._map.rewrites_uops:
            return loaded
        try:
            machine, reader = Machine(dram, config), AccessReader(config, dram, {})
            for insn in map(self._instructions.__getitem__, self._order):
                machine.step(insn)
                for memory, span in reader.read(insn).writes:
                    if memory == Memory.UOP:
                        loaded[insn.index] = machine.uop[span].copy()
        except VTAError:
            pass
        return loaded

    def _touch(
        self, insn: Instruction, shadow: _Shadow, elements: Elements, *, writes: bool
    ) -> None:
        """Compares an access with the latest ones of other modules, and notes it."""
        index = insn.index
        queue, position, known = self._queues[index], self._positions[index], self._known[index]
        if writes:
            for reader, latest in shadow.read.items():
                self._compare(insn, shadow, elements, reader, latest[elements], known[reader])
            shadow.written[elements] = position
        elif queue != shadow.writer:
            writer, latest = shadow.writer, shadow.written
            self._compare(insn, shadow, elements, writer, latest[elements], known[writer])
            shadow.read[Queue(queue)][elements] = position

    def _compare(
        self,
        insn: Instruction,
        shadow: _Shadow,
        elements: Elements,
        queue: Queue,
        latest: Index,
        known: int,
    ) -> None:
        """Reports elements whose ``latest`` access, by ``queue``, is not among the ``known``."""
        if not latest.size or latest.max() <= known:
            return
        late = latest > known
        indices = _indices(elements)[late]
        for position in np.unique(latest[late]).tolist():
            other = int(self._rows[queue][position - 1])
            self._race(insn.index, other, queue, shadow, indices[latest[late] == position])

    def _race(self, index: int, other: int, queue: Queue, shadow: _Shadow, indices: Index) -> None:
        """Reports that ``index`` and ``other``, which is of ``queue``, are not ordered."""
        first, second = min(index, other), max(index, other)
        writing = self._queues[first] == shadow.writer
        code = "S201" if writing else "S202"
        span, what = _span(indices), f"{shadow.name} elements"
        if shadow is self._dram:
            code, what = "S203", "DRAM bytes"
            borders = self._map.borders
            span = int(borders[span[0]]), int(borders[span[1]])
        verbs = ("writes", "reads") if writing else ("reads", "writes")
        module, earlier = (Queue(self._queues[i]).name.lower() for i in (second, first))
        expected = f"{module} to wait for {earlier}"
        found = (
            f"no order between {earlier}, which {verbs[0]} {what} {span[0]}..{span[1]}, "
            f"and {module}, which {verbs[1]} them"
        )
        self._add(code, first, second, shadow.name, span, expected, found)

    def _unwritten(self, insn: Instruction, shadow: _Shadow, elements: Elements) -> None:
        written = shadow.written[elements]
        if not written.size or written.min():
            return
        missing = _indices(elements)[written == 0]
        code = "S205" if insn.opcode == Opcode.STORE else "S204"
        expected = f"{shadow.name} elements written before they are read"
        found = f"{len(missing)} unwritten, element {missing[0]} first"
        self._add(code, insn.index, None, shadow.name, _span(missing), expected, found)

    def _beyond(self, insn: Instruction, accesses: Accesses) -> None:
        for past in accesses.beyond:
            depth = len(self._shadows[past.memory].written)
            span = (past.first, past.end)
            expected = f"{past.memory.name} elements within 0..{depth}"
            found = f"{span[0]}..{span[1]}"
            self._add("S209", insn.index, None, past.memory.name, span, expected, found)

    def _outside(self) -> None:
        for index, (start, end) in zip(
            self._map.outside.tolist(), self._map.outside_ranges.tolist(), strict=True
        ):
            expected = f"DRAM bytes within 0..{self._map.size}"
            self._add("S208", index, None, "DRAM", (start, end), expected, f"{start}..{end}")

    def _add(
        self,
        code: str,
        first: int,
        second: int | None,
        memory: str,
        span: tuple[int, int],
        expected: str,
        found: str,
    ) -> None:
        other = None if second is None else self._places[second]
        self._found.append(Hazard(code, self._places[first], other, memory, span, expected, found))


def _indices(elements: Elements) -> Index:
    if not isinstance(elements, slice):
        return elements
    return np.arange(int(elements.start), int(elements.stop))


def _span(indices: Index) -> tuple[int, int]:
    return int(indices[0]), int(indices[-1]) + 1

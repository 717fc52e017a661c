"""Finds the hazards of a stream: accesses that its tokens leave unordered, and mistakes that show
in any run.

Load, compute and store run side by side. Queues and tokens fix a partial order (``token_order``);
two instructions of different modules that touch the same element, one of them writing, must be
ordered by it. Tokens that leak, that never come or that FINISH does not wait for are found before
(``token_hazards``). ``byocir.machine_sim`` compares the accesses of a run; here is what they are on
VTA, and what its findings are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim import RaceDetector, Shadow, clocks, legal_order
from byocir.machine_sim.hazards import Race
from byocir.machine_sim.order import NEVER, Clock, blocked
from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.engine_numpy import Machine, as_dram
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded, Instruction, Opcode, Queue, decode
from byocir.vta_sim.sanitizer_accesses import Accesses, Elements, StreamAccessReader
from byocir.vta_sim.sanitizer_dram import DramMap
from byocir.vta_sim.sanitizer_report import Hazard, Places
from byocir.vta_sim.token_order import TOKEN_FIFOS, Links, TokenFifo, check_form, link, order_by
from byocir.vta_sim.touched import USERS


def token_hazards(
    decoded: Decoded,
    links: Links,
    order: list[int],
    known: Sequence[Clock],
    places: Places,
) -> list[Hazard]:
    """Finds S206, S207 and S210, given the order of the run and its clocks."""
    found = [*_leaks(decoded, links, places)]
    if len(order) < len(decoded):
        return [*found, *_blocked(links, order, places)]
    return [*found, *_unfinished(decoded, links, known, places)]


def _leaks(decoded: Decoded, links: Links, places: Places) -> Iterator[Hazard]:
    for fifo, pushed, popped in zip(TOKEN_FIFOS, links.pushed, links.popped, strict=True):
        if pushed <= popped:
            continue
        pushes = (links.queue == fifo.producer) & (decoded.columns[fifo.push] != 0)
        for index in np.flatnonzero(pushes)[popped:].tolist():
            expected = f"every token of {fifo.name} popped"
            found = f"{pushed} pushes and {popped} pops, none for this push"
            yield Hazard("S206", places[index], None, fifo.name, None, expected, found)


def _blocked(links: Links, order: list[int], places: Places) -> Iterator[Hazard]:
    """Describes the heads of the queues in a deadlock, and what each waits for."""
    for head in blocked(order_by(links), order):
        queue = Queue(links.queue[head.index])
        for slot, wait in enumerate(links.waits[head.index].tolist()):
            if wait in head.waits:
                fifo = _popped_by(queue, slot)
                first, second = _pair(head.index, wait)
                expected = f"a token of {fifo.name} for instruction {head.index}"
                found = "none is pushed" if wait == NEVER else f"instruction {wait} waits, too"
                other = None if second is None else places[second]
                yield Hazard("S207", places[first], other, fifo.name, None, expected, found)


def _pair(index: int, wait: int) -> tuple[int, int | None]:
    return (index, None) if wait == NEVER else (min(index, wait), max(index, wait))


def _popped_by(queue: Queue, slot: int) -> TokenFifo:
    pop = ("pop_prev", "pop_next")[slot]
    return next(fifo for fifo in TOKEN_FIFOS if fifo.consumer == queue and fifo.pop == pop)


def _unfinished(
    decoded: Decoded, links: Links, known: Sequence[Clock], places: Places
) -> Iterator[Hazard]:
    """Reports S210 for each queue whose last instruction is neither FINISH nor surely done before
    it.
    """
    finishes = np.flatnonzero(decoded.opcode == Opcode.FINISH)
    expected = "one FINISH, after everything else"
    if not finishes.size:
        found = f"none in {len(decoded)} instructions"
        last = places[len(decoded) - 1] if len(decoded) else None
        yield Hazard("S210", last, None, "", None, expected, found)
        return
    finish = int(finishes[0])
    for queue in Queue:
        rows = np.flatnonzero(links.queue == queue)
        if not rows.size or int(rows[-1]) == finish or len(rows) <= known[finish][queue]:
            continue
        first, second = sorted((int(rows[-1]), finish))
        found = f"{queue.name.lower()} may run after it"
        yield Hazard("S210", places[first], places[second], "", None, expected, found)


Index = NDArray[np.int64]


def sanitize(
    insns: NDArray[np.uint8],
    dram: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    locations: Sequence[str] | None = None,
) -> list[Hazard]:
    """Finds all hazards of a stream (uint8 [N, 16]) on an image (uint8 [B]), in stream order.

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
    """Finds hazards as ``sanitize`` does, in a stream that is decoded, well formed and linked."""
    places, image = Places(decoded, locations), as_dram(dram)
    order = order_by(links)
    run = legal_order(order)
    known = clocks(order, run)
    found = token_hazards(decoded, links, run, known, places)
    if len(run) == len(decoded):
        found += _Detector(decoded, run, RaceDetector(order, known), image, places).run()
    return sorted(found, key=_position)


def _position(hazard: Hazard) -> tuple[int, int]:
    last = hazard.second or hazard.first
    return (last.index if last else -1, hazard.first.index if hazard.first else -1)


class _Detector:
    """Goes through a stream once, in a legal order, and collects findings."""

    def __init__(
        self,
        decoded: Decoded,
        order: list[int],
        detector: RaceDetector,
        dram: NDArray[np.uint8],
        places: Places,
    ) -> None:
        self._instructions, self._order, self._places = decoded.instructions(), order, places
        self._detector, self._queues = detector, detector.order.unit
        config = self._config = decoded.config
        self._map = DramMap(decoded, len(dram))
        self._dram = Shadow(self._map.segments, {Queue.STORE}, {Queue.LOAD, Queue.COMPUTE})
        self._shadows = {
            memory: Shadow(config.depth(memory), {writer}, readers, keeps_writes=True)
            for memory, (writer, readers) in USERS.items()
        }
        self._reader = StreamAccessReader(config, dram, self._loaded_uops(dram, config))
        self._found: list[Hazard] = []

    def run(self) -> list[Hazard]:
        """Finds all but the hazards of tokens."""
        self._outside()
        for index in self._order:
            insn = self._instructions[index]
            accesses = self._reader.read(insn)
            for memory, elements in accesses.reads:
                self._unwritten(insn, memory, elements)
                self._touch(index, memory, elements, writes=False)
            for memory, elements in accesses.writes:
                self._touch(index, memory, elements, writes=True)
            self._beyond(insn, accesses)
            segments = self._map.touched(index)
            if segments is not None:
                self._touch_dram(index, segments, writes=insn.opcode == Opcode.STORE)
        return self._found

    def _loaded_uops(
        self, dram: NDArray[np.uint8], config: VTAConfig
    ) -> dict[int, NDArray[np.uint32]]:
        """Gives the elements that each LOAD UOP loads, where stores may have changed them: the
        values that the stores wrote must be known then. Ends early where the stream cannot run.
        """
        loaded: dict[int, NDArray[np.uint32]] = {}
        if not self._map.rewrites_uops:
            return loaded
        try:
            machine, reader = Machine(dram, config), StreamAccessReader(config, dram, {})
            for insn in map(self._instructions.__getitem__, self._order):
                machine.step(insn)
                for memory, span in reader.read(insn).writes:
                    if memory == Memory.UOP:
                        loaded[insn.index] = machine.uop[span].copy()
        except VTAError:
            pass
        return loaded

    def _touch(self, index: int, memory: Memory, elements: Elements, *, writes: bool) -> None:
        """Reports the races of an access to a scratchpad."""
        shadow = self._shadows[memory]
        for race in self._detector.access(shadow, index, elements, writes=writes):
            code, span = "S201" if race.first_writes else "S202", _span(race.elements)
            self._race(code, race, memory.name, span, f"{memory.name} elements")

    def _touch_dram(self, index: int, segments: Elements, *, writes: bool) -> None:
        borders = self._map.borders
        for race in self._detector.access(self._dram, index, segments, writes=writes):
            first, end = _span(race.elements)
            span = int(borders[first]), int(borders[end])
            self._race("S203", race, "DRAM", span, "DRAM bytes")

    def _race(self, code: str, race: Race, memory: str, span: tuple[int, int], what: str) -> None:
        verbs = ("writes", "reads") if race.first_writes else ("reads", "writes")
        pair = race.second, race.first
        module, earlier = (Queue(self._queues[index]).name.lower() for index in pair)
        expected = f"{module} to wait for {earlier}"
        found = (
            f"no order between {earlier}, which {verbs[0]} {what} {span[0]}..{span[1]}, "
            f"and {module}, which {verbs[1]} them"
        )
        self._add(code, race.first, race.second, memory, span, expected, found)

    def _unwritten(self, insn: Instruction, memory: Memory, elements: Elements) -> None:
        missing = self._shadows[memory].unwritten(elements)
        if not missing.size:
            return
        code = "S205" if insn.opcode == Opcode.STORE else "S204"
        expected = f"{memory.name} elements written before they are read"
        found = f"{len(missing)} unwritten, element {missing[0]} first"
        self._add(code, insn.index, None, memory.name, _span(missing), expected, found)

    def _beyond(self, insn: Instruction, accesses: Accesses) -> None:
        for past in accesses.beyond:
            depth = self._config.depth(past.memory)
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


def _span(indices: Index) -> tuple[int, int]:
    return int(indices[0]), int(indices[-1]) + 1

"""Finds mistakes with tokens: leaks, deadlocks, and work that FINISH does not wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from byocir.machine_sim.order import NEVER, Clock
from byocir.vta_sim.isa import Decoded, Opcode, Queue
from byocir.vta_sim.sanitizer_report import Hazard, Places
from byocir.vta_sim.token_order import TOKEN_FIFOS, Links, TokenFifo


def token_hazards(
    decoded: Decoded,
    links: Links,
    order: list[int],
    known: Sequence[Clock],
    places: Places,
) -> list[Hazard]:
    """Findings S206, S207 and S210, given the order that runs and its clocks."""
    found = [*_leaks(decoded, links, places)]
    if len(order) < len(decoded):
        return [*found, *_blocked(decoded, links, order, places)]
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


def _blocked(decoded: Decoded, links: Links, order: list[int], places: Places) -> Iterator[Hazard]:
    """Gives the heads of the queues in a deadlock, and what each waits for."""
    ran = np.zeros(len(decoded), np.bool_)
    ran[order] = True
    for queue in Queue:
        waiting = np.flatnonzero((links.queue == queue) & ~ran)
        if not waiting.size:
            continue
        index = int(waiting[0])
        for slot, wait in enumerate(links.waits[index].tolist()):
            if wait == NEVER or (wait >= 0 and not ran[wait]):
                fifo = _popped_by(queue, slot)
                first, second = _pair(index, wait)
                expected = f"a token of {fifo.name} for instruction {index}"
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
    """Finds queues whose last instruction is not FINISH nor done before it."""
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

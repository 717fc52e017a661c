"""Fetch, load, compute and store as concurrent servers; times of every instruction of a stream.

But for the read channel, every time is a maximum of sums of earlier times. So each server runs
ahead as far as the times it depends on are known. When all of them wait, the only unknown times
are the ends of transfers, and whatever follows from the first one to end lies after it: the
channel may be served until then. No event queue is needed, and the work is linear in N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byocir.errors import Lines
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Decoded
from byocir.vta_sim.timing.channel import FETCH, Channel, Request
from byocir.vta_sim.timing.model import TimingModel
from byocir.vta_sim.timing.work import Rank, Work, fetch_beats
from byocir.vta_sim.tokens import TOKEN_FIFOS, Links, Queue

UNKNOWN = -1
NONE = -1


@dataclass(frozen=True)
class Token:
    """A token to push, and the instruction whose start makes room for it, or NONE.

    ``number``: twice the index of the pushing instruction, plus one if it is pushed to next.
    """

    number: int
    room: int


class Servers:
    """State of one run; ``run`` fills the lists of times, all indexed by instruction.

    ``delivered``: when fetch has put it into its queue; ``start``; ``end``; ``freed``: when its
    unit may go on, after its tokens found room; ``ready``: when fetch had it at hand.
    """

    def __init__(self, decoded: Decoded, links: Links, work: Work, model: TimingModel) -> None:
        count = len(decoded)
        self.model, self.count = model, count
        self.rows = [np.flatnonzero(links.queue == queue).tolist() for queue in Queue]
        self.pops, self.pushes = _pops(links), _pushes(decoded, links, model.token_queue)
        self.room = _room(self.rows, count, model.command_queue)
        self.busy, self.lead = work.busy.tolist(), work.lead.tolist()
        self.beats, self.rank = work.beats.tolist(), work.rank.tolist()
        self.ready, self.delivered = [UNKNOWN] * count, [UNKNOWN] * count
        self.start, self.end, self.freed = ([UNKNOWN] * count for _ in range(3))
        self.tokens = [UNKNOWN] * (2 * count)
        self.heads, self.free = [0, 0, 0], [0, 0, 0]
        self.next, self.read, self.reading, self.fetch_free = 0, 0, False, 0
        self.channel, self.steps = Channel(), 0

    def run(self) -> None:
        """Raises VTAError V306 if the servers wait for each other because queues are full."""
        queues = [int(queue) for queue in Queue]
        while True:
            before = self.steps
            self._fetch()
            for queue in queues:
                self._advance(queue)
            if self.steps != before:
                continue
            if not self.channel.pending:
                break
            self._finish_transfer()
        if sum(self.heads) < self.count:
            raise self._deadlock()

    def _finish_transfer(self) -> None:
        client, now = self.channel.complete()
        if client == FETCH:
            self._chunk_arrived(now)
            return
        index = self.rows[client][self.heads[client]]
        self.end[index] = max(now, self.start[index] + self.busy[index])

    def _fetch(self) -> None:
        """Deliver what was read, read the next chunk when all of it is delivered."""
        while self.next < self.count:
            index = self.next
            if index == self.read:
                if self.reading:
                    return
                self._read_chunk()
                continue
            room = self.room[index]
            cleared = self.start[room] if room != NONE else 0
            if cleared == UNKNOWN:
                return
            self.ready[index] = self.fetch_free + self.model.issue
            self.fetch_free = self.delivered[index] = max(self.ready[index], cleared)
            self.next += 1
            self.steps += 1

    def _read_chunk(self) -> None:
        size = min(self.model.fetch_chunk, self.count - self.read)
        beats = fetch_beats(self.model, size)
        arrival = self.fetch_free + self.model.fetch_latency
        if beats:
            self.channel.pending.append(Request(Rank.FETCH, arrival, beats, FETCH))
            self.reading = True
        else:
            self._chunk_arrived(arrival)
        self.steps += 1

    def _chunk_arrived(self, now: int) -> None:
        self.fetch_free, self.reading = now, False
        self.read = min(self.read + self.model.fetch_chunk, self.count)

    def _advance(self, queue: int) -> None:
        """Run a module as far as known times allow."""
        rows, start, end = self.rows[queue], self.start, self.end
        while self.heads[queue] < len(rows):
            index = rows[self.heads[queue]]
            if start[index] == UNKNOWN and not self._begin(queue, index):
                return
            if end[index] == UNKNOWN or not self._release(queue, index):
                return

    def _begin(self, queue: int, index: int) -> bool:
        """Start an instruction if it is delivered and its tokens are there; was it?"""
        begin = self.delivered[index]
        if begin == UNKNOWN:
            return False
        begin = max(begin, self.free[queue])
        for token in self.pops[index]:
            at = self.tokens[token]
            if at == UNKNOWN:
                return False
            begin = max(begin, at)
        self.start[index] = begin
        lead, beats = self.lead[index], self.beats[index]
        if beats:
            request = Request(self.rank[index], begin + lead, beats, queue)
            self.channel.pending.append(request)
        else:
            self.end[index] = begin + max(lead, self.busy[index])
        self.steps += 1
        return True

    def _release(self, queue: int, index: int) -> bool:
        """Push the tokens of an instruction that has ended, each as soon as it finds room."""
        freed, stuck = self.end[index], False
        for token in self.pushes[index]:
            if self.tokens[token.number] == UNKNOWN:
                cleared = self.start[token.room] if token.room != NONE else 0
                if cleared == UNKNOWN:
                    stuck = True
                    continue
                self.tokens[token.number] = max(self.end[index], cleared)
                self.steps += 1
            freed = max(freed, self.tokens[token.number])
        if stuck:
            return False
        self.freed[index] = self.free[queue] = freed
        self.heads[queue] += 1
        self.steps += 1
        return True

    def _deadlock(self) -> VTAError:
        """The V306 report. Tokens alone do not deadlock, as ``schedule`` has shown before."""
        lines: list[str] = []
        if self.next < self.count:
            lines.append(f"fetch holds instruction {self.next} for a full command queue")
        for queue in Queue:
            if self.heads[queue] == len(self.rows[queue]):
                continue
            index, name = self.rows[queue][self.heads[queue]], queue.name.lower()
            if self.end[index] != UNKNOWN:
                lines.append(f"{name} holds instruction {index} for a full token queue")
            elif self.delivered[index] != UNKNOWN:
                lines.append(f"{name} waits for a token at instruction {index}")
        depths = f"{self.model.command_queue} commands, {self.model.token_queue} tokens"
        found = f"a deadlock after {sum(self.heads)} of {self.count} with queues of {depths}"
        return VTAError("V306", "a queue with room", found, Lines.of(lines, 5))


def _pops(links: Links) -> list[list[int]]:
    """The numbers of the tokens that each instruction takes."""
    prev, following = links.waits[:, 0], links.waits[:, 1]
    numbers = [
        np.where(prev >= 0, 2 * prev + 1, UNKNOWN),
        np.where(following >= 0, 2 * following, UNKNOWN),
    ]
    pairs: list[list[int]] = np.stack(numbers, axis=1).tolist()
    return [[number for number in pair if number >= 0] for pair in pairs]


def _pushes(decoded: Decoded, links: Links, capacity: int) -> list[list[Token]]:
    """The tokens that each instruction pushes."""
    result: list[list[Token]] = [[] for _ in range(len(decoded))]
    for fifo in TOKEN_FIFOS:
        pushing = (links.queue == fifo.producer) & (decoded.columns[fifo.push] != 0)
        popping = (links.queue == fifo.consumer) & (decoded.columns[fifo.pop] != 0)
        side = 1 if fifo.push == "push_next" else 0
        poppers: list[int] = np.flatnonzero(popping).tolist()
        for number, index in enumerate(np.flatnonzero(pushing).tolist()):
            room = poppers[number - capacity] if number >= capacity else NONE
            result[index].append(Token(2 * index + side, room))
    return result


def _room(rows: list[list[int]], count: int, capacity: int) -> list[int]:
    """The instruction whose start makes room for each one in its command queue, or NONE."""
    result = [NONE] * count
    for queue in rows:
        for earlier, later in zip(queue, queue[capacity:], strict=False):
            result[later] = earlier
    return result

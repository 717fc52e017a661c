"""Simulates a shared channel: one beat a cycle, for the most important request that has arrived."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Request:
    """Describes a request of ``left`` beats for ``client``, which arrives in cycle ``arrival``; the
    lowest rank goes first.

    An important request takes the channel over in the middle of another: on a device that happens
    between bursts, which are short beside a transfer.
    """

    rank: int
    arrival: int
    left: int
    client: int


@dataclass
class Channel:
    """Serves a channel with the requests that wait or are being served, and the spans already
    granted.

    ``spans``: (client, first cycle, last cycle + 1), in order of time.
    """

    pending: list[Request] = field(default_factory=list[Request])
    spans: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    now: int = 0

    def complete(self) -> tuple[int, int]:
        """Serves until the first request is done; gives its client, and the cycle after its last
        beat.

        Right only if no further request can arrive before that cycle.
        """
        while True:
            served = self._next()
            self.now = max(self.now, served.arrival)
            stop = self.now + served.left
            for request in self.pending:
                if request.rank < served.rank and request.arrival < stop:
                    stop = request.arrival
            self.spans.append((served.client, self.now, stop))
            served.left -= stop - self.now
            self.now = stop
            if not served.left:
                self.pending.remove(served)
                return served.client, stop

    def next_end(self) -> int:
        """Gives the cycle that ``complete`` would give, without serving."""
        copies = [Request(r.rank, r.arrival, r.left, r.client) for r in self.pending]
        return Channel(copies, [], self.now).complete()[1]

    def _next(self) -> Request:
        """Chooses the request to serve next: of those that have arrived, or arrive first, the one
        of lowest rank, then the one that waits longest.
        """
        return min(self.pending, key=self._turn) if len(self.pending) > 1 else self.pending[0]

    def _turn(self, request: Request) -> tuple[int, int, int, int]:
        arrival = request.arrival
        return max(arrival, self.now), request.rank, arrival, request.client

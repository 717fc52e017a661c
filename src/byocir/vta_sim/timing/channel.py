"""The DRAM read channel: one beat a cycle, to the most important request that has arrived."""

from __future__ import annotations

from dataclasses import dataclass, field

FETCH = 3
"""The client number of fetch; load, compute and store are numbered as in ``Queue``."""


@dataclass
class Request:
    """``left`` beats for ``client``, wanted from cycle ``arrival`` on; the lowest rank goes first.

    An important request takes the channel over in the middle of another: on the device that
    happens between bursts, which are short beside a transfer.
    """

    rank: int
    arrival: int
    left: int
    client: int


@dataclass
class Channel:
    """Requests that wait or are being served, and the spans already granted.

    ``spans``: (client, first cycle, last cycle + 1), in order of time.
    """

    pending: list[Request] = field(default_factory=list[Request])
    spans: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    now: int = 0

    def complete(self) -> tuple[int, int]:
        """Serve until the first request is done; its client, and the cycle after its last beat.

        Right only if no further request can arrive before that cycle.
        """
        while True:
            self.now = max(self.now, min(request.arrival for request in self.pending))
            served = min(
                (request for request in self.pending if request.arrival <= self.now),
                key=lambda request: request.rank,
            )
            stop = self.now + served.left
            for request in self.pending:
                if request.rank < served.rank:
                    stop = min(stop, request.arrival)
            self.spans.append((served.client, self.now, stop))
            served.left -= stop - self.now
            self.now = stop
            if not served.left:
                self.pending.remove(served)
                return served.client, stop

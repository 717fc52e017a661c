"""Gives back to the host what it computes for less, all in all, than the targets that took it.

The host competes where a module names an objective and its host tells costs. No match can be
decided alone, as values that cross between a target and the host cost time as well. So all matches
of a function are divided at once, by a minimum cut: each match costs what its target estimates, or
what the host does, and each value that crosses between them costs a crossing. Matches of targets
that give no cost stay, and so do those that a user placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from byocir.dialects.byoc import HOST
from byocir.dialects.traits import is_constant_value
from byocir.patterns.composite import Attempt
from byocir.rewrites.byoc.choose_target import Bid, Offer
from byocir.rewrites.byoc.count_work import crossing, size_of
from byocir.rewrites.byoc.min_cut import SINK, SOURCE, Edge, sink_side
from byocir.rewrites.byoc.processor import BYTE_JOULES

CALL_SECONDS = 2e-6
"""The seconds that caller and callee take to find one value that crosses."""
BYTES_PER_SECOND = 3e9
"""The bytes of a value that cross in a second. Both sides may have its elements in orders of their
own: 0.19 MB took the host 0.04 ms more to write in rows, and oneDNN 0.02 ms to bring into its own
order again."""
UNITS = 10**18
"""The parts of a second or joule in which costs are whole numbers."""


@dataclass(frozen=True)
class TakenMatch:
    """Records a match that a target has taken, its note, and the place of its record. It `is_fixed`
    if a user placed it there.
    """

    attempt: Attempt
    offer: Offer
    is_fixed: bool
    note: str
    record: int


@dataclass(frozen=True)
class Verdict:
    """Records the decision between a target and the host, with a sentence that explains it."""

    on_host: bool
    reason: str


def against_host(placed: Sequence[TakenMatch], host: Offer, objective: str) -> dict[int, Verdict]:
    """Decides on the matches of one function, by their position; matches with an unknown cost are
    left out.
    """
    found: dict[int, tuple[Bid, Bid]] = {}
    for i, each in enumerate(placed):
        if not each.is_fixed:
            bids = each.offer.bid([each.attempt], objective), host.as_host(each.attempt, objective)
            if all(bid.cost is not None for bid in bids):
                found[i] = bids
    if not found:
        return {}
    network = _Network(placed, objective)
    back = network.on_host({i: (_cost(own), _cost(host)) for i, (own, host) in found.items()})
    return {
        i: Verdict(i in back, _choice_text(i in back, *bids, network.most_crossing(i), objective))
        for i, bids in found.items()
    }


def _choice_text(on_host: bool, own: Bid, host: Bid, crossing: float, objective: str) -> str:
    ranked = [host, own] if on_host else [own, host]
    prices = ", ".join(
        f"{bid.cost:g}{' measured' * bid.measured} on {bid.offer.target}" for bid in ranked
    )
    return f"{objective} {prices}, and up to {crossing:g} for what crosses"


def _cost(bid: Bid) -> float:
    assert bid.cost is not None
    return bid.cost


_CROSSING: Mapping[str, Callable[[int], float]] = {
    "latency": lambda nbytes: CALL_SECONDS + nbytes / BYTES_PER_SECOND,
    "energy": lambda nbytes: nbytes * BYTE_JOULES,
}
"""The cost of a value of so many bytes that crosses."""


class _Network:
    """Describes a graph whose minimum cut divides the matches of a function: targets are on the
    source's side, the host on the sink's, and edges are the values between matches.
    """

    def __init__(self, placed: Sequence[TakenMatch], objective: str) -> None:
        self._placed = placed
        self._crossing = _CROSSING[objective]
        self._owner = {op: i for i, each in enumerate(placed) for op in each.attempt.matched}
        self._values = dict.fromkeys(v for each in placed for v in crossing(each.attempt.matched))

    def most_crossing(self, i: int) -> float:
        """Adds up the costs of all values that go into a match and come out of it, as if each of
        them crossed.
        """
        return sum(self._price(value) for value in crossing(self._placed[i].attempt.matched))

    def on_host(self, costs: Mapping[int, tuple[float, float]]) -> set[int]:
        """Finds the matches that cost less on the host, among those with costs on both sides."""
        edges: list[Edge] = []
        for i in range(len(self._placed)):
            if i in costs:
                own, other = costs[i]
                edges += [(i + 2, SINK, _units(own)), (SOURCE, i + 2, _units(other))]
        always = (
            1
            + sum(cost for _, _, cost in edges)
            + sum(3 * _units(self._price(v)) * (1 + len(list(v.uses))) for v in self._values)
        )
        edges += [(SOURCE, i + 2, always) for i in range(len(self._placed)) if i not in costs]
        count = 2 + len(self._placed)
        for value in self._values:
            if not is_constant_value(value):
                edges += self._edges_of(value, count, always)
                count += 2
        return {node - 2 for node in sink_side(count, edges) if 2 <= node < 2 + len(self._placed)}

    def _edges_of(self, value: SSAValue, spare: int, always: int) -> list[Edge]:
        """Yields the edges of a value. It leaves a target once if the host or another target reads
        it, and enters each target once that does not make it itself; the node `spare` stands for
        the former, the next one for the latter.
        """
        price = _units(self._price(value))
        maker = self._node_of(value.owner)
        target = self._target(maker)
        out, into = spare, spare + 1
        edges: list[Edge] = [(maker, out, price), (into, maker, price)] if maker != SINK else []
        if maker == SINK:
            edges.append((into, SINK, price))
        for reader in dict.fromkeys(self._node_of(use.operation) for use in value.uses):
            if reader == maker:
                continue
            if reader == SINK or self._target(reader) == target or maker == SINK:
                edges += [(out, reader, always)] if maker != SINK else []
                edges += [(reader, into, always)] if reader != SINK else []
            else:  # the reader has another target, so the value passes through the host
                edges += [(maker, SINK, price), (reader, SINK, price)]
        return edges

    def _node_of(self, op: object) -> int:
        found = self._owner.get(op) if isinstance(op, Operation) else None
        return SINK if found is None else found + 2

    def _target(self, node: int) -> str:
        return HOST if node == SINK else self._placed[node - 2].offer.target

    def _price(self, value: SSAValue) -> float:
        """Gives the cost of a value that crosses. The function's own inputs and outputs are handed
        on where they lie: whoever reads or makes them brings them into an order of their own.
        """
        return self._crossing(0 if _is_port(value) else size_of(value.type) or 0)


def _is_port(value: SSAValue) -> bool:
    """Tells if a value is an input of a function, or nothing but its output. Values that a loop's
    body or a branch is given, or gives, are not.
    """
    if isinstance(value, BlockArgument):
        return isinstance(value.owner.parent_op(), FuncOp)
    return all(isinstance(use.operation, ReturnOp) for use in value.uses)


def _units(cost: float) -> int:
    return round(cost * UNITS)

"""Writes the script of a schedule: sizes of tiles and the order of loops as calls of primitives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from byocir.dialects.types import Shape
from byocir.rewrites.machine.stages import Chain, Staged, free_name
from byocir.rewrites.machine.tile_costs import Tiled, Whole


@dataclass(frozen=True)
class Choice:
    """Holds the choice of a schedule: sizes of tiles, the order of the loops over tiles of the last
    block, and the operands that are staged for all sums at once.
    """

    sizes: Mapping[Tiled, int]
    order: Shape
    whole: Whole = frozenset()


class Script:
    """Writes a choice as calls of schedule primitives."""

    def __init__(self, chain: Chain, choice: Choice) -> None:
        self.chain = chain
        self.choice = choice
        self.calls: list[str] = []
        self.names: list[str] = []
        """The loops around the last block, then those around sums as they come."""

    def text(self) -> str:
        """Writes the script."""
        chain, last = self.chain, self.chain.last
        given = [stage.name for stage in chain.stages if not stage.is_new]
        self.calls.append(f"{', '.join(given)}{',' if len(given) == 1 else ''} = blocks()")
        if last.is_new:
            self.calls.append(f"{last.name} = cache_write({given[-1]})")
        loops = self._tiled()
        for s, stage in reversed([*enumerate(chain.stages[:-1])]):
            if loops and s not in chain.starts | chain.along:
                self.calls.append(f"compute_at({stage.name}, {loops[-1]})")
        inner = [[*loops, *self._summed(s)] for s in range(len(chain.stages))]
        for s, stage in enumerate(chain.stages):
            if not stage.into.is_main and s not in chain.starts:
                at = f", at={loops[-1]}" if loops else ""
                out = len(stage.block.ins)
                self.calls.append(f"stage({stage.name}, {out}, {stage.into.scope}{at})")
        for each in chain.staged:
            is_whole = (each.stage, each.operand) in self.choice.whole
            hops = chain.hops(each, is_whole)
            if len({self._depth(*hop) for hop in hops}) == 1:  # one goes all the way
                hops = [(each, hops[-1][1])]
            for hop, at_once in hops:
                self._stage(hop, inner[each.stage], at_once)
        return "; ".join(self.calls)

    def _stage(self, each: Staged, loops: Sequence[str], is_whole: bool) -> None:
        """Adds the call that stages an operand in one of these loops."""
        names = loops[: self._depth(each, is_whole)]
        more = f", at={names[-1]}" if names else ""
        more += ", strided=True" if self.chain.steps(each) and not is_whole else ""
        name = self.chain.stages[each.stage].name
        self.calls.append(f"stage({name}, {each.operand}, {each.path[-1].scope}{more})")

    def _loop(self, name: str) -> str:
        taken = {*self.names, *(stage.name for stage in self.chain.stages)}
        self.names.append(free_name(name, taken))
        return self.names[-1]

    def _split(self, s: int, iterators: Iterable[int]) -> list[int]:
        """Selects those of a stage's iterators that have more than one tile."""
        extents = self.chain.stages[s].extents
        return [i for i in iterators if self.choice.sizes[s, i] < extents[i]]

    def _tiled(self) -> list[str]:
        s = len(self.chain.stages) - 1
        return self._tile(s, self._split(s, self.choice.order), ', remainder="overlap"')

    def _summed(self, s: int) -> list[str]:
        return self._tile(s, self._split(s, self.chain.stages[s].reductions), "")

    def _tile(self, s: int, chosen: Sequence[int], more: str) -> list[str]:
        """Adds the call that tiles iterators of a stage; gives the names of the loops over
        tiles.
        """
        if not chosen:
            return []
        stage = self.chain.stages[s]
        names = [self._loop(stage.block.names[i]) for i in chosen]
        sizes = ", ".join(f"{stage.block.names[i]}={self.choice.sizes[s, i]}" for i in chosen)
        left = ", ".join(names) + ("," if len(names) == 1 else "")
        self.calls.append(f"{left} = tile({stage.name}, {sizes}{more})")
        return names

    def _depth(self, each: Staged, is_whole: bool) -> int:
        """Counts the loops around the place where an operand is staged."""
        last, stage, order = len(self.chain.stages) - 1, each.stage, self.choice.order
        around = [*((last, i) for i in order)]
        around += [(stage, i) for i in self.chain.stages[stage].reductions]
        moved = self.chain.moved(each, order, is_whole)
        loops = [m for own, m in zip(around, moved, strict=True) if self._split(own[0], [own[1]])]
        return max((n + 1 for n, moves in enumerate(loops) if moves), default=0)

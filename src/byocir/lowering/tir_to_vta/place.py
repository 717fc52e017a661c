"""Places the buffers of a composite in VTA's scratchpads anew each time that its loops come to
them.

One tile after another should land somewhere else, so that the load of the next can overlap the
computation of the last. So a buffer in a loop alternates between two places of its own, which is
what `vta-tile` makes room for. Where that does not fit, each meeting finds a place for itself. All
buffers of a composite are placed at once, beside those of the composites before it
(`rewrites.memory_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation

from byocir.dialects.tir import AllocOp, ForOp, IntrinsicOp, scope_of
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.tensorise_blocks import MEMORIES, elements_of
from byocir.rewrites.liveness import last_uses
from byocir.rewrites.memory_rows import MOST, Full, Life, Placed, spread
from byocir.vta_sim import VTAConfig

SLOTS = 2
"""The addresses between which the instances of one buffer alternate. Two let loads overlap
computation; more would need the same micro-ops for more addresses, so that loops would keep loading
micro-ops, which the compute module waits for."""

Lives = Sequence[Life]
"""The lives of a buffer, one from each meeting on."""
Places = Mapping[AllocOp, Sequence[int]]
"""The addresses of each buffer, in the order in which the loops meet it."""


class Placer:
    """Places the composites of one function, one after the other."""

    def __init__(self, config: VTAConfig) -> None:
        self._config = config
        self._meetings = _Meetings(config)
        self._before: dict[str, list[Placed]] = {scope: [] for scope in MEMORIES}

    def places(self, body: Block) -> Places:
        """Gives the addresses of the buffers of a composite's body; raises ByocirError B331 where
        they find no room, and B335 for a buffer in another scope.
        """
        lives = self._meetings.of(body)
        found: dict[AllocOp, list[int]] = {}
        for scope in MEMORIES:
            own = {op: met for op, met in lives.items() if scope_of(op.result.type) == scope}
            found |= self._placed(scope, own)
        return {op: [at[i % len(at)] for i in range(len(lives[op]))] for op, at in found.items()}

    def _placed(self, scope: str, own: Mapping[AllocOp, Lives]) -> dict[AllocOp, list[int]]:
        """Finds the addresses between which each buffer of a scratchpad alternates."""
        depth, before = self._config.depth(MEMORIES[scope]), self._before[scope]
        for count in (SLOTS, max(map(len, own.values()), default=SLOTS)):
            buffers = [op for op, met in own.items() for _ in met[:count]]
            lives = [life for met in own.values() for life in _slots(met, count)]
            rows = spread(depth, lives, _longer, before=before)
            if not isinstance(rows, Full):
                break
        else:
            raise _refused(scope, depth, [buffers[i] for i in rows.alive], rows.wanted)
        self._before[scope] = [
            (row, life)
            for row, life in [*before, *zip(rows, lives, strict=True)]
            if life.last + MOST > self._meetings.now
        ]
        found: dict[AllocOp, list[int]] = {op: [] for op in own}
        for op, row in zip(buffers, rows, strict=True):
            found[op].append(row)
        return found


class _Meetings:
    """Lists when loops come to their buffers, and until when they use them. Time is the number of
    buffers met so far.
    """

    def __init__(self, config: VTAConfig) -> None:
        self.now = 0
        self._config = config
        self._ends: dict[Block, Mapping[Operation, Sequence[AllocOp]]] = {}

    def of(self, block: Block) -> dict[AllocOp, list[Life]]:
        """Gives the lives of the buffers of a block that runs now, in order."""
        found: dict[AllocOp, list[Life]] = {}
        self._run(block, found)
        self._ends.clear()
        return found

    def _run(self, block: Block, found: dict[AllocOp, list[Life]]) -> None:
        if block not in self._ends:
            self._ends[block] = last_uses(block)
        for op in block.ops:
            if isinstance(op, AllocOp):
                self.now += 1
                found.setdefault(op, []).append(Life(self._size(op), self.now, self.now))
            elif isinstance(op, ForOp | IntrinsicOp):
                for _ in range(op.extent.value.data if isinstance(op, ForOp) else 1):
                    self._run(op.body.block, found)
            for ended in self._ends[block].get(op, ()):
                found[ended][-1] = replace(found[ended][-1], last=self.now)

    def _size(self, op: AllocOp) -> int:
        scope = scope_of(op.result.type)
        if scope not in MEMORIES:
            choices = ", ".join(MEMORIES)
            raise unsupported("B335", f"expected a buffer in {choices}, found {scope}", op)
        return elements_of(op.result, self._config)


def _slots(met: Lives, count: int) -> Lives:
    """Gives the lives of the places between which a buffer alternates."""
    return [replace(life, last=met[i::count][-1].last) for i, life in enumerate(met[:count])]


def _longer(life: Life, slack: int) -> Life:
    return replace(life, last=life.last + slack)


def _refused(scope: str, depth: int, alive: Sequence[AllocOp], wanted: int) -> ByocirError:
    shapes = ["x".join(map(str, shape_of(op.result.type))) for op in alive]
    return unsupported(
        "B331",
        f"expected {scope} to hold the buffers of a tile, found {wanted} elements wanted at once "
        f"and {depth} there: {', '.join(shapes)}",
        alive[0],
        help="the tiles are too large for the scratchpads of this configuration",
    )

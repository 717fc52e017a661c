"""vta-tile: puts loops around blocks, so that what a tile needs fits VTA's memories.

Does: puts the blocks of every composite of VTA's functions into loops over output channels, batch
and spatial dimensions, in this order, and reductions into loops over input channels inside them.
Blocks get bases and extents; their maps stay. Sizes are the cheapest that fit (`tile_search`). The
last tile along a dimension begins earlier where the size is no multiple: it computes some elements
once more. Reductions are cut into equal parts. Fills become blocks, which can have bases. Steps in
front of a max pool run over what the windows of a tile reach (`tile_spaces`).

Requires: `vta-bufferize`. Error B326 when no tiles fit, B327 for composites that are not in its
form.

Guarantees: the same results. Blocks of one tile share their bases, which are constants or `i * t`
or `min(i * t, size - t)` of the loops' indices, but for those in front of a pool; loops of one
iteration are left out. Loops over the iterators of a guard (`where`) are unrolled: their bases are
constants, and each tile is in an unrolled loop of one iteration of its own, where its buffers will
live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, composites_in
from byocir.dialects.tir import BlockOp, FillOp, ForOp, LoopKind
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape
from byocir.dialects.vta_config import config_of
from byocir.lowering.tir_to_vta.composites import unsupported, vta_functions
from byocir.lowering.tir_to_vta.tile_nest import SCOPES, CompositeNest, nest_of
from byocir.lowering.tir_to_vta.tile_search import NoTiles, are_tiles, best_tiles
from byocir.lowering.tir_to_vta.tile_spaces import Spaces, Step, adds_lanes
from byocir.patterns.knobs import knobs_of
from byocir.rewrites.schedule.access import reach
from byocir.rewrites.schedule.blocks import filling, retile
from byocir.rewrites.schedule.index import IndexBuilder, sum_of
from byocir.vta_sim import VTAConfig


@dataclass(frozen=True)
class VtaTilePass(ModulePass):
    """Tiles VTA's composites so that their data fits its memories."""

    name = "vta-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in vta_functions(op):
            tile_function(function, config_of(function))


def tile_function(function: FuncOp, config: VTAConfig) -> None:
    """Tiles the composites of one function for this VTA."""
    for composite in composites_in(function):
        nest = nest_of(composite, config)
        try:
            sizes = _given(composite, nest, config) or best_tiles(nest, config)
        except NoTiles as error:
            raise _too_small(error, composite, config) from None
        _Tiler(composite, nest, sizes).tile()


def tile_names(composite: CompositeOp, nest: CompositeNest) -> dict[str, int]:
    """Names the iterators of a nest that can be tiled, as knobs of the composite's schedule."""
    names = Spaces.of(composite).names
    return {names[i]: i for i in nest.loops}


def _given(composite: CompositeOp, nest: CompositeNest, config: VTAConfig) -> Shape | None:
    """Reads the tiles that a composite's schedule asks for. Raises ByocirError B261 for tiles that
    do not fit.
    """
    if composite.schedule is None:
        return None
    known, given = tile_names(composite, nest), knobs_of(composite)
    sizes = list(nest.extents)
    for name, size in given.items():
        sizes[known.get(name, 0)] = size if isinstance(size, int) else 0
    if given.keys() != known.keys() or not are_tiles(nest, config, sizes):
        raise unsupported(
            "B261",
            f"expected tiles {', '.join(known)} that fit VTA's memories, found "
            f"'{composite.schedule.data}'",
            composite,
        )
    return tuple(sizes)


def _too_small(error: NoTiles, composite: CompositeOp, config: VTAConfig) -> Exception:
    depths = ", ".join(f"{memory.name} {config.depth(memory)}" for memory in SCOPES)
    needed = ", ".join(f"{memory.name} {error.needed[memory]}" for memory in SCOPES)
    return unsupported(
        "B326",
        f"expected tiles that fit VTA's memories ({depths} elements), found none: the smallest of "
        f"a composite need {needed}",
        composite,
        help="use a configuration with larger buffers, or let another target take this op",
    )


@dataclass
class _Tiler:
    """Rewrites one composite; `sizes` are the tile sizes by iterator."""

    composite: CompositeOp
    nest: CompositeNest
    sizes: Shape

    def __post_init__(self) -> None:
        self.spaces = Spaces.of(self.composite)
        self.steps = self.spaces.steps
        self.indices = IndexBuilder(self.composite.body.block, self.composite.location)
        self.bases: dict[int, SSAValue] = {}
        guard = self.spaces.result.where
        guards = guard.data.results if guard is not None else ()
        self.unrolled = {
            i
            for expr in guards
            for dim in expr.used_dims()
            for i in self.spaces.form(self.spaces.result, dim).atoms
        }

    def tile(self) -> None:
        """Moves the steps of the composite into loops."""
        body = self.composite.body.block
        last = body.last_op
        assert last is not None
        last.detach()
        for step in self.steps:
            step.detach()
        outer = [i for i in self.nest.loops if i < self.nest.parallels]
        self._loops(outer, body, self._tile_steps)
        for step in self.steps:
            step.erase()
        body.add_op(last)

    def _loops(self, order: Sequence[int], block: Block, inner: Callable[[Block], None]) -> None:
        """Puts loops over the tiles of these iterators into a block, and runs `inner` on the
        innermost body.
        """
        if not order:
            inner(block)
            return
        i, rest = order[0], order[1:]
        size, extent = self.sizes[i], self.nest.extents[i]
        count = -(-extent // size)
        if count == 1:
            self.bases[i] = self.indices.number(0)
            self._loops(rest, block, inner)
        elif i in self.unrolled:
            for tile in range(count):
                self.bases[i] = self.indices.number(min(tile * size, extent - size))
                self._loops(rest, self._loop(block, 1, LoopKind.UNROLL).body.block, inner)
        else:
            loop = self._loop(block, count, LoopKind.SERIAL)
            self.bases[i] = self._base(loop, size, extent - size)
            self._loops(rest, loop.body.block, inner)

    def _loop(self, block: Block, count: int, kind: LoopKind) -> ForOp:
        loop = ForOp.of(count, kind, self.composite.location)
        block.add_op(loop)
        return loop

    def _base(self, loop: ForOp, size: int, last: int) -> SSAValue:
        """Makes `min(index * size, last)`, without what has no effect."""
        step = Linear(((loop.index, size),))
        return self.indices.minimum(step, last, loop.body.block)

    def _tile_steps(self, block: Block) -> None:
        """Appends one tile of every step."""
        for step in self.steps:
            if isinstance(step, FillOp):
                self._tile_fill(step, block)
            elif step is self.spaces.widest and step.reductions:
                inner = [i for i in self.nest.loops if i >= self.nest.parallels]
                self._loops(inner, block, lambda into, op=step: self._tile_block(op, into))
            else:
                self._tile_block(step, block)

    def _tile_block(self, op: BlockOp, block: Block) -> None:
        tiled = op.clone()
        tiled.location = op.location
        self._place(op, tiled, block)

    def _tile_fill(self, op: FillOp, block: Block) -> None:
        assert op.destination is not None
        like = self.spaces.block_like(op)
        iterators = like.iterators.data[: self.nest.parallels]
        index = like.out_maps[0].results
        self._place(op, filling(op, op.destination, iterators, index), block)

    def _place(self, step: Step, op: BlockOp, block: Block) -> None:
        """Appends a block over the box of a step that one tile needs."""
        sides = [self._side(step, i, op, block) for i in range(len(op.extents))]
        retile(op, [size for _, size in sides], [base for base, _ in sides])
        block.add_op(op)

    def _side(self, step: Step, i: int, op: BlockOp, block: Block) -> tuple[SSAValue, int]:
        """Gives where an iterator of a step begins in a tile, and how many points it has: none past
        its extent, where windows reach beyond.
        """
        if i >= self.nest.parallels and (step is self.spaces.pool or adds_lanes(op)):
            return self.indices.number(0), op.extents[i]
        form = self.spaces.form(step, i) if step in self.spaces.before else None
        if form is None or form == Linear(((i, 1),)):
            return self.bases.get(i) or self.indices.number(0), self.sizes[i]
        known = {j: sum_of(base) for j, base in self.bases.items()}
        bases = [known.get(j, Linear()) for j in range(len(self.sizes))]
        start, size = reach(form, bases, self.sizes)
        if not start.terms:
            # Windows that are all outside reach no element; a tile has one, which nothing reads.
            first = min(max(start.constant, 0), op.extents[i] - 1)
            last = min(start.constant + size, op.extents[i])
            return self.indices.number(first), max(last - first, 1)
        return self.indices.value(start, block), size

"""Writes the loops around the tiles of a contraction, and what follows each tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from byocir.dialects.tir.affine import linear
from byocir.dialects.types import element_type_of
from byocir.lowering.tir_to_c.conditions import KEPT_APART, either, loop_over
from byocir.lowering.tir_to_c.literals import c_type
from byocir.lowering.tir_to_c.loops import BlockWriter, KernelLoop
from byocir.lowering.tir_to_c.openmp import alone, shared_for
from byocir.lowering.tir_to_c.tiles import Tile
from byocir.lowering.tir_to_c.tree import Block, Declare, For, If, Node, Nodes
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.host.tile_shape import TileShape, heights_of, split


@dataclass(frozen=True)
class _Range:
    """Describes a loop over tiles: `name` counts from `start` up to `stop` by `step`."""

    name: str
    start: int
    stop: int
    step: int

    @property
    def count(self) -> int:
        return -(-(self.stop - self.start) // self.step)


class TileNest:
    """Writes the loops over the tiles of a contraction, with what follows each tile."""

    def __init__(
        self,
        writer: BlockWriter,
        host: CHost,
        tile: Tile,
        shape: TileShape,
        lane: KernelLoop,
        rows: Sequence[KernelLoop],
    ) -> None:
        self.writer, self.host, self.tile, self.shape = writer, host, tile, shape
        self.lane, self.rows = lane, rows
        self.helpers: dict[str, str] = dict(tile.types(shape.lanes))

    @property
    def is_divided(self) -> bool:
        """Tells if there are several tiles."""
        columns, positions = self._around()
        return any(r.count > 1 for r in (*columns, *positions)) or (
            len(self._chunks()) * len(self._rows()) > 1
            or any(r.count > 1 for r in (*self._chunks(), *self._rows()[0]))
        )

    def body(self, threads: int) -> Nodes:
        """Writes the kernel's body, which all of so many threads call; functions that it calls are
        in `helpers` afterwards.
        """
        columns, positions = self._around()
        chunks, rows = self._chunks(), self._rows()
        body: list[Node] = []
        for i, chunk in enumerate(chunks):
            # Where elements are computed a second time, threads must have met.
            overlaps = i + 1 < len(chunks) and chunks[i + 1].start < chunk.stop
            for tall in rows:
                ranges = self._ordered(columns, positions, chunk, tall)
                inner = self._tile(chunk, [r.step for r in tall])
                waits = tall is rows[-1] and (overlaps or chunk is chunks[-1])
                body += self._nested(ranges, inner, threads, waits=waits)
        return body

    def _around(self) -> tuple[list[_Range], list[_Range]]:
        """Gives the loops that are neither lanes nor rows: first those along which only the operand
        that rows share moves, then the rest.
        """
        others = [
            loop for loop in self.writer.parallel if loop is not self.lane and loop not in self.rows
        ]
        shared = [f for f in self.tile.factors if f.follows and not f.has_rows]
        columns: list[_Range] = []
        positions: list[_Range] = []
        for loop in others:
            moves = any(f.outer.coefficient(loop.position) for f in shared)
            still = all(
                not f.outer.coefficient(loop.position) for f in self.tile.factors if f not in shared
            )
            (columns if moves and still else positions).append(_Range(loop.name, 0, loop.extent, 1))
        return columns, positions

    def _chunks(self) -> list[_Range]:
        """Cuts the lane into tiles of full width, then narrower ones; the last may begin earlier
        and compute some elements a second time.
        """
        lanes, extent = self.shape.lanes, self.lane.extent
        chunks: list[_Range] = []
        done = 0
        for vectors in range(self.shape.vectors, 0, -1):
            width = vectors * lanes
            stop = done + (extent - done) // width * width
            if stop > done:
                chunks.append(_Range(self.lane.start, done, stop, width))
                done = stop
        if done < extent:
            chunks.append(_Range(self.lane.start, extent - lanes, extent, lanes))
        return chunks

    def _rows(self) -> list[list[_Range]]:
        """Cuts the rows into tiles of even heights."""
        extents = [row.extent for row in self.rows]
        pieces: list[list[_Range]] = [[]]
        for row, height in zip(self.rows, heights_of(extents, self.shape.rows), strict=True):
            ranges = [_Range(row.start, *piece) for piece in split(row.extent, height)]
            pieces = [[*before, one] for before in pieces for one in ranges]
        return pieces

    def _ordered(
        self, columns: list[_Range], positions: list[_Range], chunk: _Range, tall: list[_Range]
    ) -> list[_Range]:
        """Orders the loops, outermost first, so that the operand which rows share stays in a cache
        while others pass over it: all of it if it fits.
        """
        shared = [f.access.nbytes for f in self.tile.factors if f.follows and not f.has_rows]
        if sum(shared) <= self.host.description.l2 // 2:
            return [*positions, *tall, *columns, chunk]
        return [*columns, chunk, *positions, *tall]

    def _nested(
        self, ranges: Sequence[_Range], inner: Nodes, threads: int, *, waits: bool
    ) -> Nodes:
        """Writes loops over tiles, the outer ones shared by threads."""
        looped = [r for r in ranges if r.count > 1]
        fixed = [r for r in ranges if r.count == 1]
        body: Nodes = [*(Declare("ptrdiff_t", r.name, str(r.start)) for r in fixed), *inner]
        for r in reversed(looped):
            body = [For(r.name, r.stop, body, r.start, r.step)]
        if threads > 1 and looped:
            return [shared_for([r.count for r in looped], threads, waits=waits), *body]
        body = body if looped else [Block(body)]
        return body if threads == 1 else alone(body, waits=waits)

    # -- one tile and what follows it

    def _tile(self, chunk: _Range, heights: list[int]) -> Nodes:
        writer, width = self.writer, min(chunk.step, chunk.stop - chunk.start)
        vectors = width // self.shape.lanes
        starts = writer.indices_at((self.lane, *self.rows))
        arguments = [f"{f.access.name} + {starts.offset(f.outer)}" for f in self.tile.factors]
        if writer.epilogue is None:
            out = writer.outs[0]
            steps = [out.offset.coefficient(row.position) for row in self.rows]
            target = f"{out.name} + {starts.offset(out.offset)}"
            return [self._call(vectors, heights, steps, [*arguments, target])]
        rows = prod(heights)
        steps = [width * heights[1], width] if len(heights) > 1 else [width] * len(heights)
        kind = c_type(element_type_of(self.tile.type))
        return [
            f"{kind} t[{rows * width}];",
            self._call(vectors, heights, steps, [*arguments, "t"]),
            *self._finish(heights, steps, width),
        ]

    def _call(
        self, vectors: int, heights: Sequence[int], steps: Sequence[int], arguments: Sequence[str]
    ) -> str:
        name, text = self.tile.function(self.shape.lanes, vectors, heights, steps)
        self.helpers[name] = text
        return f"{name}({', '.join(arguments)});"

    def _finish(self, heights: list[int], steps: Sequence[int], width: int) -> Nodes:
        """Writes the epilogue over a tile, whose elements are in `t`."""
        lane = self.lane
        terms = [f"{step} * r{i}" for i, step in enumerate(steps) if heights[i] > 1]
        inner = self.writer.finished(f"t[{' + '.join([*terms, 'j'])}]")
        place = Declare("ptrdiff_t", lane.name, f"{lane.start} + j")
        condition, left = self._within()
        body: Nodes = [For("j", width, [place, *inner])]
        if left is not None:
            some = For("j", "left", [place, *inner])
            body = [Declare("ptrdiff_t", "left", left), either(f"left >= {width}", body, [some])]
        elif condition is not None:
            body = [KEPT_APART, loop_over("j", width, [place, If(condition, inner)], varies=True)]
        for i, (row, height) in reversed([*enumerate(zip(self.rows, heights, strict=True))]):
            place = row.start if height == 1 else f"{row.start} + r{i}"
            body = [Declare("ptrdiff_t", row.name, place), *body]
            body = body if height == 1 else [For(f"r{i}", height, body)]
        return body

    def _within(self) -> tuple[str | None, str | None]:
        """Bounds the epilogue where some elements of a tile have none. Gives the number of elements
        along the lane that have one, if neighbours along the lane are neighbours in the last
        dimension; else, as the first of the two, the condition that each element must meet.
        """
        writer = self.writer
        if writer.end is None:
            return None, None
        last = writer.op.out_maps[0].results[-1]
        form = linear(last)
        if form is not None and form.coefficient(self.lane.position) == 1:
            return None, f"{writer.end} - ({writer.indices_at([self.lane]).expr(last)})"
        return f"{writer.indices.expr(last)} < {writer.end}", None

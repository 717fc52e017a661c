"""Makes tiles of contractions in which both operands follow the lanes, byte by byte, as in
depthwise convolutions: four steps of the reduction at once, along 16, 32 or 64 channels.

Vectors of four steps are interleaved so that the four bytes of each channel lie side by side, those
of the operand that rows share once for all rows; then their products are added in one instruction.
Interleaving works on each 16 bytes for themselves, so that a sum of 64 channels is in four vectors,
of which the first has channels 0 to 3, 16 to 19, and so on; they are put in order when they are
stored. What is beyond the reduction's end is zeros. Signed bytes by signed ones are shifted, as in
`dots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from byocir.dialects.tir.affine import divided_iterators
from byocir.dialects.types import ui8
from byocir.lowering.tir_to_c.dots import HAS_QUADS
from byocir.lowering.tir_to_c.literals import c_type
from byocir.lowering.tir_to_c.tiles import PRELUDE, Tile, TileFactor
from byocir.lowering.tir_to_c.tree import Block, Declare, For, Node, Nodes
from byocir.rewrites.host.dot_steps import DotStep
from byocir.rewrites.host.tile_shape import TileShape
from byocir.toolchain.cpu import Cpu

LANES, ROWS, MOST_STEPS = 16, 16, 32

_WIDTHS = {16: ("__m128i", "_mm", "si128"), 32: ("__m256i", "_mm256", "si256")} | {
    64: ("__m512i", "_mm512", "si512")
}
_FOURS = """static inline UNUSED void fours_{n}({v} a, {v} b, {v} c, {v} d, {v} *f)
{{
    const {v} e = {m}_unpacklo_epi8(a, b), g = {m}_unpackhi_epi8(a, b);
    const {v} h = {m}_unpacklo_epi8(c, d), i = {m}_unpackhi_epi8(c, d);
    f[0] = {m}_unpacklo_epi16(e, h);
    f[1] = {m}_unpackhi_epi16(e, h);
    f[2] = {m}_unpacklo_epi16(g, i);
    f[3] = {m}_unpackhi_epi16(g, i);
}}
"""
_HEAD = f"{HAS_QUADS}\n#include <immintrin.h>\n#define UNUSED __attribute__((unused))\n#endif\n"
_PUTS = {
    16: ["a[0]", "a[1]", "a[2]", "a[3]"],
    32: [
        f"_mm256_permute2x128_si256(a[{i}], a[{i + 1}], {half})"
        for half in ("0x20", "0x31")
        for i in (0, 2)
    ],
    64: [
        f"_mm512_shuffle_i32x4({pair}, {half})"
        for pair in ("b, d", "c, e")
        for half in ("0x88", "0xdd")
    ],
}
_HALVES = """    const __m512i b = _mm512_shuffle_i32x4(a[0], a[1], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(a[0], a[1], 0xee);
    const __m512i d = _mm512_shuffle_i32x4(a[2], a[3], 0x44);
    const __m512i e = _mm512_shuffle_i32x4(a[2], a[3], 0xee);
"""


def channel_shape(tile: Tile, extent: int, description: Cpu) -> TileShape | None:
    """Chooses the tiles of a contraction that both operands follow along so many channels; None for
    other contractions, or where the processor has no instruction for it."""
    if tile.dot is not None or extent < LANES or tile.number != "0":
        return None
    one, other = (factor.access.element for factor in tile.factors)
    rows = [factor.has_rows for factor in tile.factors]
    fits = all(f.follows and not divided_iterators(f.inner) for f in tile.factors) and sorted(
        rows
    ) == [0, 1]
    steps = prod(loop.extent for loop in tile.reduction)
    if not fits or not DotStep(4, one).is_on(description, other) or steps > MOST_STEPS:
        return None
    return TileShape(LANES, min(extent // LANES, 4), ROWS)


@dataclass(frozen=True)
class ChannelTile(Tile):
    """Writes the C function of one such tile."""

    def needs(self, lanes: int) -> str:
        return HAS_QUADS.removeprefix("#if ")

    def types(self, lanes: int) -> dict[str, str]:
        """Gives the C that the function needs, by name, for tiles of all widths."""
        made = {"": PRELUDE, " channels": _HEAD}
        for width in _WIDTHS:
            made[f" channels_{width}"] = _interleaved(width)
        return made

    def function(
        self, lanes: int, vectors: int, heights: Sequence[int], steps: Sequence[int]
    ) -> tuple[str, str]:
        body: list[Node] = []
        done = 0
        for width in sorted(_WIDTHS, reverse=True):
            while vectors * lanes - done >= width:
                body.append(Block(self._piece(done, width, heights, steps)))
                done += width
        return self._defined(lanes, body)

    @property
    def _moving(self) -> int:
        """Gives the position of the operand that differs from row to row."""
        return 0 if self.factors[0].has_rows else 1

    @property
    def _shifts(self) -> bool:
        one, other = (factor.access.element for factor in self.factors)
        return DotStep(4, one).shifts(other)

    def _piece(self, at: int, width: int, heights: Sequence[int], steps: Sequence[int]) -> Nodes:
        """Writes the sums of `width` channels from channel `at` on, for all rows."""
        vector, prefix, _ = _WIDTHS[width]
        moving, still = self.factors[self._moving], self.factors[1 - self._moving]
        names = "pq"[self._moving], "pq"[1 - self._moving]
        fours = -(-len(self._offsets(still)) // 4)
        lines = [f"{vector} w[{4 * fours}];"]
        lines += self._fours(still, f"{names[1]} + {at}", width, "w", step=4, shifted=False)
        start = f"zero_{width}"
        if self._shifts:
            lines.append(f"{vector} s[4] = {{{', '.join([start] * 4)}}};")
            lines += [
                f"s[{i % 4}] = {prefix}_dpbusd_epi32(s[{i % 4}], shift_{width}, w[{i}]);"
                for i in range(4 * fours)
            ]
            lines += [f"s[{i}] = {prefix}_sub_epi32({start}, s[{i}]);" for i in range(4)]
        starts = ", ".join(f"s[{i}]" if self._shifts else start for i in range(4))
        rows = [f"r{i}" for i in range(len(heights))]
        place = _sum([f"{names[0]} + {at}", *_moved(rows, moving.steps)])
        target = _sum([f"t + {at}", *_moved(rows, steps)])
        inner: Nodes = [
            Declare(f"{c_type(moving.access.element)} *const", "x", place),
            f"{vector} a[4] = {{{starts}}}, f[4];",
            *self._products(moving, width),
            f"put_{width}({target}, a);",
        ]
        for row, height in reversed(list(zip(rows, heights, strict=True))):
            inner = [For(row, height, inner)]
        return [*lines, *inner]

    def _products(self, moving: TileFactor, width: int) -> list[str]:
        """Writes the products of all steps, added to `a`."""
        prefix = _WIDTHS[width][1]
        lines: list[str] = []
        count = -(-len(self._offsets(moving)) // 4)
        for i in range(count):
            lines += self._fours(moving, "x", width, "f", step=0, shifted=self._shifts, only=i)
            for j in range(4):
                pair = (f"f[{j}]", f"w[{4 * i + j}]")
                unsigned = moving.access.element == ui8 or self._shifts
                one, other = pair if unsigned else pair[::-1]
                lines.append(f"a[{j}] = {prefix}_dpbusd_epi32(a[{j}], {one}, {other});")
        return lines

    def _fours(
        self,
        factor: TileFactor,
        place: str,
        width: int,
        into: str,
        *,
        step: int,
        shifted: bool,
        only: int | None = None,
    ) -> list[str]:
        """Interleaves the vectors of each four steps; with `only` those of one four."""
        offsets = self._offsets(factor)
        fours = range(-(-len(offsets) // 4)) if only is None else [only]
        load = f"{'shifted' if shifted else 'load'}_{width}"
        lines: list[str] = []
        for i in fours:
            parts = [f"{load}({place} + {offset})" for offset in offsets[4 * i : 4 * i + 4]]
            parts += [f"zero_{width}"] * (4 - len(parts))
            lines.append(f"fours_{width}({', '.join(parts)}, {into} + {step * i});")
        return lines

    def _offsets(self, factor: TileFactor) -> list[int]:
        """Lists the operand's offset at each step of the reduction."""
        coefficients = [factor.inner.coefficient(loop.position) for loop in self.reduction]
        points = product(*(range(loop.extent) for loop in self.reduction))
        return [sum(c * i for c, i in zip(coefficients, point, strict=True)) for point in points]


def _moved(rows: Sequence[str], steps: Sequence[int]) -> list[str]:
    return [f"{step} * {row}" for row, step in zip(rows, steps, strict=True) if step]


def _sum(terms: Sequence[str]) -> str:
    return " + ".join(terms)


def _interleaved(width: int) -> str:
    """Writes the C helpers that tiles of this width call."""
    vector, prefix, suffix = _WIDTHS[width]
    stores = [
        f"    {prefix}_storeu_{suffix}((void *)(t + {i * width // 4}), {text});"
        for i, text in enumerate(_PUTS[width])
    ]
    halves = _HALVES if width == 64 else ""
    stored = "\n".join(stores)
    return (
        f"{HAS_QUADS}\n"
        f"#define zero_{width} {prefix}_setzero_{suffix}()\n"
        f"#define shift_{width} {prefix}_set1_epi8(-128)\n"
        f"#define load_{width}(p) {prefix}_loadu_{suffix}((const void *)(p))\n"
        f"#define shifted_{width}(p) {prefix}_xor_{suffix}(load_{width}(p), shift_{width})\n"
        f"{_FOURS.format(n=width, v=vector, m=prefix)}"
        f"static inline UNUSED void put_{width}(int32_t *t, const {vector} *a)\n"
        f"{{\n{halves}{stored}\n}}\n#endif\n"
    )

"""The text of register tiles: functions that compute one tile of a contraction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute

from byocir.dialects.types import element_type_of, f32
from byocir.lowering.tir_to_c.accesses import Indices, Offset
from byocir.lowering.tir_to_c.literals import c_type, float_literal
from byocir.lowering.tir_to_c.loops import Access, Loop, indented

PRELUDE = """/* Whether there are vector types. FUSED functions may round a * b + c once. */
#if defined(__clang__)
#define VECTORS 1
#define FUSED
#define FUSED_BODY _Pragma("clang fp contract(fast)")
#elif defined(__GNUC__)
#define VECTORS 1
#define FUSED __attribute__((optimize("fp-contract=fast")))
#define FUSED_BODY
#else
#define VECTORS 0
#endif
"""
"""What tiles need, before all else."""

PAIRS = """/* Products of 16-bit integers, those of neighbours added to 32 bits. */
#if VECTORS && defined(__SSE2__)
#include <immintrin.h>
#define PAIRS_4(x, y) ((u32x4)_mm_madd_epi16((__m128i)(x), (__m128i)(y)))
#endif
#if VECTORS && defined(__AVX2__)
#define PAIRS_8(x, y) ((u32x8)_mm256_madd_epi16((__m256i)(x), (__m256i)(y)))
#endif
#if VECTORS && defined(__AVX512BW__)
#define PAIRS_16(x, y) ((u32x16)_mm512_madd_epi16((__m512i)(x), (__m512i)(y)))
#endif
"""


SIZES = {
    **{"float": 4, "int32_t": 4, "uint32_t": 4},
    **{"int16_t": 2, "uint16_t": 2, "int8_t": 1, "uint8_t": 1},
}
"""Bytes of what tiles read."""


@dataclass(frozen=True)
class Factor:
    """An operand: where it is, apart from the reduction (`outer`) and along it (`inner`), whether
    it `follows` the lane, and how far it is from one row to the next, for each row iterator."""

    access: Access
    outer: Offset
    inner: Offset
    follows: bool
    steps: Sequence[int]

    @property
    def has_rows(self) -> bool:
        return any(self.steps)


@dataclass(frozen=True)
class Tile:
    """What one tile computes."""

    factors: Sequence[Factor]
    reduction: Sequence[Loop]
    indices: Indices
    type: Attribute
    number: str
    fused: bool
    paired: bool
    """Whether each step takes two neighbours along the reduction."""

    def needs(self, lanes: int) -> str:
        """The condition under which a compiler can build it."""
        return f"VECTORS && defined(PAIRS_{lanes})" if self.paired else "VECTORS"

    @property
    def is_float(self) -> bool:
        return element_type_of(self.type) == f32

    def function(
        self, lanes: int, vectors: int, heights: Sequence[int], steps: Sequence[int]
    ) -> tuple[str, str]:
        """The name and text of a tile's function, whose results lie `steps` elements apart along
        the row iterators."""
        places = [()] if not heights else _places(heights)
        vec, acc = self._vector(lanes), "float" if self.is_float else "int32_t"
        parameters = [
            f"const {c_type(factor.access.element)} *restrict {name}"
            for factor, name in zip(self.factors, "pq", strict=True)
        ]
        zero = self.number in ("0", float_literal(0, f32))
        start = f"({vec}){{0}}" if zero else f"({vec}){{0}} + {self._constant()}"
        body = ["FUSED_BODY"] if self.fused else []
        body += [f"{vec} a{r}_{v} = {start};" for r in range(len(places)) for v in range(vectors)]
        body += nest(self.reduction, self._step(places, lanes, vectors))
        for r, place in enumerate(places):
            at = sum(i * step for i, step in zip(place, steps, strict=True))
            body += [f"*({vec} *)(t + {at + v * lanes}) = a{r}_{v};" for v in range(vectors)]
        text = "\n".join(indented(line) for line in body)
        head = f"({', '.join([*parameters, f'{acc} *restrict t'])})\n{{\n{text}\n}}\n"
        name = f"tile_{hashlib.sha256(head.encode()).hexdigest()[:12]}"
        return (
            name,
            f"#if {self.needs(lanes)}\n"
            f"static {'FUSED ' if self.fused else ''}void {name}{head}#endif\n",
        )

    def types(self, lanes: int) -> dict[str, str]:
        """Definitions of the vector types that the function uses, by name."""
        kinds = {self._vector(lanes): "float" if self.is_float else "uint32_t"}
        for factor in self.factors:
            if factor.follows and not self.is_float and not self.paired:
                kinds |= {_vector_of(kind, lanes): kind for kind in _widened(factor)}
        made = {"": PRELUDE, " pairs": PAIRS} if self.paired else {"": PRELUDE}
        for name, kind in kinds.items():
            size = SIZES[kind]
            made[f" {name}"] = (
                f"#if VECTORS\ntypedef {kind} {name} __attribute__"
                f"((vector_size({lanes * size}), aligned({size}), may_alias));\n#endif\n"
            )
        return made

    def _vector(self, lanes: int) -> str:
        return f"{'f32' if self.is_float else 'u32'}x{lanes}"

    def _constant(self) -> str:
        return self.number if self.is_float else f"(uint32_t){self.number}"

    def _step(self, places: Sequence[tuple[int, ...]], lanes: int, vectors: int) -> list[str]:
        """One step of the reduction, for all accumulators."""
        at = [self.indices.offset(factor.inner) for factor in self.factors]
        lines = [
            f"const {c_type(factor.access.element)} *const {name}i = {name} + {offset};"
            for factor, name, offset in zip(self.factors, "pq", at, strict=True)
        ]
        for factor, name in zip(self.factors, "pq", strict=True):
            if not factor.has_rows:
                lines += self._load(factor, name, f"{name}_", 0, lanes, vectors)
        for r, place in enumerate(places):
            for factor, name in zip(self.factors, "pq", strict=True):
                if factor.has_rows:
                    step = sum(i * s for i, s in zip(place, factor.steps, strict=True))
                    lines += self._load(factor, name, f"{name}{r}_", step, lanes, vectors)
            for v in range(vectors):
                left, right = (
                    f"{name}{r if factor.has_rows else ''}_{v if factor.follows else ''}"
                    for factor, name in zip(self.factors, "pq", strict=True)
                )
                product = f"PAIRS_{lanes}({left}, {right})" if self.paired else f"{left} * {right}"
                lines.append(f"a{r}_{v} += {product};")
        return lines

    def _load(
        self, factor: Factor, name: str, prefix: str, at: int, lanes: int, vectors: int
    ) -> list[str]:
        vec = self._vector(lanes)
        if self.paired:
            return self._load_pairs(factor, name, prefix, at, lanes, vectors)
        if not factor.follows:
            kind = "float" if self.is_float else "uint32_t"
            wide = "" if self.is_float else "(uint32_t)(int32_t)"
            return [f"const {kind} {prefix} = {wide}{name}i[{at}];"]
        lines: list[str] = []
        for v in range(vectors):
            place = f"({name}i + {at + v * lanes})"
            if self.is_float:
                lines.append(f"const {vec} {prefix}{v} = *(const {vec} *){place};")
            else:
                first, *wider = [_vector_of(kind, lanes) for kind in _widened(factor)]
                text = f"*(const {first} *){place}"
                for kind in (*wider, vec):
                    text = f"__builtin_convertvector({text}, {kind})"
                lines.append(f"const {vec} {prefix}{v} = {text};")
        return lines

    def _load_pairs(
        self, factor: Factor, name: str, prefix: str, at: int, lanes: int, vectors: int
    ) -> list[str]:
        """Vectors of pairs of 16 bits, or one such pair in each lane."""
        vec = self._vector(lanes)
        if factor.follows:
            places = [(v, f"({name}i + {at + 2 * v * lanes})") for v in range(vectors)]
            return [f"const {vec} {prefix}{v} = *(const {vec} *){p};" for v, p in places]
        low, high = (f"(uint16_t){name}i[{at + i}]" for i in range(2))
        return [f"const {vec} {prefix} = ({vec}){{0}} + ({low} | (uint32_t){high} << 16);"]


def _widened(factor: Factor) -> list[str]:
    """The types of an integer operand in memory and on its way to 32 bits: gcc has vectors of twice
    the width by one instruction, and of four times the width element by element."""
    kind = c_type(factor.access.element)
    return [kind, kind.replace("8", "16")] if SIZES[kind] == 1 else [kind]


def _vector_of(kind: str, lanes: int) -> str:
    return f"{kind.removesuffix('_t').replace('int', 'i')}x{lanes}"


def _places(heights: Sequence[int]) -> list[tuple[int, ...]]:
    if len(heights) == 1:
        return [(i,) for i in range(heights[0])]
    return [(i, j) for i in range(heights[0]) for j in range(heights[1])]


def nest(loops: Sequence[Loop], inner: Sequence[str]) -> list[str]:
    """Loops around lines."""
    lines = list(inner)
    for loop in reversed(loops):
        head = f"for (ptrdiff_t {loop.name} = 0; {loop.name} < {loop.extent}; {loop.name}++) {{"
        lines = [head, *(indented(line) for line in lines), "}"]
    return lines

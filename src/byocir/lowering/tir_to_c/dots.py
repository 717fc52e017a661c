"""Makes steps of tiles that add the products of neighbours along the reduction in one instruction.

There are two: of two 16-bit integers, and of four bytes, unsigned ones by signed ones. A tile takes
such a step where one operand has its neighbours side by side for each lane, as `pack-weights` lays
them out, and the other is one vector of the same neighbours for all lanes. Where signed bytes meet
signed ones, 128 is added to those that all lanes share, by a change of their highest bit, and what
that brings into the sums is taken off at the end: it is what a row of nothing but 128 gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Attribute

from byocir.dialects.tir.affine import divided_iterators, linear
from byocir.dialects.types import ui8
from byocir.lowering.tir_to_c.accesses import Inside
from byocir.lowering.tir_to_c.block_parts import BlockOperand, KernelLoop
from byocir.rewrites.host.dot_steps import DotStep
from byocir.toolchain.cpu import Cpu

PAIRS = """/* Sums, and the products of pairs of 16-bit integers. */
#if VECTORS && defined(__SSE2__)
#include <immintrin.h>
#define PAIRS_4(s, x, y) (s + (u32x4)_mm_madd_epi16((__m128i)(x), (__m128i)(y)))
#endif
#if VECTORS && defined(__AVX2__)
#define PAIRS_8(s, x, y) (s + (u32x8)_mm256_madd_epi16((__m256i)(x), (__m256i)(y)))
#endif
#if VECTORS && defined(__AVX512BW__)
#define PAIRS_16(s, x, y) (s + (u32x16)_mm512_madd_epi16((__m512i)(x), (__m512i)(y)))
#endif
"""

HAS_QUADS = "#if VECTORS && defined(__AVX512VNNI__) && defined(__AVX512VL__)"
QUADS = f"""/* Sums, and the products of four unsigned by four signed bytes. */
{HAS_QUADS}
#include <immintrin.h>
#define QUADS_4(s, x, y) ((u32x4)_mm_dpbusd_epi32((__m128i)(s), (__m128i)(x), (__m128i)(y)))
#define QUADS_8(s, x, y) ((u32x8)_mm256_dpbusd_epi32((__m256i)(s), (__m256i)(x), (__m256i)(y)))
#define QUADS_16(s, x, y) ((u32x16)_mm512_dpbusd_epi32((__m512i)(s), (__m512i)(x), (__m512i)(y)))
#endif
"""

SHIFT = "0x80808080u"


@dataclass(frozen=True)
class Dot:
    """Describes a step that takes `count` neighbours at once; those of operand `lanes` lie side by
    side for each lane. The neighbours are groups along the innermost reduction iterator that is
    left, `outer` (None where there is one group), and the last group may have only `left` of them.
    """

    count: int
    lanes: int
    elements: tuple[Attribute, Attribute]
    left: int
    outer: KernelLoop | None

    @property
    def macro(self) -> str:
        return "PAIRS" if self.count == 2 else "QUADS"

    @property
    def prelude(self) -> dict[str, str]:
        """Gives the C helpers that a step calls, by name."""
        if self.count == 2:
            return {" pairs": PAIRS}
        counts = {self.left} if self.outer is None else {self.count, self.left}
        return {" quads": QUADS, **{f" bytes_{n}": _load_of(n) for n in sorted(counts)}}

    @property
    def shifts(self) -> bool:
        """Tells if signed bytes meet signed ones."""
        step = DotStep(self.count, self.elements[self.lanes])
        return step.shifts(self.elements[1 - self.lanes])

    def added(self, lanes: int, total: str, values: Sequence[str]) -> str:
        """Writes a sum with the step's products; `values` are those of the operands in their
        order.
        """
        own, other = values[self.lanes], values[1 - self.lanes]
        unsigned, signed = (own, other) if self.elements[self.lanes] == ui8 else (other, own)
        return f"{self.macro}_{lanes}({total}, {unsigned}, {signed})"

    def shared(self, place: str, count: int) -> str:
        """Writes 32 bits that hold `count` of the neighbours which all lanes share, and zeros."""
        if self.count == 2:
            parts = [f"(uint16_t){place}[{i}]" for i in range(count)]
            return parts[0] if count == 1 else f"({parts[0]} | (uint32_t){parts[1]} << 16)"
        text = f"bytes_{count}({place})"
        return f"({text} ^ {SHIFT})" if self.shifts else text


def _load_of(count: int) -> str:
    """Writes a function that loads so many bytes as the lowest of 32 bits, which compilers take for
    one load where there are four.
    """
    parts = ["b[0]", *(f"(uint32_t)b[{i}] << {8 * i}" for i in range(1, count))]
    return (
        f"{HAS_QUADS}\nstatic inline uint32_t bytes_{count}(const void *p)\n{{\n"
        f"    const uint8_t *const b = p;\n    return {' | '.join(parts)};\n}}\n#endif\n"
    )


def dot_of(
    ins: Sequence[BlockOperand], reduction: Sequence[KernelLoop], lane: int, description: Cpu
) -> Dot | None:
    """Gives the step that takes the innermost reduction iterator whole, for vectors along a lane,
    if the processor has such a step; else None.
    """
    *others, loop = reduction
    steps = [access.offset.coefficient(loop.position) for access in ins]
    along = [access.offset.coefficient(lane) for access in ins]
    if steps != [1, 1] or sorted(along) != [0, loop.extent]:
        return None
    if any(loop.position in divided_iterators(access.offset) for access in ins):
        return None
    lanes = along.index(loop.extent)
    elements = (ins[0].element, ins[1].element)
    step = DotStep(loop.extent, elements[lanes])
    if ins[lanes].checks or not step.is_on(description, elements[1 - lanes]):
        return None
    checks, outer = ins[1 - lanes].checks, others[-1] if others else None
    if not checks:
        return Dot(loop.extent, lanes, elements, loop.extent, outer)
    return _partial(Dot(loop.extent, lanes, elements, loop.extent, outer), checks, reduction)


def _partial(dot: Dot, checks: Sequence[Inside], loops: Sequence[KernelLoop]) -> Dot | None:
    """Gives the step where the other operand has too few neighbours in the last group, if nothing
    else is read outside of its array; else None.
    """
    if len(checks) != 1 or checks[0].from_zero or checks[0].size is None:
        return None
    form, loop = linear(checks[0].expr), loops[-1]
    if form is None or form.constant or form.coefficient(loop.position) != 1:
        return None
    outer = dot.outer
    if outer is not None and form.coefficient(outer.position) != dot.count:
        outer = None
    groups = 1 if outer is None else outer.extent
    reach = dot.count - 1 + (0 if outer is None else dot.count * (groups - 1))
    left = checks[0].size - dot.count * (groups - 1)
    moving = set(form.atoms) & {each.position for each in loops}
    whole = moving == {loop.position, *([] if outer is None else [outer.position])}
    return replace(dot, left=left, outer=outer) if whole and 0 < left <= reach else None

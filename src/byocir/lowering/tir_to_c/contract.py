"""Contractions of floats as register tiles: vectors along one iterator, rows along another.

A tile holds some rows of `VECTORS` accumulators in variables of a vector type, whose width the C
preprocessor chooses by the machine; each element is still summed in the order of the block, product
by product, so results are those of plain loops. Where compilers have no vector types, and where the
iterator is shorter than a vector, plain loops stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import f32
from byocir.lowering.tir_to_c.accesses import Indices
from byocir.lowering.tir_to_c.literals import float_literal
from byocir.lowering.tir_to_c.loops import TAB, Access, BlockWriter, Kernel, Loop, indented

ROWS, VECTORS = (4, 1), 3
"""Rows of the largest tile and of those for what is left. Twelve accumulators, three vectors of one
operand and a number of the other fill sixteen registers."""
MORE_ROWS = (8, 4, 1)
"""The same where there are thirty-two, as with AVX-512."""
ALONE = 4
"""Vectors side by side where there is one row."""
CACHE = 2**18
"""Bytes of one operand that stay in the second cache while all rows pass over them."""
STRETCH = 48
"""What the lane is cut at: whole tiles, whatever the width of vectors."""

PRELUDE = """/* Floats in a vector register; 0 where the compiler has no vector types. */
#if !defined(__GNUC__)
#define VL 0
#elif defined(__AVX512F__)
#define VL 16
#elif defined(__AVX__)
#define VL 8
#else
#define VL 4
#endif
#if VL
typedef float vec __attribute__((vector_size(4 * VL), aligned(4), may_alias));
#endif
"""


@dataclass(frozen=True)
class Tiling:
    """How a contraction is tiled: `lane` runs along vectors of `wide`, `row` over `narrow`, of
    which one number meets a whole vector."""

    lane: Loop
    row: Loop | None
    wide: Access
    narrow: Access


def is_contraction(op: BlockOp) -> bool:
    """Whether the body is `acc + x * y` on two inputs, which may be converted first, at all points
    from 0."""
    block = op.body.block
    if len(op.ins) != 2 or len(op.outs) != 1 or op.where is not None or op.bases:
        return False
    add = op.yielded[0].owner
    if not isinstance(add, arith.AddfOp | arith.AddiOp):
        return False
    terms = [value.owner for value in add.operands if value is not block.args[2]]
    if len(terms) != 1 or not isinstance(terms[0], arith.MulfOp | arith.MuliOp):
        return False
    product: Operation = terms[0]
    return {_converted(value) for value in product.operands} == {block.args[0], block.args[1]}


def _converted(value: SSAValue) -> SSAValue:
    """What a value is before conversions."""
    while isinstance(value.owner, CONVERSIONS):
        value = value.owner.operands[0]
    return value


CONVERSIONS = (arith.ExtSIOp, arith.ExtUIOp, arith.ExtFOp, UnrealizedConversionCastOp)


def tiling_of(writer: BlockWriter) -> Tiling | None:
    """A tiling of a contraction that starts from a number, if there is one."""
    op = writer.op
    if not is_contraction(op) or 0 not in writer.initial or not writer.reduction:
        return None
    if any(arg.type != f32 for arg in op.body.block.args):
        return None
    if any(access.checks for access in writer.ins):
        return None
    found = [t for loop in writer.parallel if (t := _along(writer, loop)) is not None]
    return max(found, key=lambda t: (t.row is not None, t.lane.extent), default=None)


def _along(writer: BlockWriter, lane: Loop) -> Tiling | None:
    i, out = lane.position, writer.outs[0]
    if i in {p for access in (*writer.ins, out) for p in access.fixed}:
        return None
    steps = [access.offset.coefficient(i) for access in writer.ins]
    if out.offset.coefficient(i) != 1 or sorted(steps) != [0, 1]:
        return None
    wide, narrow = writer.ins if steps[0] else writer.ins[::-1]
    rows = [loop for loop in writer.parallel if _is_row(loop, lane, wide, narrow, out)]
    return Tiling(lane, max(rows, key=lambda loop: loop.extent, default=None), wide, narrow)


def _is_row(loop: Loop, lane: Loop, wide: Access, narrow: Access, out: Access) -> bool:
    i = loop.position
    free = not any(i in access.fixed for access in (wide, narrow, out))
    moves = narrow.offset.coefficient(i) != 0 and wide.offset.coefficient(i) == 0
    return loop is not lane and free and moves


def tiled(writer: BlockWriter, tiling: Tiling, plain: Sequence[str]) -> list[str]:
    """The contraction in tiles, or as the plain loops where vectors do not fit."""
    lane, row = tiling.lane, tiling.row
    rest = [loop for loop in writer.parallel if loop not in (lane, row)]
    if row is None or row.extent < MORE_ROWS[0]:
        wider = []
    else:
        tiles = nest(rest, _Tiles(writer, tiling, MORE_ROWS).blocks())
        wider = [f"#if VL == 16 && {lane.extent} >= VL", *tiles]
    return [
        *wider,
        f"{'#elif' if wider else '#if'} VL && {lane.extent} >= VL",
        *nest(rest, _Tiles(writer, tiling, ROWS).blocks()),
        "#else",
        *plain,
        "#endif",
    ]


def kernel_of(writer: BlockWriter) -> Kernel:
    """A block's function, in tiles if it is a contraction that can be tiled. Raises NoC for a body
    without a form in C."""
    kernel, tiling = writer.kernel(), tiling_of(writer)
    if tiling is None:
        return kernel
    helpers = {**kernel.helpers, "": PRELUDE}  # first of all
    return Kernel(kernel.parameters, tiled(writer, tiling, kernel.body), helpers)


def nest(loops: Sequence[Loop], inner: Sequence[str]) -> list[str]:
    """Loops around lines."""
    lines = list(inner)
    for loop in reversed(loops):
        head = f"for (ptrdiff_t {loop.name} = 0; {loop.name} < {loop.extent}; {loop.name}++) {{"
        lines = [head, *(indented(line) for line in lines), "}"]
    return lines


class _Tiles:
    def __init__(self, writer: BlockWriter, tiling: Tiling, heights: Sequence[int]) -> None:
        self.writer, self.tiling, self.heights = writer, tiling, heights
        self.indices: Indices = writer.indices
        self.number = writer.initial[0]

    def blocks(self) -> list[str]:
        """All tiles, a stretch of the lane after the other if `wide` does not fit the cache."""
        lane, row, wide = self.tiling.lane, self.tiling.row, self.tiling.wide
        if row is None:
            return self.along(1, ALONE, "0", str(lane.extent))
        per_element = max(wide.nbytes // lane.extent, 1)
        stretch = max(CACHE // per_element // STRETCH, 1) * STRETCH
        if stretch >= lane.extent:
            return self.rows(row, "0", str(lane.extent))
        return [
            f"for (ptrdiff_t s = 0; s < {lane.extent}; s += {stretch}) {{",
            f"{TAB}const ptrdiff_t n = s + {stretch};",
            f"{TAB}const ptrdiff_t e = n < {lane.extent} ? n : {lane.extent};",
            *(TAB + line for line in self.rows(row, "s", "e")),
            "}",
        ]

    def rows(self, row: Loop, start: str, end: str) -> list[str]:
        """All rows: the highest tiles first, lower ones for what is left."""
        name, done = row.name, 0
        lines: list[str] = []
        for height in self.heights:
            count = (row.extent - done) // height * height
            if count:
                until = done + count
                head = f"for (ptrdiff_t {name} = {done}; {name} < {until}; {name} += {height}) {{"
                inner = self.along(height, VECTORS if height > 1 else ALONE, start, end)
                lines += [head, *(TAB + line for line in inner), "}"]
                done = until
        return lines

    def along(self, rows: int, vectors: int, start: str, end: str) -> list[str]:
        """The rows' tiles along the lane: wide ones, narrower ones for what is left, and at the end
        of the lane one that may compute some elements a second time."""
        name, extent = self.tiling.lane.name, self.tiling.lane.extent
        lines = [f"ptrdiff_t {name} = {start};"]
        for count in range(vectors, 0, -1):
            inner = self._tile(rows, count)
            if count == 1:
                inner.insert(0, f"if ({name} + VL > {extent}) {name} = {extent} - VL;")
            fits = f"{name} < {end}" if count == 1 else f"{name} + {count} * VL <= {end}"
            lines += [f"for (; {fits}; {name} += {count} * VL) {{"]
            lines += [*(TAB + line for line in inner), "}"]
        return ["{", *(TAB + line for line in lines), "}"]

    def _tile(self, rows: int, vectors: int) -> list[str]:
        tiling = self.tiling
        wide, narrow, out = tiling.wide, tiling.narrow, self.writer.outs[0]
        places = [(r, v) for r in range(rows) for v in range(vectors)]
        zero = self.number == float_literal(0, f32)
        start = "(vec){0}" if zero else f"(vec){{0}} + {self.number}"
        head = [f"vec a{r}_{v} = {start};" for r, v in places]
        inner = [
            f"const float *const p = {wide.name} + {self.indices.offset(wide.offset)};",
            f"const float *const q = {narrow.name} + {self.indices.offset(narrow.offset)};",
            *(f"const vec b{v} = *(const vec *)(p{_plus(v, 'VL')});" for v in range(vectors)),
        ]
        step = self._row_step(narrow)
        for r in range(rows):
            inner.append(f"const float c{r} = q[{r * step}];")
            inner += [f"a{r}_{v} += c{r} * b{v};" for v in range(vectors)]
        target = f"float *const t = {out.name} + {self.indices.offset(out.offset)};"
        step = self._row_step(out)
        last = [f"*(vec *)(t + {r * step}{_plus(v, 'VL')}) = a{r}_{v};" for r, v in places]
        return [*head, *nest(self.writer.reduction, inner), target, *last]

    def _row_step(self, access: Access) -> int:
        row = self.tiling.row
        return 0 if row is None else access.offset.coefficient(row.position)


def _plus(count: int, unit: str) -> str:
    return f" + {count} * {unit}" if count else ""

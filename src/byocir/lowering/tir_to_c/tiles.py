"""Writes register tiles: functions that compute one tile of a contraction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute

from byocir.dialects.tir.affine import IndexForm
from byocir.dialects.types import element_type_of, f32
from byocir.lowering.tir_to_c.accesses import IndexText
from byocir.lowering.tir_to_c.block_parts import BlockOperand, KernelLoop, nest
from byocir.lowering.tir_to_c.dots import SHIFT, Dot
from byocir.lowering.tir_to_c.literals import c_type, float_literal
from byocir.lowering.tir_to_c.tree import Block, Declare, Node, Nodes, definition

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
"""C that tiles need, before all else."""

SIZES = {
    **{"float": 4, "int32_t": 4, "uint32_t": 4},
    **{"int16_t": 2, "uint16_t": 2, "int8_t": 1, "uint8_t": 1},
}
"""Bytes of what tiles read."""


@dataclass(frozen=True)
class TileFactor:
    """Describes an operand of a tile: where it is, apart from the reduction (`outer`) and along it
    (`inner`), whether it `follows` the lane, and how far it is from one row to the next, for each
    row iterator.
    """

    access: BlockOperand
    outer: IndexForm
    inner: IndexForm
    follows: bool
    steps: Sequence[int]

    @property
    def has_rows(self) -> bool:
        return any(self.steps)


@dataclass(frozen=True)
class Tile:
    """Writes the C function of one register tile."""

    factors: Sequence[TileFactor]
    reduction: Sequence[KernelLoop]
    indices: IndexText
    type: Attribute
    number: str
    fused: bool
    dot: Dot | None
    """The way in which each step takes several neighbours along the reduction, if it does."""

    def needs(self, lanes: int) -> str:
        """Gives the condition under which a compiler can build it."""
        return "VECTORS" if self.dot is None else f"VECTORS && defined({self.dot.macro}_{lanes})"

    @property
    def is_float(self) -> bool:
        return element_type_of(self.type) == f32

    def function(
        self, lanes: int, vectors: int, heights: Sequence[int], steps: Sequence[int]
    ) -> tuple[str, str]:
        """Writes a tile's function, whose results lie `steps` elements apart along the row
        iterators; gives its name and text.
        """
        places = [()] if not heights else _places(heights)
        vec = self._vector(lanes)
        zero = self.number in ("0", float_literal(0, f32))
        start = f"({vec}){{0}}" if zero else f"({vec}){{0}} + {self._constant()}"
        body: list[Node] = ["FUSED_BODY"] if self.fused else []
        body += [f"{vec} a{r}_{v} = {start};" for r in range(len(places)) for v in range(vectors)]
        body += self._excess(vec, vectors)
        body += self._walk(places, lanes, vectors)
        for r, place in enumerate(places):
            at = sum(i * step for i, step in zip(place, steps, strict=True))
            less = "" if self.dot is None or not self.dot.shifts else " - s{}"
            body += [
                f"*({vec} *)(t + {at + v * lanes}) = a{r}_{v}{less.format(v)};"
                for v in range(vectors)
            ]
        return self._defined(lanes, body)

    def _defined(self, lanes: int, body: Nodes) -> tuple[str, str]:
        """Writes a function under a name that is a digest of its text; gives both."""
        parameters = [
            f"const {c_type(factor.access.element)} *restrict {name}"
            for factor, name in zip(self.factors, "pq", strict=True)
        ]
        sums = f"{'float' if self.is_float else 'int32_t'} *restrict t"
        text = definition(f"({', '.join([*parameters, sums])})", body)
        name = f"tile_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        fused = "FUSED " if self.fused else ""
        return name, f"#if {self.needs(lanes)}\nstatic {fused}void {name}{text}#endif\n"

    def types(self, lanes: int) -> dict[str, str]:
        """Gives the definitions of the vector types that the function uses, by name."""
        kinds = {self._vector(lanes): "float" if self.is_float else "uint32_t"}
        for factor in self.factors:
            if factor.follows and not self.is_float and self.dot is None:
                kinds |= {_vector_of(kind, lanes): kind for kind in _widened(factor)}
        made = {"": PRELUDE, **(self.dot.prelude if self.dot else {})}
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

    def _excess(self, vec: str, vectors: int) -> Nodes:
        """Writes the number by which bytes are shifted, and sums of what that adds to the
        products.
        """
        if self.dot is None or not self.dot.shifts:
            return []
        return [
            Declare(vec, "shift", f"({vec}){{0}} + {SHIFT}"),
            *(f"{vec} s{v} = ({vec}){{0}};" for v in range(vectors)),
        ]

    def _walk(self, places: Sequence[tuple[int, ...]], lanes: int, vectors: int) -> Nodes:
        """Writes all steps of the reduction; the last along a dot's iterator may have fewer
        neighbours.
        """
        dot = self.dot
        if dot is None or dot.left == dot.count:
            return nest(self.reduction, self._step(places, lanes, vectors))
        rest = self._step(places, lanes, vectors, dot.left)
        if dot.outer is None:
            return nest(self.reduction, rest)
        last, until = dot.outer, dot.outer.extent - 1
        whole = nest([KernelLoop(last.position, until)], self._step(places, lanes, vectors))
        end = Block([Declare("ptrdiff_t", last.name, str(until)), *rest])
        return nest([loop for loop in self.reduction if loop is not last], [*whole, end])

    def _step(
        self, places: Sequence[tuple[int, ...]], lanes: int, vectors: int, left: int | None = None
    ) -> Nodes:
        """Writes one step of the reduction, for all accumulators; `left` is the number of
        neighbours where a dot has fewer.
        """
        at = [self.indices.offset(factor.inner) for factor in self.factors]
        lines: list[Node] = [
            Declare(f"{c_type(factor.access.element)} *const", f"{name}i", f"{name} + {offset}")
            for factor, name, offset in zip(self.factors, "pq", at, strict=True)
        ]
        for factor, name in zip(self.factors, "pq", strict=True):
            if not factor.has_rows:
                lines += self._load(factor, name, f"{name}_", 0, lanes, vectors, left)
        if self.dot is not None and self.dot.shifts:
            vector = f"{'pq'[self.dot.lanes]}_"
            for v in range(vectors):
                lines.append(f"s{v} = {self.dot.macro}_{lanes}(s{v}, shift, {vector}{v});")
        for r, place in enumerate(places):
            for factor, name in zip(self.factors, "pq", strict=True):
                if factor.has_rows:
                    step = sum(i * s for i, s in zip(place, factor.steps, strict=True))
                    lines += self._load(factor, name, f"{name}{r}_", step, lanes, vectors, left)
            for v in range(vectors):
                values = [
                    f"{name}{r if factor.has_rows else ''}_{v if factor.follows else ''}"
                    for factor, name in zip(self.factors, "pq", strict=True)
                ]
                total = f"a{r}_{v}"
                if self.dot is None:
                    lines.append(f"{total} += {' * '.join(values)};")
                else:
                    lines.append(f"{total} = {self.dot.added(lanes, total, values)};")
        return lines

    def _load(
        self,
        factor: TileFactor,
        name: str,
        prefix: str,
        at: int,
        lanes: int,
        vectors: int,
        left: int | None,
    ) -> Nodes:
        vec = self._vector(lanes)
        if self.dot is not None:
            own = [(v, at + self.dot.count * v * lanes) for v in range(vectors)]
            if factor.follows:
                return [
                    Declare(vec, f"{prefix}{v}", f"*(const {vec} *)({name}i + {i})") for v, i in own
                ]
            shared = self.dot.shared(f"({name}i + {at})", left or self.dot.count)
            return [Declare(vec, prefix, f"({vec}){{0}} + {shared}")]
        if not factor.follows:
            kind = "float" if self.is_float else "uint32_t"
            wide = "" if self.is_float else "(uint32_t)(int32_t)"
            return [Declare(kind, prefix, f"{wide}{name}i[{at}]")]
        lines: list[Node] = []
        for v in range(vectors):
            place = f"({name}i + {at + v * lanes})"
            if self.is_float:
                text = f"*(const {vec} *){place}"
            else:
                first, *wider = [_vector_of(kind, lanes) for kind in _widened(factor)]
                text = f"*(const {first} *){place}"
                for kind in (*wider, vec):
                    text = f"__builtin_convertvector({text}, {kind})"
            lines.append(Declare(vec, f"{prefix}{v}", text))
        return lines


def _widened(factor: TileFactor) -> list[str]:
    """Gives the types of an integer operand in memory and on its way to 32 bits: gcc makes vectors
    of twice the width by one instruction, but of four times the width element by element.
    """
    kind = c_type(factor.access.element)
    return [kind, kind.replace("8", "16")] if SIZES[kind] == 1 else [kind]


def _vector_of(kind: str, lanes: int) -> str:
    return f"{kind.removesuffix('_t').replace('int', 'i')}x{lanes}"


def _places(heights: Sequence[int]) -> list[tuple[int, ...]]:
    if len(heights) == 1:
        return [(i,) for i in range(heights[0])]
    return [(i, j) for i in range(heights[0]) for j in range(heights[1])]

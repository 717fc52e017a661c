"""Matrix products as loops in many ways: what different people would write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Matmul:
    """C[m, n] = sum over k of A[m, k] * B[k, n] as nested loops."""

    sizes: tuple[int, int, int]
    order: Sequence[str] = ("m", "n", "k")
    """The loops, outermost first; `m.` is the loop over the tiles of m, then m the one in them."""
    tiles: tuple[int, int, int] = (2, 2, 2)
    dialect: str = "scf"
    swapped: bool = False
    """B * A instead of A * B."""
    element: str = "i8"
    start: str = "fill"
    """`fill` all of C first, `inside` before the loops over k, or `kept`: add to what is there."""
    carried: bool = False
    """The loops over k, innermost, carry the sum."""

    @property
    def extents(self) -> dict[str, int]:
        return dict(zip("mnk", self.sizes, strict=True))

    @property
    def is_legal(self) -> bool:
        """Whether what is asked for can be written: sums are carried, and started inside, around
        loops over k alone."""
        tail = [name.rstrip(".") for name in self.order[self._outer :]]
        needs_tail = self.carried or self.start == "inside"
        return not needs_tail or set(tail) == {"k"}

    @property
    def _outer(self) -> int:
        return next(i for i, name in enumerate(self.order) if name[0] == "k")

    def text(self) -> str:
        """The module."""
        m, n, k = self.sizes
        acc = "i32" if self.element == "i8" else self.element
        ports = f"%A: memref<{m}x{k}x{self.element}>, %B: memref<{k}x{n}x{self.element}>, "
        lines = [f"func.func public @main({ports}%C: memref<{m}x{n}x{acc}>) {{"]
        zero = "0" if acc == "i32" else "0.0"
        lines.append(f"  %zero = arith.constant {zero} : {acc}")
        numbers = sorted({0, 1, *self.sizes, *self.tiles})
        lines += [f"  %c{i} = arith.constant {i} : index" for i in numbers]
        if self.start == "fill":
            for name, size in (("x", m), ("y", n)):
                lines.append(f"  {self._loop(name, size)}")
            lines += [self._store("%zero", "%C", "x, y"), "  }", "  }"]
        lines += self._nest(0, "")
        return "\n".join([*lines, "  func.return", "}"])

    @property
    def _acc(self) -> str:
        return "i32" if self.element == "i8" else self.element

    def _type(self, name: str) -> str:
        m, n, k = self.sizes
        rows, columns = {"A": (m, k), "B": (k, n), "C": (m, n)}[name]
        return f"memref<{rows}x{columns}x{self._acc if name == 'C' else self.element}>"

    def _loop(self, name: str, size: int) -> str:
        if self.dialect == "affine":
            return f"affine.for %{name} = 0 to {size} {{"
        if self.dialect == "tir":
            return f"tir.for %{name} = 0 to {size} serial {{"
        return f"scf.for %{name} = %c0 to %c{size} step %c1 {{"

    def _load(self, result: str, name: str, index: str) -> str:
        op = "affine.load" if self.dialect == "affine" else "memref.load"
        subscript = ", ".join(f"%{i}" for i in index.split(", "))
        return f"{result} = {op} %{name}[{subscript}] : {self._type(name)}"

    def _store(self, value: str, name: str, index: str) -> str:
        op = "affine.store" if self.dialect == "affine" else "memref.store"
        subscript = ", ".join(f"%{i}" for i in index.split(", "))
        return f"{op} {value}, {name}[{subscript}] : {self._type(name[1:])}"

    def _nest(self, depth: int, carried: str) -> list[str]:
        """The loops from here on; `carried` is the sum so far, if loops carry it."""
        if depth == len(self.order):
            return self._body(carried)
        lines: list[str] = []
        first = depth == self._outer
        if first and self.start == "inside" and not self.carried:
            lines.append(self._store("%zero", "%C", "m, n"))
        sum_ = carried
        if first and self.carried:
            sum_ = "%zero" if self.start != "kept" else "%before"
            if self.start == "kept":
                lines.append(self._load("%before", "C", "m, n"))
        if not (self.carried and depth >= self._outer):
            return [*lines, self._head(depth), *self._nest(depth + 1, ""), "}"]
        lines.append(self._head(depth, f"%s{depth} = {sum_}"))
        inner = self._nest(depth + 1, f"%s{depth}")
        yielded = "%sum" if depth + 1 == len(self.order) else f"%r{depth + 1}"
        prefix = "affine" if self.dialect == "affine" else "scf"
        lines += [*inner, f"{prefix}.yield {yielded} : {self._acc}", "}"]
        if first:
            lines.append(self._store(f"%r{depth}", "%C", "m, n"))
        return lines

    def _head(self, depth: int, carry: str = "") -> str:
        name = self.order[depth]
        plain, size = name[0], self.extents[name[0]]
        tile = self.tiles["mnk".index(plain)]
        is_tiled = f"{plain}." in self.order
        word = name.replace(".", "t")
        result = f"%r{depth} = " if carry else ""
        args = f" iter_args({carry}) -> ({self._acc})" if carry else ""
        if self.dialect == "affine":
            bounds = f"0 to {size}"
            if name.endswith("."):
                bounds += f" step {tile}"
            elif is_tiled:
                least = f"min affine_map<(d0) -> (d0 + {tile}, {size})>(%{plain}t)"
                bounds = f"affine_map<(d0) -> (d0)>(%{plain}t) to {least}"
            return f"{result}affine.for %{word} = {bounds}{args} {{"
        if name.endswith("."):
            return f"{result}scf.for %{word} = %c0 to %c{size} step %c{tile}{args} {{"
        if is_tiled:
            ends = [
                f"%e{plain} = arith.addi %{plain}t, %c{tile} : index",
                f"%u{plain} = arith.minsi %e{plain}, %c{size} : index",
            ]
            loop = f"{result}scf.for %{word} = %{plain}t to %u{plain} step %c1{args} {{"
            return "\n".join([*ends, loop])
        if self.dialect == "tir":
            return f"tir.for %{word} = 0 to {size} serial {{"
        return f"{result}scf.for %{word} = %c0 to %c{size} step %c1{args} {{"

    def _body(self, carried: str) -> list[str]:
        a, b = "%a", "%b"
        lines = [self._load("%a", "A", "m, k"), self._load("%b", "B", "k, n")]
        kind = "i" if self._acc == "i32" else "f"
        if self.element == "i8":
            lines += [f"%w{x[1]} = arith.extsi {x} : i8 to i32" for x in (a, b)]
            a, b = "%wa", "%wb"
        a, b = (b, a) if self.swapped else (a, b)
        lines.append(f"%p = arith.mul{kind} {a}, {b} : {self._acc}")
        old = carried
        if not carried:
            lines.append(self._load("%old", "C", "m, n"))
            old = "%old"
        lines.append(f"%sum = arith.add{kind} {old}, %p : {self._acc}")
        return lines if carried else [*lines, self._store("%sum", "%C", "m, n")]


@st.composite
def matmuls(draw) -> Matmul:
    """Any of them."""
    loops = ["m", "n", "k"]
    dialect = draw(st.sampled_from(["scf", "scf", "affine", "tir"]))
    if dialect != "tir":
        loops += [f"{name}." for name in draw(st.sets(st.sampled_from("mnk")))]
    carried = draw(st.booleans()) and dialect != "tir"
    start = draw(st.sampled_from(["fill", "inside", "kept"] if not carried else ["inside", "kept"]))
    order = draw(st.permutations(loops))
    if carried or start == "inside":
        order = [x for x in order if x[0] != "k"] + [x for x in order if x[0] == "k"]
    # The loop over tiles is around the one in them.
    for name in "mnk":
        if f"{name}." in order:
            first, second = sorted((order.index(name), order.index(f"{name}.")))
            order[first], order[second] = f"{name}.", name
    sizes = tuple(draw(st.integers(1, 4)) for _ in "mnk")
    tiles = tuple(draw(st.integers(2, 3)) for _ in "mnk")
    element = draw(st.sampled_from(["i8", "f32"]))
    made = Matmul(sizes, tuple(order), tiles, dialect, draw(st.booleans()), element, start, carried)
    assert made.is_legal
    return made

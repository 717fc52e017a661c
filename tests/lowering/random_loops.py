"""Random programs of loops on three buffers, with tiles of them staged through others by copies:
some are blocks, some only look like it."""

from __future__ import annotations

from hypothesis import strategies as st

SIZE = 6
BUFFERS = ("X", "Y", "Z")
TILE = 2


class _Text:
    def __init__(self, draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.count = 0
        self.loops: list[tuple[str, int]] = []
        self.values: list[str] = []
        """Numbers that may be used here."""
        self.tiles: list[str] = []

    def fresh(self, line: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {line}")
        return f"%v{self.count}"

    def index(self, room: int = SIZE - 1) -> str:
        """An index up to a last one: some loops' variables, scaled, and a number."""
        total = "%c0"
        for name, extent in self.draw(st.permutations(self.loops)):
            step = self.draw(st.sampled_from([0, 1, 1, 1, 2]))
            if step and step * (extent - 1) <= room:
                room -= step * (extent - 1)
                scaled = self.fresh(f"arith.muli {name}, %c{step} : index")
                total = self.fresh(f"arith.addi {total}, {scaled} : index")
        offset = self.draw(st.sampled_from([0, 0, 0, 1]))
        if offset <= room:
            total = self.fresh(f"arith.addi {total}, %c{offset} : index")
        return total

    def value(self) -> str:
        """A number: read now or before, or computed from two of them."""
        kind = self.draw(st.sampled_from(["read", "read", "known", "number", "sum", "sum"]))
        if kind == "known" and self.values:
            return self.draw(st.sampled_from(self.values))
        if kind == "number":
            return self.fresh(f"arith.constant {self.draw(st.integers(-2, 2))} : i32")
        if kind == "sum":
            left, right = self.value(), self.value()
            op = self.draw(st.sampled_from(["addi", "addi", "subi", "muli"]))
            return self.fresh(f"arith.{op} {left}, {right} : i32")
        made = self.fresh(f"memref.load {self.element()}")
        self.values.append(made)
        return made

    def element(self) -> str:
        """An element of a buffer, as loads and stores name it: of the innermost tile as often as
        of all others."""
        of_tile = bool(self.tiles) and self.draw(st.booleans())
        buffer = self.tiles[-1] if of_tile else self.draw(st.sampled_from(BUFFERS))
        size = TILE if of_tile else SIZE
        return f"%{buffer}[{self.index(size - 1)}] : memref<{size}xi32>"

    def store(self) -> None:
        element, value = self.element(), self.value()
        if self.draw(st.booleans()):  # onto what is there
            old = self.fresh(f"memref.load {element}")
            value = self.fresh(f"arith.addi {old}, {value} : i32")
        self.lines.append(f"memref.store {value}, {element}")

    def stage(self, depth: int) -> None:
        """A tile that copies bring in and take out, mostly from and to one place."""
        self.count += 1
        tile, tiled, whole = f"t{self.count}", f"memref<{TILE}xi32>", f"memref<{SIZE}xi32>"
        self.lines.append(f"%{tile} = memref.alloc() : {tiled}")
        home, at = self.draw(st.sampled_from(BUFFERS)), self.index(SIZE - TILE)
        if self.draw(st.integers(0, 3)):
            copy = f"tir.copy %{home}[{at}] to %{tile} sizes [{TILE}] : {whole} to {tiled}"
        else:
            copy = f"tir.fill 3 : i32 into %{tile} : {tiled}"
        self.lines.append(copy)
        self.tiles.append(tile)
        self.block(depth + 1)
        self.tiles.pop()
        if self.draw(st.integers(0, 3)) == 0:
            home = self.draw(st.sampled_from(BUFFERS))
        if self.draw(st.integers(0, 3)):
            back = f"tir.copy %{tile} to %{home}[{at}] sizes [{TILE}] : {tiled} to {whole}"
            self.lines.append(back)

    def block(self, depth: int) -> None:
        known = len(self.values)
        for _ in range(self.draw(st.integers(1, 2))):
            kind = self.draw(st.sampled_from(["store", "loop", "loop", "read", "guard", "stage"]))
            if kind == "loop" and depth < 3:
                self.loop(depth)
            elif kind == "read":
                self.value()
            elif kind == "stage" and self.loops:
                self.stage(depth)
            elif kind == "guard" and self.loops:
                self.guard(depth)
            else:
                self.store()
        del self.values[known:]

    def loop(self, depth: int) -> None:
        extent = self.draw(st.integers(1, 3))
        self.count += 1
        name = f"%i{self.count}"
        if self.draw(st.integers(0, 3)) == 0:
            return self.sum(depth, name, extent)
        self.lines.append(f"scf.for {name} = %c0 to %c{extent} step %c1 {{")
        self.loops.append((name, extent))
        self.block(depth + 1)
        self.loops.pop()
        self.lines.append("}")

    def sum(self, depth: int, name: str, extent: int) -> None:
        """A loop that carries two numbers."""
        first, second = self.value(), self.value()
        self.count += 1
        result, args = f"%r{self.count}", [f"%s{self.count}", f"%t{self.count}"]
        carry = f"{args[0]} = {first}, {args[1]} = {second}"
        head = f"{result}:2 = scf.for {name} = %c0 to %c{extent} step %c1"
        self.lines.append(f"{head} iter_args({carry}) -> (i32, i32) {{")
        known = len(self.values)
        self.loops.append((name, extent))
        self.values += args
        if self.draw(st.booleans()):
            self.block(depth + 1)
        ends = [self.value(), self.value()]
        del self.values[known:]
        self.loops.pop()
        self.lines += [f"scf.yield {', '.join(ends)} : i32, i32", "}"]
        self.values += [f"{result}#0", f"{result}#1"]

    def guard(self, depth: int) -> None:
        name, extent = self.draw(st.sampled_from(self.loops))
        limit = self.draw(st.integers(0, extent))
        holds = self.fresh(f"arith.cmpi slt, {name}, %c{limit} : index")
        self.lines.append(f"scf.if {holds} {{")
        self.block(depth + 1)
        self.lines.append("}")


@st.composite
def programs(draw) -> str:
    """The text of a module whose @main works on three memrefs of i32."""
    text = _Text(draw)
    for _ in range(draw(st.integers(1, 2))):
        text.loop(0)
    ports = ", ".join(f'%{b}: memref<{SIZE}xi32> {{byoc.name = "{b}"}}' for b in BUFFERS)
    numbers = [f"%c{i} = arith.constant {i} : index" for i in range(4)]
    return "\n".join(
        [f"func.func public @main({ports}) {{", *numbers, *text.lines, "func.return", "}"]
    )

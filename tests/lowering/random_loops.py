"""Random programs of loops on three buffers: some are blocks, some only look like it."""

from __future__ import annotations

from hypothesis import strategies as st

SIZE = 6
BUFFERS = ("X", "Y", "Z")


class _Text:
    def __init__(self, draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.count = 0
        self.loops: list[tuple[str, int]] = []
        self.values: list[str] = []
        """Numbers that may be used here."""

    def fresh(self, line: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {line}")
        return f"%v{self.count}"

    def index(self) -> str:
        """An index inside the buffers: some loops' variables, scaled, and a number."""
        room, total = SIZE - 1, "%c0"
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
        buffer = self.draw(st.sampled_from(BUFFERS))
        at = self.index()
        made = self.fresh(f"memref.load %{buffer}[{at}] : memref<{SIZE}xi32>")
        self.values.append(made)
        return made

    def store(self) -> None:
        buffer, at = self.draw(st.sampled_from(BUFFERS)), self.index()
        value = self.value()
        if self.draw(st.booleans()):  # onto what is there
            old = self.fresh(f"memref.load %{buffer}[{at}] : memref<{SIZE}xi32>")
            value = self.fresh(f"arith.addi {old}, {value} : i32")
        self.lines.append(f"memref.store {value}, %{buffer}[{at}] : memref<{SIZE}xi32>")

    def block(self, depth: int) -> None:
        known = len(self.values)
        for _ in range(self.draw(st.integers(1, 2))):
            kind = self.draw(st.sampled_from(["store", "loop", "loop", "read", "guard"]))
            if kind == "loop" and depth < 3:
                self.loop(depth)
            elif kind == "read":
                self.value()
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

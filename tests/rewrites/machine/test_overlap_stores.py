"""Programs whose last work and store are done in parts compute the same."""

from __future__ import annotations

import alu_engine
import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate, random_feeds
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes

ADD = ["%n = arith.constant 3 : i32", "%r = arith.addi %old, %n : i32"]
STEPS = (
    "multiplies",
    "adds vectors",
    "adds",
    "adds vectors",
    "adds to the first rows",
    "multiplies",
    "loads",
    "changes",
)


class Program:
    """The text of a program that loads two arrays, works on the first and stores it."""

    def __init__(self, rows: int, lanes: int) -> None:
        self.rows, self.lanes = rows, lanes
        self.lines: list[str] = []
        widen = ["%r = arith.extsi %p : i8 to i32"]
        for name in "ac":
            self.put(f"%{name}[i, j]", ["%x[i, j]"], widen)
        self.put("%b[j]", ["%f[j]"], [])

    def type_of(self, value: str) -> str:
        name = value[1]
        shape = f"{self.rows}x{self.lanes}" if name in "acxy" else f"{self.lanes}"
        scope = ', "alu.vectors"' if name in "abc" else ""
        return f"memref<{shape}x{'i8' if name in 'xy' else 'i32'}{scope}>"

    def put(self, out: str, ins: list[str], body: list[str], rows: int = 0) -> None:
        """Adds a block: its input is %p, its result %r, or %p without a body, which was %old."""
        element, extent = self.type_of(out), rows or self.rows
        iterators = f"i: {extent}, j: {self.lanes}" if "i," in out else f"j: {self.lanes}"
        reads = ", ".join(f"{value} : {self.type_of(value)}" for value in ins)
        types = ["i8" if value[1] in "xy" else "i32" for value in [*ins, out]]
        names = ["%p"] * len(ins) + ["%old"]
        arguments = ", ".join(map("{}: {}".format, names, types))
        self.lines += [
            f"tir.block [{iterators}] {f'ins({reads})' if ins else ''} outs({out} : {element}) {{",
            f"^bb0({arguments}):",
            *body,
            f"tir.yield {'%r' if body else '%p'} : {types[-1]}",
            "}",
        ]

    def do(self, step: str, rows: int) -> None:
        a, b, c = "%a[i, j]", "%b[j]", "%c[i, j]"
        if step == "adds":
            self.put(a, [], ADD)
        elif step == "adds vectors":
            self.put(a, [c], ["%r = arith.addi %old, %p : i32"])
        elif step == "adds to the first rows":
            self.put(a, [], ADD, rows)
        elif step == "multiplies":
            self.put(a, [b], ["%r = arith.muli %old, %p : i32"])
        elif step == "loads":
            self.put(b, ["%g[j]"], [])
        else:
            self.put(c, [], ADD)

    def module(self) -> ModuleOp:
        self.put("%y[i, j]", ["%a[i, j]"], ["%r = arith.trunci %p : i32 to i8"])
        ports = ", ".join(f"%{name}: {self.type_of('%' + name)}" for name in "xfgy")
        made = [f"%{name} = tir.alloc : {self.type_of('%' + name)}" for name in "abc"]
        return parse_module(
            f'func.func @main({ports}) attributes {{byoc.target = #byoc.target<"alu", {{}}>}} {{\n'
            + "\n".join([*made, *self.lines, "func.return", "}"])
        )


def parted(module: ModuleOp) -> bool:
    """Runs the passes and holds what the program computes after each; tells whether the work was
    parted."""
    register("alu", alu_engine.Engine)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["arg3"]
    before = sum(isinstance(op, BlockOp) for op in module.walk())
    counts = list[int]()
    for name in ["overlap-stores", "select-instructions", "overlap-loads", "allocate-memories"]:
        run_passes(module, load_context(), name)
        verify_module(module)
        np.testing.assert_array_equal(evaluate(module, feeds)["arg3"], expected, name)
        counts.append(sum(isinstance(op, BlockOp) for op in module.walk()))
    return counts[0] > before


@settings(max_examples=15 if settings.default.max_examples < 100 else 500)
@given(st.sampled_from([16, 14, 1]), st.lists(st.sampled_from(STEPS), max_size=5), st.data())
def test_programs_compute_right_in_parts(rows: int, steps: list[str], data: st.DataObject) -> None:
    program = Program(rows, data.draw(st.sampled_from([8, 24])))
    for step in steps:
        program.do(step, data.draw(st.integers(1, rows)))
    event(f"{'parted' if parted(program.module()) else 'whole'}")


def test_work_on_all_rows_is_parted_and_work_on_some_rows_is_not() -> None:
    for step, is_parted in (("multiplies", True), ("adds to the first rows", False)):
        program = Program(16, 8)
        program.do(step, 5)
        assert parted(program.module()) == is_parted

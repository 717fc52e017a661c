"""Programs whose last work and store are done in parts compute the same."""

from __future__ import annotations

import alu_engine
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from byocir import Target
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Counted, Machine, exactly, up_to
from byocir.patterns import Pattern, block, wildcard
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
        np.testing.assert_array_equal(evaluate(module, feeds)["arg3"], expected, name)
        counts.append(sum(isinstance(op, BlockOp) for op in module.walk()))
    return counts[0] > before


@settings(max_examples=6 if settings.default.max_examples < 100 else 500)
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


def move(source: str, into: str, index: str = "i, j", *, adds: bool = False) -> str:
    """The text of a block that copies 16 by 8 numbers, or adds them to what is there."""
    scopes = (', "sums.rows"' if name == "%a" else "" for name in (source, into))
    types = [f"memref<16x8xi32{scope}>" for scope in scopes]
    body = "%r = arith.addi %old, %p : i32" if adds else ""
    return f"""
      tir.block [i: 16, j: 8] ins({source}[{index}] : {types[0]}) outs({into}[i, j] : {types[1]}) {{
      ^bb0(%p: i32, %old: i32):
        {body}
        tir.yield {"%r" if adds else "%p"} : i32
      }}"""


def summing(ops: list[str], cycles: int) -> ModuleOp:
    """A program for a machine with one unit for loads and stores, whose core takes so many cycles
    for a row.
    """
    machine = Machine("sums")
    dma, core = machine.unit("dma"), machine.unit("core")
    rows = machine.memory("rows", i32, row=(8,), rows=128)
    machine.order(Counted())
    sizes = {"rows": up_to(16), "lanes": exactly(8)}
    moves = {"unit": dma, "cycles": lambda s: 4 + s["rows"], **sizes}
    machine.copy("load", MAIN, rows, **moves)
    machine.copy("store", rows, MAIN, **moves)

    @machine.instruction(core, into=rows, cycles=lambda s: 4 + cycles * s["rows"], **sizes)
    def add() -> Pattern:
        y = wildcard("y", dtype=i32)["rows lanes"]
        return block("rows lanes", y, lambda x, y: x + y, init=rows("x"))

    register("sums", type("Sums", (Target,), {"name": "sums", "machine": machine}))
    ports = "%x: memref<16x8xi32>, %y: memref<16x8xi32>"
    return parse_module(f"""
    func.func @main({ports}) attributes {{byoc.target = #byoc.target<"sums", {{}}>}} {{
      %a = tir.alloc : memref<16x8xi32, "sums.rows">
      {"".join(ops)}
      func.return
    }}""")


def blocks_of(module: ModuleOp) -> int:
    return sum(isinstance(op, BlockOp) for op in module.walk())


def test_work_that_reads_what_the_store_writes_is_done_before_it() -> None:
    """Each half reads what the other half of the store writes over."""
    ops = [move("%x", "%a"), move("%a", "%y"), move("%y", "%a", "-i + 15, j", adds=True)]
    module = summing([*ops, move("%a", "%y")], 9)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    run_passes(module, load_context(), "overlap-stores")
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, expected[name])


@pytest.mark.parametrize(("cycles", "is_parted"), [(9, True), (1, False)])
def test_a_unit_that_is_behind_gets_no_more_calls(cycles: int, is_parted: bool) -> None:
    """Beside the last work it still stores what there was before."""
    work = move("%x", "%a", adds=True)
    ops = [move("%x", "%a"), work, move("%a", "%y"), work, move("%a", "%y")]
    module = summing(ops, cycles)
    run_passes(module, load_context(), "overlap-stores")
    assert (blocks_of(module) > len(ops)) == is_parted

"""Memories whose rows leave in the order in which they came: programs and what simulates them."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8
from byocir.errors import ByocirError
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import hazards_of, times_of
from byocir.machine.simulator import Simulator
from byocir.patterns import Pattern, block
from byocir.rewrites.machine.check_fifos import check_fifos


def queued(rows: int) -> Machine:
    """A machine whose core takes rows from one FIFO and puts them, doubled, into another."""
    machine = Machine("queued")
    load, core, store = (machine.unit(name, queue=4) for name in ("load", "core", "store"))
    to, back = (machine.memory(n, i8, row=(4,), rows=rows, fifo=True) for n in ("to", "back"))
    machine.order(Counted())
    moved = {"cycles": lambda s: 4, "rows": up_to(2), "lanes": up_to(4)}
    machine.copy("load", MAIN, to, unit=load, **moved)
    machine.copy("store", back, MAIN, unit=store, **moved)

    @machine.instruction(core, into=back, cycles=lambda s: 4, m=up_to(2), n=up_to(4))
    def double() -> Pattern:
        return block("m n", to("x")["m n"], lambda _, x: x + x)

    return machine


PLAIN = "tir.yield %a : i8"
DOUBLED = """%0 = arith.addi %a, %a : i8
      tir.yield %0 : i8"""


def step(name: str, source: str, into: str, body: str = PLAIN) -> str:
    """An instruction on two rows; a digit at the end of an operand is a row of main memory."""

    def ends(value: str, scope: str) -> str:
        if value[1] in "xy":
            return f"{value[:2]}[i + {value[2]}, j] : memref<4x4xi8>"
        return f'{value}[i, j] : memref<2x4xi8, "queued.{scope}">'

    ins, outs = ends(source, "back" if name == "store" else "to"), ends(into, "back")
    outs = ends(into, "to") if name == "load" else outs
    return f"""
  tir.intrinsic "queued.{name}" {{
    tir.block [i: 2, j: 4] ins({ins}) outs({outs}) {{
    ^bb0(%a: i8, %b: i8):
      {body}
    }}
  }}"""


def program(order: str) -> FuncOp:
    """Loads two pairs of rows, doubles them in this order, and stores what comes."""
    alloc = '%{} = tir.alloc {{row = {} : i64}} : memref<2x4xi8, "queued.{}">'
    buffers = [("p", 0, "to"), ("q", 2, "to"), ("r", 0, "back"), ("s", 2, "back")]
    steps = [step("load", "%x0", "%p"), step("load", "%x2", "%q")]
    steps += [step("double", f"%{each}", {"p": "%r", "q": "%s"}[each], DOUBLED) for each in order]
    steps += [step("store", {"p": "%r", "q": "%s"}[e], f"%y{2 * n}") for n, e in enumerate(order)]
    text = "\n  ".join([*(alloc.format(*each) for each in buffers), *steps])
    module = parse_module(
        f"func.func @f(%x: memref<4x4xi8>, %y: memref<4x4xi8>) {{\n  {text}\n  func.return\n}}",
        load_context(),
    )
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function


def test_rows_go_through_and_units_wait_for_them() -> None:
    machine, function = queued(4), program("pq")
    check_fifos(machine, function.body.block)
    calls = calls_in(machine, function.body.block)
    assert hazards_of(machine, calls) == []
    assert times_of(machine, calls).cycles == 4 * 4
    x = np.arange(16, dtype=np.int8).reshape(4, 4)
    arrays = [x, np.zeros_like(x)]
    Simulator(machine).run(function, arrays)
    np.testing.assert_array_equal(arrays[1], x + x)


def test_rows_that_would_leave_in_another_order_are_refused() -> None:
    with pytest.raises(ByocirError, match=r"rows to leave queued\.to in the order") as told:
        check_fifos(queued(4), program("qp").body.block)
    assert told.value.code == "B273"


def test_rows_that_are_taken_too_early_or_never_are_refused() -> None:
    with pytest.raises(
        ByocirError, match=r"leave queued\.to .*found some that nothing takes in queued"
    ):
        check_fifos(queued(4), program("").body.block)
    function = program("pq")
    ops = [op for op in function.body.block.ops if op.name == "tir.intrinsic"]
    ops[2].detach()
    function.body.block.insert_op_before(ops[2], ops[0])
    with pytest.raises(ByocirError, match=r"leave queued\.to .*found another in queued"):
        check_fifos(queued(4), function.body.block)


def test_a_simulated_fifo_gives_the_rows_that_came_first() -> None:
    x = np.arange(16, dtype=np.int8).reshape(4, 4)
    arrays = [x, np.zeros_like(x)]
    Simulator(queued(4)).run(program("qp"), arrays)
    np.testing.assert_array_equal(arrays[1], x + x)  # not the rows that the program names


def test_a_simulated_fifo_is_neither_read_empty_nor_overfilled() -> None:
    machine, function = queued(4), program("pq")
    calls = calls_in(machine, function.body.block)
    x = np.zeros((4, 4), np.int8)
    with pytest.raises(ByocirError, match=r"expected 2 rows in queued\.to, found 0"):
        Simulator(machine).run(function, [x, x.copy()], calls[2:])
    with pytest.raises(ByocirError, match=r"expected room for 2 rows in queued\.to, found 4 of 4"):
        Simulator(machine).run(function, [x, x.copy()], [*calls[:2], calls[0]])

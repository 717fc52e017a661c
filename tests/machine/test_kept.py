"""Operands that stay in a unit: which calls find them there, and that these compute with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8
from byocir.machine import MAIN, Calls, Machine, exactly, up_to
from byocir.machine.calls import calls_in
from byocir.machine.numeric_programs import times_of
from byocir.machine.simulator import Simulator
from byocir.patterns import Pattern, block


def keeping() -> Machine:
    """A machine whose core adds a row, which stays there, to others."""
    machine = Machine("keeping")
    unit = machine.unit("unit")
    near = machine.memory("near", i8, row=(4,), rows=16)
    moved = {"cycles": lambda s: 1, "rows": up_to(4), "lanes": exactly(4)}
    machine.copy("load", MAIN, near, unit=unit, **moved)
    machine.copy("store", near, MAIN, unit=unit, **moved)
    kept = {"cycles": lambda s: 10, "keeps": "w", "kept_cycles": lambda s: 2}

    @machine.instruction(unit, into=near, **kept, m=up_to(1), n=exactly(4))
    def add() -> Pattern:
        return block("m n", near("x")["m n"], near("w")["n"], lambda _, x, w: x + w)

    return machine


PROGRAM = """
func.func @f(%x: memref<3x4xi8>, %w: memref<2x4xi8>, %y: memref<3x4xi8>) {
  %near = tir.alloc {row = 0 : i64} : memref<3x4xi8, "keeping.near">
  %row = tir.alloc {row = 4 : i64} : memref<4xi8, "keeping.near">
  tir.intrinsic "keeping.load" {
    tir.block [i: 3, j: 4] ins(%x[i, j] : memref<3x4xi8>)
        outs(%near[i, j] : memref<3x4xi8, "keeping.near">) {
    ^bb0(%a: i8, %b: i8):
      tir.yield %a : i8
    }
  }
  LOADS
  tir.intrinsic "keeping.store" {
    tir.block [i: 3, j: 4] ins(%near[i, j] : memref<3x4xi8, "keeping.near">)
        outs(%y[i, j] : memref<3x4xi8>) {
    ^bb0(%a: i8, %b: i8):
      tir.yield %a : i8
    }
  }
  func.return
}
"""
STEP = """
  tir.intrinsic "keeping.load" {
    tir.block [j: 4] ins(%w[AT, j] : memref<2x4xi8>) outs(%row[j] : memref<4xi8, "keeping.near">) {
    ^bb0(%a: i8, %b: i8):
      tir.yield %a : i8
    }
  }
  tir.intrinsic "keeping.add" cut [1, 4] {
    tir.block [i: 3, j: 4] ins(%near[i, j] : memref<3x4xi8, "keeping.near">,
        %row[j] : memref<4xi8, "keeping.near">)
        outs(%near[i, j] : memref<3x4xi8, "keeping.near">) {
    ^bb0(%a: i8, %b: i8, %c: i8):
      %0 = arith.addi %a, %b : i8
      tir.yield %0 : i8
    }
  }
"""


def test_calls_of_ops_that_do_alike_blocks_are_followed_once(monkeypatch) -> None:
    """The loads of two rows are alike, and so are the sums with them."""
    steps = STEP.replace("AT", "0") + STEP.replace("AT", "1")
    module = parse_module(PROGRAM.replace("LOADS", steps), load_context())
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    followed: list[str] = []
    course = Calls._course

    def counted(calls: Calls) -> Any:
        followed.append(calls.op.callee.data)
        return course(calls)

    monkeypatch.setattr(Calls, "_course", counted)
    assert len([*calls_in(keeping(), function.body.block)]) == 10
    assert sorted(followed) == ["keeping.add", "keeping.load", "keeping.load", "keeping.store"]


def test_what_stays_is_found_until_it_is_written() -> None:
    """The second row lies where the first one was."""
    steps = STEP.replace("AT", "0") + STEP.replace("AT", "1")
    module = parse_module(PROGRAM.replace("LOADS", steps), load_context())
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    machine = keeping()
    calls = calls_in(machine, function.body.block)
    adding = [call for call in calls if call.instruction.keeps]
    assert [call.is_kept for call in adding] == [False, True, True] * 2
    assert times_of(machine, calls).cycles == 4 + 2 * (10 + 2 + 2)
    x, w = np.arange(12, dtype=np.int8).reshape(3, 4), np.array([[1, 2, 3, 4], [10, 20, 30, 40]])
    arrays = [x, w.astype(np.int8), np.zeros((3, 4), np.int8)]
    Simulator(machine).run(function, arrays)
    np.testing.assert_array_equal(arrays[2], x + w.sum(axis=0))

"""Channels that units share: instructions wait for them, and the search for tiles knows it."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8
from byocir.machine import MAIN, InOrder, Interlocked, Machine, Tokens, Transfer, exactly, up_to
from byocir.machine.calls import calls_in, ops_in
from byocir.machine.numeric_programs import times_of
from byocir.patterns import Pattern, block
from byocir.rewrites.machine.search_schedule import scheduled_cycles
from byocir.rewrites.machine.synchronise import synchronise


def sharing(*, shared: bool = True, first: int = 0, second: int = 0) -> Machine:
    """A machine that adds what two units load over one channel, if it is shared, each with a
    rank."""
    machine = Machine("sharing")
    one, other, core = (machine.unit(name, queue=4) for name in ("one", "other", "core"))
    memories = [machine.memory(name, i8, row=(4,), rows=64) for name in ("x", "y")]
    machine.order(Interlocked(tuple(memories)))
    way = machine.channel("way") if shared else None
    for unit, memory, rank in zip((one, other), memories, (first, second), strict=True):
        transfer = Transfer(way, lead=2, rank=rank) if way else None
        moved: dict[str, Any] = {"rows": up_to(8), "lanes": exactly(4), "transfer": transfer}
        machine.copy(unit.name, MAIN, memory, unit=unit, cycles=lambda s: 2 + s["rows"], **moved)
    machine.copy(
        "out", memories[0], MAIN, unit=core, cycles=lambda s: 1, rows=up_to(8), lanes=exactly(4)
    )

    @machine.instruction(core, into=memories[0], cycles=lambda s: 1, m=up_to(8), n=exactly(4))
    def add() -> Pattern:
        return block("m n", memories[0]("x")["m n"], memories[1]("y")["m n"], lambda _, x, y: x + y)

    return machine


LOAD = """
  tir.intrinsic "sharing.UNIT" {
    tir.block [i: 8, j: 4] ins(%x[i, j] : memref<8x4xi8>)
        outs(%UNIT[i, j] : memref<8x4xi8, "sharing.MEMORY">) {
    ^bb0(%a: i8, %b: i8):
      tir.yield %a : i8
    }
  }
"""
LOADS = f"""
func.func @f(%x: memref<8x4xi8>) {{
  %one = tir.alloc {{row = 0 : i64}} : memref<8x4xi8, "sharing.x">
  %other = tir.alloc {{row = 0 : i64}} : memref<8x4xi8, "sharing.y">
  {LOAD.replace("UNIT", "one").replace("MEMORY", "x")}
  {LOAD.replace("UNIT", "other").replace("MEMORY", "y")}
  func.return
}}
"""


def ends(machine: Machine) -> list[int]:
    """When two loads of eight rows end, which begin at once."""
    (function,) = parse_module(LOADS, load_context()).ops
    assert isinstance(function, FuncOp)
    return times_of(machine, calls_in(machine, function.body.block)).end.tolist()


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        (sharing(shared=False), [10, 10]),
        (sharing(), [10, 18]),  # each asks at 2 and moves for 8
        (sharing(first=1), [18, 10]),  # the lowest rank goes first
        (sharing(second=1), [10, 18]),
    ],
    ids=["alone", "shared", "later", "sooner"],
)
def test_loads_wait_for_the_channel_that_they_share(machine: Machine, found: list[int]) -> None:
    assert ends(machine) == found


@pytest.mark.parametrize(
    ("first", "found"), [(0, [10, 18]), (1, [10, 20])], ids=["alike", "overtaking"]
)
def test_later_loads_do_not_overtake_those_with_which_a_unit_begins(
    first: int, found: list[int]
) -> None:
    machine = sharing(first=first)
    one, other, _ = machine.units
    machine.order(Tokens(((one, other), (other, one))))
    (function,) = parse_module(LOADS, load_context()).ops
    assert isinstance(function, FuncOp)
    synchronise(machine, ops_in(machine, function.body.block))
    assert times_of(machine, calls_in(machine, function.body.block)).end.tolist() == found


def test_loads_that_take_turns_do_not_wait_for_each_other() -> None:
    """Those of the second unit fill its queue before the first has all of its own."""
    machine = sharing(first=1)
    one, other, _ = machine.units
    machine.order(Tokens(((one, other), (other, one))))
    turns = LOADS.replace('.one" {', '.one" cut [1, 4] beside {').replace(
        '.other" {', '.other" cut [1, 4] {'
    )
    (function,) = parse_module(turns, load_context()).ops
    assert isinstance(function, FuncOp)
    synchronise(machine, ops_in(machine, function.body.block))
    assert len(times_of(machine, calls_in(machine, function.body.block)).end) == 16


def test_a_machine_that_runs_in_order_waits_for_no_channel() -> None:
    machine = sharing()
    machine.order(InOrder())
    assert ends(machine) == [10, 20]


SUM = """
func.func @main(%x: tensor<1024x4xi8>, %y: tensor<1024x4xi8>) -> tensor<1024x4xi8> {
  %e = tir.empty : tensor<1024x4xi8>
  %z = tir.block [i: 1024, j: 4] ins(%x[i, j] : tensor<1024x4xi8>, %y[i, j] : tensor<1024x4xi8>)
      outs(%e[i, j] : tensor<1024x4xi8>) {
  ^bb0(%a: i8, %b: i8, %c: i8):
    %0 = arith.addi %a, %b : i8
    tir.yield %0 : i8
  }
  func.return %z : tensor<1024x4xi8>
}
"""


@pytest.mark.parametrize("shared", [False, True])
def test_the_search_knows_how_long_all_units_keep_a_channel(shared: bool) -> None:
    """Two units load 1,024 rows each: side by side or, over one channel, one after the other."""
    machine = sharing(shared=shared)
    cycles = scheduled_cycles(machine, [*parse_module(SUM, load_context()).walk()])
    assert (cycles >= 2048) == shared

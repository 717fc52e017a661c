"""Views of a memory: elements of several types in the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from random_machines import gemm, multiply_add, product_module
from xdsl.dialects.func import FuncOp

import byocir
from byocir.compiler import partition
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Counted, Interlocked, Machine, Order, Tokens, multiples_of, up_to
from byocir.machine.calls import calls_in, ops_in
from byocir.machine.checks import check_machine
from byocir.machine.numeric_programs import hazards_of, times_of
from byocir.machine.simulator import Simulator
from byocir.patterns import Pattern, block
from byocir.rewrites.machine.allocate_memories import allocated
from byocir.rewrites.machine.lifetimes import Lives
from byocir.rewrites.machine.synchronise import synchronise


def viewed(rows: int = 64, step: int = 1) -> Machine:
    """A machine with bytes and sums in one memory, whose rows are 16 of the ones or 4 of the
    others; it multiplies matrices whose sides are multiples of `step`."""
    machine = Machine("random")
    load, core, store = (machine.unit(name, queue=4) for name in ("load", "core", "store"))
    near = machine.memory("near", i8, row=(16,), rows=rows)
    sums = machine.view("sums", near, i32, row=(4,))
    machine.order(Counted())
    moved = {"cycles": lambda s: 4, "rows": up_to(4)}
    machine.copy("load", MAIN, near, unit=load, lanes=up_to(16), **moved)
    machine.copy("store", sums, MAIN, unit=store, lanes=up_to(4), **moved)
    sizes = {name: multiples_of(step, most) for name, most in (("m", 4), ("n", 4), ("k", 16))}

    @machine.instruction(core, into=sums, cycles=lambda s: 4, **sizes)
    def product() -> Pattern:
        reads = near("a")["m k"], near("w")["k n"]
        added = block("m n | k", *reads, multiply_add, init=sums("c"))
        return added | block("m n | k", *reads, multiply_add)

    return machine


def target(machine: Machine) -> byocir.Target:
    class Viewed(byocir.Target):
        name, patterns = "random", (gemm,)

    Viewed.machine = machine
    return Viewed()


def program(loaded: str, stored: str) -> FuncOp:
    """Loads bytes into a buffer of four rows, and stores sums from one: at these rows, if any."""
    module = parse_module(
        f"""
func.func @f(%x: memref<4x16xi8>, %y: memref<4x4xi32>) {{
  %a = tir.alloc {loaded} : memref<4x16xi8, "random.near">
  %b = tir.alloc {stored} : memref<4x4xi32, "random.sums">
  tir.intrinsic "random.load" {{
    tir.block [i: 4, j: 16] ins(%x[i, j] : memref<4x16xi8>)
        outs(%a[i, j] : memref<4x16xi8, "random.near">) {{
    ^bb0(%p: i8, %q: i8):
      tir.yield %p : i8
    }}
  }}
  tir.intrinsic "random.store" {{
    tir.block [i: 4, j: 4] ins(%b[i, j] : memref<4x4xi32, "random.sums">)
        outs(%y[i, j] : memref<4x4xi32>) {{
    ^bb0(%p: i32, %q: i32):
      tir.yield %p : i32
    }}
  }}
  tir.intrinsic "random.load" {{
    tir.block [i: 4, j: 16] ins(%x[i, j] : memref<4x16xi8>)
        outs(%a[i, j] : memref<4x16xi8, "random.near">) {{
    ^bb0(%p: i8, %q: i8):
      tir.yield %p : i8
    }}
  }}
  func.return
}}""",
        load_context(),
    )
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function


SAME = program("{row = 8 : i64}", "{row = 8 : i64}")


def test_sums_are_read_from_the_bytes_of_their_rows() -> None:
    x, y = np.arange(64, dtype=np.int8).reshape(4, 16), np.zeros((4, 4), np.int32)
    Simulator(viewed()).run(SAME, [x, y])
    np.testing.assert_array_equal(y, x.view(np.int32))


def test_accesses_by_several_views_race() -> None:
    machine, calls = viewed(), ops_in(viewed(), SAME.body.block)
    for call in calls:
        call.op.set_order({})
    first, *_ = hazards_of(machine, calls_in(machine, SAME.body.block))
    assert (first.kind, first.memory, first.span) == ("race", "random.near", (8, 12))
    synchronise(machine, calls)
    assert [call.op.counts for call in calls] == [{}, {"load": 0}, {"store": 0}]
    assert hazards_of(machine, calls_in(machine, SAME.body.block)) == []


@pytest.mark.parametrize("watched", [0, 1])
def test_hardware_that_watches_a_memory_watches_its_views(watched: int) -> None:
    """A load of 4 cycles, the store of what it brought, and a load into the same rows."""
    machine = viewed()
    machine.order(Interlocked((machine.memories[watched],)))
    synchronise(machine, ops_in(machine, SAME.body.block))
    calls = calls_in(machine, SAME.body.block)
    assert [call.op.counts for call in calls] == [{}, {}, {}]
    assert hazards_of(machine, calls) == []
    assert times_of(machine, calls).cycles == 4 + 4 + 4


def test_buffers_of_several_views_share_no_row_at_once() -> None:
    machine, function = viewed(), program("", "")
    rows = sorted(allocated(machine, function.body.block).values())
    assert rows == [0, 4]
    assert list(Lives(ops_in(machine, function.body.block)).of) == [machine.memories[0]]
    with pytest.raises(
        ByocirError, match=r"random\.near to hold .*found 8 rows wanted at once"
    ) as e:
        allocated(viewed(rows=6), function.body.block)
    assert "6 there: 4x16 (4 rows), 4x4 (4 rows)" in e.value.message


@pytest.mark.parametrize(("rows", "fits"), [(12, True), (11, False)])
def test_tiles_are_those_for_which_all_views_have_room(rows: int, fits: bool) -> None:
    """The smallest tile has four rows of each operand, and four of sums."""
    module, targets = product_module(4, 4, 4, relu=False), [target(viewed(rows, step=4))]
    report = partition(module, targets=targets, levels=("tensor",))
    assert [each.taken for each in report.decisions] == [fits]
    told = "random.near to hold the smallest tile (d0=4, d1=4), found 12 rows wanted and 11"
    assert fits or told in (report.decisions[0].reason or "")


def test_products_in_one_memory_are_computed_in_tiles() -> None:
    module = product_module(24, 20, 32, relu=False)
    package = byocir.compile(module.clone(), targets=[target(viewed())], levels=("tensor",))
    feeds = random_feeds(module)
    np.testing.assert_array_equal(
        package.run(feeds, check=True)["res0"], evaluate(module, feeds)["res0"]
    )


@pytest.mark.parametrize("way", ["there", "back"])
def test_tokens_lead_between_units_that_use_the_same_rows(way: str) -> None:
    """What is stored from a view makes room for what is loaded into another."""
    machine = viewed()
    load, core, store = machine.units
    both = (load, core), (core, store), (core, load), (store, core)

    def ordered(order: Order) -> None:
        machine.order(order)
        check_machine(machine)

    ordered(Tokens(both))
    with pytest.raises(ByocirError, match=r"access random\.near, found none"):
        ordered(Tokens(both[:3] if way == "there" else both[:2]))


def test_a_memory_is_counted_once_with_its_views() -> None:
    assert target(viewed()).resources() == {"memory_bits": 64 * 16 * 8}

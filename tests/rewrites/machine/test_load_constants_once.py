"""Programs that load constants in whole compute the same, where units that compute load them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import AllocOp, IntrinsicOp
from byocir.dialects.types import i8, i32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Counted, Machine, exactly, up_to
from byocir.patterns import Pattern, block, wildcard
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes

LANES, ROWS = 8, 4


def target(rows: int, factors_by: str, *, queued: bool = False) -> type[byocir.Target]:
    """A machine of so many rows; the unit of this name loads factors, into a FIFO if these are
    queued."""
    machine = Machine("own")
    units = {name: machine.unit(name, queue=4) for name in ("dma", "core")}
    dma, core = units.values()
    vectors = machine.memory("vectors", i32, row=(LANES,), rows=rows)
    factors = vectors
    if queued:
        factors = machine.memory("factors", i32, row=(LANES,), rows=rows, fifo=True)
    machine.order(Counted())
    sizes = {"rows": up_to(16), "lanes": exactly(LANES)}
    unit = units[factors_by]
    machine.copy("load", MAIN, factors, unit=unit, cycles=lambda s: 9 + s["rows"], **sizes)

    @machine.instruction(dma, into=vectors, cycles=lambda s: 9 + s["rows"], **sizes)
    def widen() -> Pattern:
        return block("rows lanes", wildcard("x", dtype=i8)["rows lanes"], lambda _, x: x.to(i32))

    @machine.instruction(dma, cycles=lambda s: 9 + s["rows"], **sizes)
    def narrow() -> Pattern:
        return block("rows lanes", vectors("x")["rows lanes"], lambda _, x: x.to(i8))

    @machine.instruction(core, into=vectors, cycles=lambda s: 4 + s["rows"], **sizes)
    def scale() -> Pattern:
        one = factors("y")["lanes"]
        return block("rows lanes", one, lambda x, y: x * y, init=vectors("x"))

    @machine.instruction(core, into=vectors, cycles=lambda s: 4 + s["rows"], **sizes)
    def double() -> Pattern:
        return block("rows lanes", lambda x: x + x, init=vectors("x"))

    class Own(byocir.Target):
        name = "own"

    Own.machine = machine
    return Own


@dataclass(frozen=True)
class Tile:
    """A tile: where its factors begin, whether they are doubled once they are loaded, into which
    memory, and which array they are from."""

    first: int
    doubles: bool = False
    memory: str = "vectors"
    array: str = "c"

    def text(self, number: int) -> str:
        x, a, b = f"%x[{number * ROWS} + i, j]", f"%a{number}", f"%b{number}"
        c = f"%{self.array}[j + {self.first}]"
        own, one = (
            f'memref<{ROWS}x{LANES}xi32, "own.vectors">',
            f'memref<{LANES}xi32, "own.{self.memory}">',
        )
        array = f"memref<{{rows}}x{LANES}xi8>"
        box, row = f"i: {ROWS}, j: {LANES}", f"j: {LANES}"
        lines = [
            f"tir.block [{box}] ins({x} : {array}) outs({a}[i, j] : {own}) {{",
            "^bb0(%p: i8, %o: i32):\n%r = arith.extsi %p : i8 to i32\ntir.yield %r : i32\n}",
            f"tir.block [{row}] ins({c} : {{factors}}) outs({b}[j] : {one}) {{",
            "^bb0(%p: i32, %o: i32):\ntir.yield %p : i32\n}",
            f"tir.block [{row}] outs({b}[j] : {one}) {{" if self.doubles else "",
            "^bb0(%o: i32):\n%r = arith.addi %o, %o : i32\ntir.yield %r : i32\n}"
            if self.doubles
            else "",
            f"tir.block [{box}] ins({b}[j] : {one}) outs({a}[i, j] : {own}) {{",
            "^bb0(%p: i32, %o: i32):\n%r = arith.muli %o, %p : i32\ntir.yield %r : i32\n}",
            f"tir.block [{box}] ins({a}[i, j] : {own}) outs({x.replace('x', 'y', 1)} : {array}) {{",
            "^bb0(%p: i32, %o: i8):\n%r = arith.trunci %p : i32 to i8\ntir.yield %r : i8\n}",
        ]
        made = f"{a} = tir.alloc : {own}\n{b} = tir.alloc : {one}\n"
        return made + "\n".join(filter(None, lines))


def module_of(tiles: list[Tile], size: int) -> ModuleOp:
    """A program of tiles with factors from arrays of this size."""
    rows = ROWS * len(tiles)
    numbers = ", ".join(str(n) for n in range(1, size + 1))
    texts = [tile.text(number) for number, tile in enumerate(tiles)]
    body = "\n".join(texts).replace("{rows}", str(rows)).replace("{factors}", f"memref<{size}xi32>")
    array = f"memref<{rows}x{LANES}xi8>"
    factors = "".join(
        f"%{name} = tir.constant <[{numbers}] : tensor<{size}xi32>> : memref<{size}xi32>\n"
        for name in dict.fromkeys(tile.array for tile in tiles)
    )
    return parse_module(
        f"func.func @main(%x: {array}, %y: {array}) "
        'attributes {byoc.target = #byoc.target<"own", {}>} {\n'
        f"{factors}{body}\nfunc.return\n}}"
    )


def loads_after(module: ModuleOp, made: type[byocir.Target]) -> int:
    """Runs the passes, holds what the program computes after each, and counts loads of factors."""
    register("own", made)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["arg1"]
    names = ("select-instructions", "load-constants-once", "overlap-loads", "allocate-memories")
    for name in names:
        run_passes(module, load_context(), name)
        np.testing.assert_array_equal(evaluate(module, feeds)["arg1"], expected, name)
    ops = [op for op in module.walk() if isinstance(op, IntrinsicOp)]
    assert all(op.result.uses.get_length() for op in module.walk() if isinstance(op, AllocOp))
    return sum(op.callee.data == "own.load" for op in ops)


tiles = st.builds(Tile, st.sampled_from([0, 8, 8, 16, 3]), st.integers(0, 5).map(lambda n: not n))


@settings(max_examples=6 if settings.default.max_examples < 100 else 500)
@given(st.lists(tiles, min_size=1, max_size=5), st.sampled_from([24, 27]), st.booleans())
def test_programs_compute_the_same(given: list[Tile], size: int, is_small: bool) -> None:
    found = loads_after(module_of(given, size), target(6 if is_small else 64, "core"))
    event("joined" if found < len(given) else "as they were")


THREE = [Tile(0), Tile(8), Tile(16)]


@pytest.mark.parametrize(
    ("given", "rows", "unit", "loads"),
    [
        pytest.param(THREE, 64, "core", 1, id="in whole"),
        pytest.param([*THREE, Tile(8)], 64, "core", 1, id="parts that are loaded again"),
        pytest.param(THREE, 64, "dma", 3, id="by a unit that only moves"),
        pytest.param(THREE, 6, "core", 3, id="without room"),
        pytest.param([*THREE, Tile(0, doubles=True)], 64, "core", 4, id="changed"),
        pytest.param([Tile(0), Tile(8)], 64, "core", 2, id="of which some is never used"),
        pytest.param([*THREE, Tile(3)], 64, "core", 4, id="inside a row"),
    ],
)
def test_factors_are_loaded(given: list[Tile], rows: int, unit: str, loads: int) -> None:
    assert loads_after(module_of(given, 24), target(rows, unit)) == loads


def test_factors_in_a_fifo_are_loaded_as_they_are_taken() -> None:
    """What leaves the FIFO once could not be read twice."""
    tiles = [Tile(first, memory="factors") for first in (0, 8, 16, 8)]
    assert loads_after(module_of(tiles, 24), target(64, "core", queued=True)) == 4


def test_factors_of_later_work_are_loaded_behind_the_stores_of_earlier_work() -> None:
    module = module_of([*THREE, *(Tile(first, array="d") for first in (0, 8, 16))], 24)
    assert loads_after(module, target(64, "core")) == 2
    called = [op.callee.data for op in module.walk() if isinstance(op, IntrinsicOp)]
    first, second = (n for n, name in enumerate(called) if name == "own.load")
    assert first < called.index("own.narrow") < second

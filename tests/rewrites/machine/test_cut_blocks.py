"""Calls that add to sums of floats do that in the order of the block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import f32
from byocir.machine import Machine, up_to
from byocir.patterns import Match, Pattern, block
from byocir.rewrites.machine.cut_blocks import Part, expect_parts, parts_of
from byocir.rewrites.schedule.write_out import PaddedBox


def engine(*, keeps: bool) -> Machine:
    """An engine that adds four products at once, and one; in one that keeps them, factors stay."""
    machine = Machine("sums")
    core = machine.unit("core")
    near = machine.memory("near", f32, row=(4,), rows=512, inside_rows=True)

    def added() -> Pattern:
        x, w = near("x")["m k"], near("w")["k"]
        return block("m | k", x, w, lambda total, x, w: total + x * w, init=near("sums"))

    def declare(name: str, most: int, cycles: int) -> None:
        added.__name__ = name
        kept = {"keeps": "w", "kept_cycles": lambda _: 1} if keeps else {}
        sizes = {"m": up_to(16), "k": up_to(most)}
        made = machine.instruction(
            core, into=near, strided=("x", "w", "out"), cycles=lambda _: cycles, **kept, **sizes
        )(added)

        @made.rule
        def products_are_many(m: Match) -> tuple[bool, int]:
            """All products are added, or half of them."""
            count = m["x"].type.shape[-1]
            return count in (most, most // 2, 1), count

    declare("four", 4, 2)
    declare("one", 1, 100)
    return machine


ENGINES = {keeps: engine(keeps=keeps) for keeps in (False, True)}


def sums(m: int, r: int, c: int, factors: str) -> BlockOp:
    sizes = "x".join(str({"r": r, "c": c}[i]) for i in factors)
    index = ", ".join(factors)
    x, w, y = (f'memref<{n}xf32, "sums.near">' for n in (f"{m + r}x{c}", sizes, m))
    text = f"""
      func.func @main(%x: {x}, %w: {w}, %y: {y}) {{
        tir.block [m: {m} | r: {r}, c: {c}] ins(%x[m + r, c] : {x}, %w[{index}] : {w})
            outs(%y[m] : {y}) {{
        ^bb0(%a: f32, %b: f32, %old: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %old, %p : f32
          tir.yield %s : f32
        }}
        func.return
      }}"""
    (op,) = [op for op in parse_module(text).walk() if isinstance(op, BlockOp)]
    return op


def points(part: Part) -> Iterator[tuple[int, ...]]:
    """Yields the points of a part's calls, one call after the other."""
    pieces = [
        [range(at, min(at + cut, high)) for at in range(low, high, cut)]
        for (low, high), cut in zip(part.sides, part.cut, strict=True)
    ]
    for call in product(*(pieces[i] for i in part.order)):
        yield from product(*(call[part.order.index(i)] for i in range(len(pieces))))


@pytest.mark.parametrize("keeps", ENGINES)
@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 11), st.sampled_from(["c", "r", "rc"]))
def test_calls_keep_the_order_of_sums(keeps: bool, m: int, r: int, c: int, factors: str) -> None:
    found: dict[int, list[tuple[int, ...]]] = {}
    for part in expect_parts(ENGINES[keeps], sums(m, r, c, factors), None):
        for first, *rest in points(part):
            found.setdefault(first, []).append((*rest,))
    assert found == {at: [*product(range(r), range(c))] for at in range(m)}


def test_a_box_that_cuts_in_many_ways_lead_to_is_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes: list[object] = []
    made = PaddedBox.made

    def counted(box: PaddedBox, operands: Sequence[SSAValue]) -> BlockOp:
        boxes.append(box.sides)
        return made(box, operands)

    machine = Machine("begins_nowhere")
    near = machine.memory("near", f32, row=(4,), rows=4096)
    most = {each: up_to(4) for each in "mnk"}

    @machine.instruction(machine.unit("core"), into=near, cycles=lambda _: 1, **most)
    def product() -> Pattern:
        x, w = near("x")["m k"], near("w")["k n"]
        return block("m n | k", x, w, lambda total, x, w: total + x * w, init=near("sums"))

    (op,) = [op for op in parse_module(WINDOWS).walk() if isinstance(op, BlockOp)]
    monkeypatch.setattr(PaddedBox, "made", counted)
    assert parts_of(machine, op, FloatAttr(0, f32)) is None
    # behind the first of each of the three sums, or not
    assert len(boxes) == len(set(boxes)) <= 8


WINDOWS = """
  func.func @main(%x: memref<10x10x64xf32, "begins_nowhere.near">,
      %w: memref<3x3x64x4xf32, "begins_nowhere.near">,
      %y: memref<8x4xf32, "begins_nowhere.near">) {
    tir.block [m: 8, n: 4 | r: 3, s: 3, k: 64]
        ins(%x[r, m + s, k] : memref<10x10x64xf32, "begins_nowhere.near">,
            %w[r, s, k, n] : memref<3x3x64x4xf32, "begins_nowhere.near">)
        outs(%y[m, n] : memref<8x4xf32, "begins_nowhere.near">) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %old, %p : f32
      tir.yield %s : f32
    }
    func.return
  }"""

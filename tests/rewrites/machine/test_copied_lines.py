"""Costs know that one call takes lines which follow each other."""

from __future__ import annotations

import numpy as np
import pytest
from narrowing_engine import multiply_add

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, InOrder, Machine, up_to
from byocir.patterns import Pattern, block
from byocir.rewrites.machine.copies import Copies
from byocir.rewrites.machine.search_schedule import scheduled_cycles


def machine() -> Machine:
    found = Machine("own")
    unit, near = found.unit("dma"), found.memory("near", i8, row=(16,), rows=64)
    found.order(InOrder())
    sizes = {"rows": up_to(16), "lanes": up_to(16)}
    found.copy("load", MAIN, near, unit=unit, cycles=lambda s: 40 + s["rows"], **sizes)
    return found


@pytest.mark.parametrize(
    ("height", "width", "cycles"),
    [
        (6, 6, 3 * (40 + 12)),  # two lines a call
        (5, 6, 2 * (40 + 12) + 46),  # the last one alone
        (6, 5, 2 * (40 + 15)),
        (2, 16, 2 * (40 + 16)),
    ],
)
def test_calls_copy_lines_of_a_whole_image(height: int, width: int, cycles: int) -> None:
    shape = [np.array(n) for n in (height, width, 16)]
    whole = Copies(i8, shape, MAIN, machine().memories[0], (height, width, 16))
    assert whole.total(machine()) == cycles
    part = Copies(i8, shape, MAIN, machine().memories[0], (height, width + 1, 16))
    assert part.total(machine()) == height * (40 + width)


LAYER = """
func.func @main(%x: tensor<1x5x5x16xi8>, %w: tensor<1x1x16x16xi8>) -> tensor<1x5x5x16xi32> {
  %e = tir.empty : tensor<1x5x5x16xi32>
  %y = tir.block [h: 5, w: 5, o: 16 | r: 1, s: 1, c: 16]
      ins(%x[0, {h}, {w}, c] : tensor<1x5x5x16xi8>, %w[0, 0, c, o] : tensor<1x1x16x16xi8>)
      outs(%e[0, h, w, o] : tensor<1x5x5x16xi32>) {
  ^bb0(%a: i8, %b: i8, %t: i32):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %t, %2 : i32
    tir.yield %3 : i32
  }
  func.return %y : tensor<1x5x5x16xi32>
}
"""


def test_products_take_lines_in_windows_of_one_point() -> None:
    """Two calls do 25 pixels, 15 and 10, whether the window of 1x1 is in the indices or not."""
    found = machine()
    unit, near = found.units[0], found.memories[0]
    sums = found.memory("sums", i32, row=(16,), rows=64)
    found.copy("store", sums, MAIN, unit=unit, cycles=lambda s: 1, rows=up_to(64), lanes=up_to(16))
    sizes = {"m": up_to(16), "n": up_to(16), "k": up_to(16)}

    @found.instruction(unit, into=sums, cycles=lambda s: 1000, **sizes)
    def product() -> Pattern:
        a, w = near("a")["m k"], near("w")["k n"]
        return block("m n | k", a, w, multiply_add)

    plain, windowed = (
        scheduled_cycles(found, [*parse_module(text, load_context()).walk()])
        for text in (
            LAYER.replace("{h}", "h").replace("{w}", "w"),
            LAYER.replace("{h}", "h + r").replace("{w}", "w + s"),
        )
    )
    assert plain == windowed
    assert 2000 < plain < 3000

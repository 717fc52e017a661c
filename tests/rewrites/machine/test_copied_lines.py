"""Costs of copies know that one call takes lines which follow each other."""

from __future__ import annotations

import numpy as np
import pytest

from byocir.dialects.types import i8
from byocir.machine import MAIN, InOrder, Machine, up_to
from byocir.rewrites.machine.copies import Copies


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

"""The search for tiles tries sizes that do no point twice, where calls do one point at a time."""

from __future__ import annotations

import pytest
from random_machines import conv_module, machine_by

from byocir.compiler import partition
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import BlockOp
from byocir.rewrites.machine.stages import Chain
from byocir.rewrites.machine.tile_sizes import TileSizes

ONE = (1, 1, 1, 0, 0)
"""A window of one point."""


@pytest.mark.parametrize("lines", [12, 24, 36, 56])
def test_tiles_of_lines_that_calls_do_one_by_one_divide_an_image(lines: int) -> None:
    drawn = machine_by(lambda options: options[0])
    module = conv_module((lines, 16, drawn.choices["lanes"]), (ONE, ONE), drawn.choices["lanes"])
    partition(module, targets=[drawn.register()()], levels=("tensor",))
    (composite,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    chain = Chain(drawn.machine, [op for op in composite.body.block.ops if isinstance(op, BlockOp)])
    assert chain.last.plan.sizes[0] == 1
    found = TileSizes(chain).sizes_of(len(chain.stages) - 1, 0)
    assert [n for n in found if lines % n] == []
    assert len(found) > 3

"""Coarse programs tell how long a choice of tiles takes, unless it has very many steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from random_machines import machine_by, product_module

from byocir.compiler import partition
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import BlockOp
from byocir.machine import Machine
from byocir.rewrites.machine import search_schedule
from byocir.rewrites.machine.schedule_script import Choice
from byocir.rewrites.machine.stages import Chain
from byocir.rewrites.machine.tile_costs import TileCosts
from byocir.rewrites.machine.tile_programs import timed_cycles

ENGINE = {"size": 8, "lanes": 8, "own weights": True, "copy rows": 8, "sums rows": 64}
ENGINE |= {"units": ("core", "store"), "order": "counted", "weights rows": 64}


def product_on(machine: Mapping[str, int], m: int, n: int, k: int) -> tuple[Machine, CompositeOp]:
    """A product on a machine with a unit that loads, one that computes, and one that stores."""
    drawn = machine_by(lambda options: options[0], {**ENGINE, **machine})
    module = product_module(m, n, k, relu=False)
    partition(module, targets=[drawn.register()()], levels=("tensor",))
    (composite,) = (op for op in module.walk() if isinstance(op, CompositeOp))
    return drawn.machine, composite


@pytest.mark.parametrize(
    ("memories", "cycles"),
    [
        # weights 0-12; first tile 12-24, product 24-34, store 34-46; second tile 24-36, then 36-46
        # and 46-58
        ({"near rows": 16}, 58),
        # the second tile waits for the first product: 34-46, 46-56, 56-68
        ({"near rows": 8}, 68),
        # one memory: 8 rows of weights, and for each tile 8 of bytes and 32 of sums
        ({"near rows": 88, "views": True}, 58),
        ({"near rows": 87, "views": True}, 68),
    ],
)
def test_a_tile_is_loaded_beside_the_work_on_another_where_both_have_room(
    memories: Mapping[str, int], cycles: int
) -> None:
    machine, composite = product_on(memories, 16, 8, 8)
    chain = Chain(machine, [op for op in composite.body.block.ops if isinstance(op, BlockOp)])
    sizes = {(1, 0): 8, (1, 1): 8, (0, 2): 8}
    costs = TileCosts(chain, {tiled: np.array(size) for tiled, size in sizes.items()})
    assert timed_cycles(costs, (), Choice(sizes, (0, 1), frozenset())) == cycles


def test_choices_of_very_many_steps_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form tells them apart alone: a program of so many steps takes long to write."""
    monkeypatch.setattr(search_schedule, "timed_cycles", lambda *_: pytest.fail("timed"))
    memories = {"near rows": 8, "weights rows": 8, "sums rows": 8}
    machine, composite = product_on(memories, 256, 256, 256)
    found = search_schedule.schedule_for(machine, composite)
    assert found in search_schedule.schedules_for(machine, composite, 40)

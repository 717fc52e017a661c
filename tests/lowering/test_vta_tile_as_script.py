"""Tiles of VTA's composites by primitives: docs/decisions/0018 says what `vta-tile` does beside."""

from __future__ import annotations

import numpy as np
import pytest
from vta_programs import Net, Scale, apply, assert_same, evaluate

from byocir.dialects.byoc import composites_in
from byocir.dialects.tir import ForOp
from byocir.dialects.verify import verify_module
from byocir.lowering.tir_to_vta.bufferize import VtaBufferizePass
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.pack import VtaPackPass
from byocir.lowering.tir_to_vta.stage import VtaStagePass
from byocir.rewrites.schedule import Schedule

SHAPE = (1, 32, 7, 7)


def convolution(rounding: str):
    net = Net(SHAPE)
    weights = np.random.default_rng(1).integers(-128, 128, (16, 32, 1, 1)).astype(np.int8)
    scale = Scale(np.array(12_345, np.int32), 23, rounding)
    result = net.composite(
        "Conv_0", net.inputs, lambda body, x: body.requantise(body.conv(x, weights, 1, 0), scale)
    )
    return net.module(result)


def pool():
    net = Net(SHAPE)
    pooled = net.composite("Pool_0", net.inputs, lambda body, x: body.pool(x, "max", (3, 3), 1, 1))
    return net.module(pooled)


def scripted(module) -> Schedule:
    """Tiles of three rows, the last of which begins earlier: what is stored, then all that a tile
    of it needs, buffer by buffer, and last the input channels. Where a guard decides, each tile has
    a program of its own."""
    apply(module, VtaLegalisePass, VtaPackPass, VtaBufferizePass)
    (function,) = vta_functions(module)
    (composite,) = composites_in(function)
    schedule = Schedule(composite)
    *steps, store = schedule.blocks()
    (rows,) = schedule.tile(store, remainder="overlap", **{store.names[2]: 3})
    for block in {block.outs[0]: block for block in steps}.values():
        if rows not in schedule.loops(block):  # what needs another in turn goes along with it
            schedule.compute_at(block, rows)
    (product,) = (block for block in schedule.blocks() if block.reductions)
    if product.where is None:
        schedule.tile(product, **{product.names[5]: 1})
    else:
        schedule.iterations(rows)
    return schedule


@pytest.mark.parametrize(
    ("module", "extents"),
    [(convolution("half_up"), [3, 2]), (convolution("half_even"), [3, 2]), (pool(), [1, 1, 1])],
    ids=["one buffer", "two buffers in turn", "a guarded window"],
)
def test_steps_are_tiled_by_primitives(module, extents):
    image = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    expected = evaluate(module, [image])
    schedule = scripted(module)
    verify_module(module)
    loops = [op.extent.value.data for op in schedule.root.walk() if isinstance(op, ForOp)]
    assert loops == extents
    assert_same(evaluate(module, [image]), expected)
    apply(module, VtaStagePass)
    assert_same(evaluate(module, [image]), expected)

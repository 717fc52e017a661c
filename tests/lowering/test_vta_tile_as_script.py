"""How far primitives come where `vta-tile` goes: docs/decisions/0018 says why it is a pass."""

from __future__ import annotations

import numpy as np
import pytest
from vta_programs import Net, Scale, apply, assert_same, evaluate

from byocir.dialects.tir import ForOp
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.bufferize import VtaBufferizePass
from byocir.lowering.tir_to_vta.composites import composites_of, vta_functions
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
    of it needs, buffer by buffer, and last the input channels."""
    apply(module, VtaLegalisePass, VtaPackPass, VtaBufferizePass)
    (function,) = vta_functions(module)
    (composite,) = composites_of(function)
    schedule = Schedule(composite)
    *steps, store = schedule.blocks()
    (rows,) = schedule.tile(store, remainder="overlap", **{store.names[2]: 3})
    for block in {block.outs[0]: block for block in steps}.values():
        schedule.compute_at(block, rows)
    (product,) = (block for block in schedule.blocks() if block.reductions)
    schedule.tile(product, **{product.names[5]: 1})
    return schedule


def test_a_chain_on_one_buffer_is_tiled_by_primitives():
    module = convolution("half_up")
    image = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    expected = evaluate(module, [image])
    schedule = scripted(module)
    verify_module(module)
    loops = [op.extent.value.data for op in schedule.root.walk() if isinstance(op, ForOp)]
    assert loops == [3, 2]
    assert "arith.minsi" in str(module)
    assert_same(evaluate(module, [image]), expected)
    apply(module, VtaStagePass)
    assert_same(evaluate(module, [image]), expected)


@pytest.mark.parametrize(
    "module", [convolution("half_even"), pool()], ids=["two buffers in turn", "a guarded window"]
)
def test_steps_that_need_each_other_are_refused(module):
    with pytest.raises(ByocirError, match="blocks that make the whole buffer") as caught:
        scripted(module)
    assert caught.value.code == "B256"

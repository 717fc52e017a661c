"""vta-stage: the same results, through VTA's memories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_vta_tile import BEFORE, conv_net, tile
from vta_programs import Net, apply, assert_locations, assert_same, evaluate
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from byocir.dialects.byoc import CompositeOp, YieldOp, composites_in
from byocir.dialects.tir import (
    AllocOp,
    BlockOp,
    ConstantOp,
    CopyOp,
    FillOp,
    ForOp,
    scope_of,
)
from byocir.dialects.types import element_type_of, i8, i32, shape_of
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.stage import VtaStagePass
from byocir.lowering.tir_to_vta.tile import VtaTilePass
from byocir.vta_sim import Memory, VTAConfig

INDEX_OPS = (arith.ConstantOp, arith.AddiOp, arith.MuliOp, arith.SubiOp, arith.MinSIOp)
MEMORIES = {"vta.inp": Memory.INP, "vta.wgt": Memory.WGT, "vta.acc": Memory.ACC}
LANES = {"vta.inp": 1, "vta.wgt": 2, "vta.acc": 1}


def composites_of(module: ModuleOp) -> list[CompositeOp]:
    return [c for f in vta_functions(module) for c in composites_in(f)]


def assert_staged(composite: CompositeOp) -> None:
    outer = (AllocOp, BlockOp, ConstantOp, CopyOp, FillOp, ForOp, YieldOp, *INDEX_OPS)
    for op in composite.body.block.walk():
        if isinstance(op.parent_op(), BlockOp):
            continue
        assert isinstance(op, outer), op.name
        if isinstance(op, AllocOp):
            element = i32 if scope_of(op.result.type) == "vta.acc" else i8
            assert element_type_of(op.result.type) == element
            assert scope_of(op.result.type) in MEMORIES
        if isinstance(op, BlockOp):
            assert not op.bases
            assert op.pad_values == [None] * len(op.ins)
            scopes = [scope_of(value.type) for value in [*op.ins, *op.outs]]
            contraction = op.reductions and len(op.ins) == 2
            inputs = ["vta.inp", "vta.wgt"] if contraction else ["vta.acc"] * len(op.ins)
            assert scopes == [*inputs, "vta.acc"]


def assert_fits(block: Block, config: VTAConfig, around: dict[Memory, int]) -> None:
    """What lives at once fits each memory."""
    used = dict(around)
    for op in block.ops:
        if isinstance(op, AllocOp):
            scope = scope_of(op.result.type)
            shape = shape_of(op.result.type)
            used[MEMORIES[scope]] += math.prod(shape[: -LANES[scope]])
    for memory, elements in used.items():
        assert elements <= config.depth(memory), memory
    for op in block.ops:
        if isinstance(op, ForOp):
            assert_fits(op.body.block, config, used)


def assert_all_fits(module: ModuleOp, config: VTAConfig) -> None:
    for composite in composites_of(module):
        assert_staged(composite)
        assert_fits(composite.body.block, config, dict.fromkeys(MEMORIES.values(), 0))


def path_of(op: CopyOp) -> int:
    """How many loops are around a copy."""
    depth, parent = 0, op.parent_op()
    while isinstance(parent, ForOp):
        depth, parent = depth + 1, parent.parent_op()
    return depth


def copies_into(module: ModuleOp, scope: str) -> list[CopyOp]:
    (composite,) = composites_of(module)
    copies = [op for op in composite.walk() if isinstance(op, CopyOp)]
    return [op for op in copies if scope_of(op.destination.type) == scope]


def test_weights_that_stay_are_loaded_outside_the_loops() -> None:
    module = apply(conv_net(16, 16, 56, 3, 1, 1), *BEFORE, VtaTilePass, VtaStagePass)
    (weights,) = copies_into(module, "vta.wgt")
    (inputs,) = copies_into(module, "vta.inp")
    assert path_of(weights) == 0
    assert path_of(inputs) > 0
    assert weights.pad is None
    assert inputs.pad is not None


def test_inputs_that_stay_are_loaded_once_for_all_outputs() -> None:
    net = Net((1, 512))
    weights = np.ones((512, 1000), np.int8)
    result = net.composite(
        "Dense_0",
        net.inputs,
        lambda body, x: body.clip(
            body.elementwise([body.dense(x, weights)], lambda a: a.clamp(-128, 127).to(i8), i8),
            -5,
            5,
        ),
    )
    module = apply(net.module(result), *BEFORE, VtaTilePass, VtaStagePass)
    (inputs,) = copies_into(module, "vta.inp")
    (kernel,) = copies_into(module, "vta.wgt")
    assert path_of(inputs) == 0
    assert path_of(kernel) == 1


def test_a_bias_is_loaded_before_what_the_product_of_its_tile_gives_back() -> None:
    net = Net((1, 512))
    weights, bias = np.ones((512, 1000), np.int8), np.arange(1000, dtype=np.int32)
    result = net.composite(
        "Dense_0",
        net.inputs,
        lambda body, x: body.elementwise(
            [body.bias(body.dense(x, weights), bias)], lambda a: a.clamp(-128, 127).to(i8), i8
        ),
    )
    module = apply(net.module(result), *BEFORE, VtaTilePass, VtaStagePass)
    (kernel,) = copies_into(module, "vta.wgt")
    (numbers,) = copies_into(module, "vta.acc")
    assert kernel.parent is numbers.parent
    assert path_of(numbers) == 1
    assert numbers.is_before_in_block(kernel)


def test_unrolled_tiles_have_buffers_of_their_own() -> None:
    net = Net((1, 16, 12, 12))
    result = net.composite("Pool_0", net.inputs, lambda body, x: body.pool(x, "max", (3, 3), 1, 1))
    module = apply(net.module(result), *BEFORE)
    tile(module, VTAConfig(log_acc_buff_size=13))
    apply(module, VtaStagePass)
    assert_locations(module)
    (composite,) = composites_of(module)
    assert not [op for op in composite.body.block.ops if isinstance(op, AllocOp)]
    guarded = [op for op in composite.walk() if isinstance(op, BlockOp) and op.where is not None]
    pools = [op for op in composite.walk() if isinstance(op, BlockOp) and op.reductions]
    assert guarded
    assert len(pools) > 1


def test_negative_strides_of_an_index_are_staged_from_their_low_end() -> None:
    """A reversed kernel reads x[h - r + 2]: the box begins two rows further up."""
    net = Net((1, 4, 9))
    weights = np.random.default_rng(0).integers(-9, 9, (4, 4, 3)).astype(np.int8)

    def make(body, x):
        acc = body.conv(x, weights)
        block = acc.owner
        maps = list(block.maps.data)
        r = maps[0].data.results[2].used_dims()
        flipped = maps[0].data.from_callable(lambda n, o, h, c, r: (n, c, h + r * -1 + 2))
        block.properties["maps"] = type(block.maps)([type(maps[0])(flipped), *maps[1:]])
        assert len(r) == 2
        return body.elementwise([acc], lambda a: (a >> 3).clamp(-128, 127).to(i8), i8)

    module = net.module(net.composite("Conv_0", net.inputs, make))
    inputs = [np.random.default_rng(1).integers(-128, 128, (1, 4, 9)).astype(np.int8)]
    expected = evaluate(module, inputs)
    apply(module, *BEFORE)
    tile(module, VTAConfig(log_inp_buff_size=7))
    apply(module, VtaStagePass)
    assert_same(evaluate(module, inputs), expected)


def test_refuses_blocks_that_are_not_tiled() -> None:
    module = apply(conv_net(3, 5, 2, 1, 1, 0), *BEFORE)
    with pytest.raises(ByocirError, match="B328") as caught:
        VtaStagePass().apply(None, module)
    assert "node Conv_0" in caught.value.where

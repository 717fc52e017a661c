"""vta-tile: the same results, in tiles that fit VTA's memories twice."""

from __future__ import annotations

import numpy as np
import pytest
from vta_programs import Net, Scale, apply, assert_same, evaluate
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.byoc import composites_in
from byocir.dialects.tir import BlockOp, ForOp, LoopKind
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.bufferize import VtaBufferizePass
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.pack import VtaPackPass
from byocir.lowering.tir_to_vta.tile import VtaTilePass, tile_function
from byocir.lowering.tir_to_vta.tile_nest import CompositeNest, nest_of
from byocir.lowering.tir_to_vta.tile_search import best_tiles
from byocir.vta_sim import Memory, VTAConfig

BEFORE = (VtaLegalisePass, VtaPackPass, VtaBufferizePass)

CONFIGS = [
    VTAConfig(),
    VTAConfig(log_inp_buff_size=9, log_wgt_buff_size=14, log_acc_buff_size=11),
    VTAConfig(log_inp_buff_size=8, log_wgt_buff_size=12, log_acc_buff_size=11),
    VTAConfig(log_inp_buff_size=6, log_wgt_buff_size=11, log_acc_buff_size=11),
]
"""From the default down to a few elements, so that every dimension gets a loop."""


def tile(module: ModuleOp, config: VTAConfig) -> None:
    for function in vta_functions(module):
        tile_function(function, config)
    verify_module(module)


def conv_net(channels: int, outputs: int, size: int, kernel: int, stride: int, pad: int):
    net = Net((1, channels, size, size))
    weights = np.ones((outputs, channels, kernel, kernel), np.int8)
    scale = Scale(np.array(12_345, np.int32), 23)
    result = net.composite(
        "Conv_0",
        net.inputs,
        lambda body, x: body.requantise(body.conv(x, weights, stride, pad), scale),
    )
    return net.module(result)


def nest_in(module: ModuleOp) -> CompositeNest:
    (function,) = vta_functions(module)
    (composite,) = composites_in(function)
    return nest_of(composite, VTAConfig())


RESNET = {
    "stem": (3, 64, 224, 7, 2, 3),
    "C2": (64, 64, 56, 3, 1, 1),
    "C3": (64, 128, 56, 3, 2, 1),
    "C4": (64, 128, 56, 1, 2, 0),
    "C8": (256, 256, 14, 3, 1, 1),
    "C11": (512, 512, 7, 3, 1, 1),
}


def window(tiles: int, kernel: int, stride: int) -> int:
    return (tiles - 1) * stride + kernel


@pytest.mark.parametrize("layer", RESNET.values(), ids=RESNET)
def test_resnet_tiles_fit_twice(layer: tuple[int, ...]) -> None:
    channels, _, _, kernel, stride, _ = layer
    nest = nest_in(apply(conv_net(*layer), *BEFORE))
    _, o, h, w, _, c, r, s, _ = best_tiles(nest, VTAConfig())
    assert (r, s) == (kernel, kernel)
    assert -(-channels // 16) % c == 0
    assert 2 * c * window(h, kernel, stride) * window(w, kernel, stride) <= 2048
    assert 2 * o * c * r * s <= 1024
    assert 2 * o * h * w <= 2048
    counts = [-(-e // t) for e, t in zip(nest.extents, (1, o, h, w, 16, c, r, s, 16), strict=True)]
    assert np.prod(counts) > 1  # something to load while something is computed


def test_the_estimate_prefers_less_traffic() -> None:
    """Weights that fit are loaded once: no loop over input channels inside one over rows."""
    nest = nest_in(apply(conv_net(16, 16, 56, 3, 1, 1), *BEFORE))
    _, o, h, w, *_ = best_tiles(nest, VTAConfig())
    assert (o, h * w > 56) == (1, True)


def loops_of(module: ModuleOp) -> list[ForOp]:
    return [op for f in vta_functions(module) for op in f.walk() if isinstance(op, ForOp)]


def test_remainders_begin_earlier() -> None:
    module = apply(conv_net(16, 16, 7, 1, 1, 0), *BEFORE)
    tile(module, VTAConfig(log_inp_buff_size=9, log_acc_buff_size=13))
    text = str(module)
    image = np.random.default_rng(0).integers(-128, 128, (1, 16, 7, 7)).astype(np.int8)
    assert "arith.minsi" in text
    expected = evaluate(conv_net(16, 16, 7, 1, 1, 0), [image])
    assert_same(evaluate(module, [image]), expected)


def test_input_channels_are_cut_evenly() -> None:
    module = apply(conv_net(96, 16, 4, 1, 1, 0), *BEFORE)
    tile(module, VTAConfig(log_wgt_buff_size=11))  # eight blocks of weights
    reducing = [
        op
        for f in vta_functions(module)
        for op in f.walk()
        if isinstance(op, BlockOp) and op.reductions
    ]
    (block,) = reducing
    assert block.extents[5] in (1, 2, 3)
    assert loops_of(module)[-1].extent.value.data * block.extents[5] == 6


def test_one_tile_needs_no_loops() -> None:
    module = apply(conv_net(3, 5, 2, 1, 1, 0), *BEFORE, VtaTilePass)
    assert not loops_of(module)


def test_guarded_tiles_are_unrolled() -> None:
    net = Net((1, 16, 12, 12))
    result = net.composite("Pool_0", net.inputs, lambda body, x: body.pool(x, "max", (3, 3), 1, 1))
    module = apply(net.module(result), *BEFORE)
    tile(module, VTAConfig(log_acc_buff_size=13))
    kinds = {loop.kind.data for loop in loops_of(module)}
    assert kinds == {LoopKind.UNROLL}
    assert all(loop.extent.value.data == 1 for loop in loops_of(module))


def test_names_what_does_not_fit() -> None:
    module = apply(conv_net(16, 16, 4, 3, 1, 1), *BEFORE)
    small = VTAConfig(log_acc_buff_size=6)
    assert small.depth(Memory.ACC) == 1
    (function,) = vta_functions(module)
    with pytest.raises(ByocirError) as caught:
        tile_function(function, small)
    assert caught.value.code == "B326"
    assert "ACC 1 elements" in caught.value.message
    assert "node Conv_0" in caught.value.where

"""vta-legalise: the same results, in VTA's operations alone."""

from __future__ import annotations

import numpy as np
import pytest
from vta_programs import (
    Net,
    P,
    R,
    Scale,
    apply,
    assert_same,
    d,
    evaluate,
)
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.byoc import composites_in
from byocir.dialects.locations import named
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    FillOp,
    IteratorAttr,
)
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.scalar import emit_body
from byocir.dialects.types import element_type_of, i8, i32, i64
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.legalise_lanes import (
    Constant,
    is_immediate,
)

ALU = (*(arith.AddiOp, arith.MuliOp, arith.MaxSIOp, arith.MinSIOp), arith.ShRSIOp, arith.ShLIOp)


def blocks_of(module: ModuleOp) -> list[BlockOp]:
    composites = [c for f in vta_functions(module) for c in composites_in(f)]
    return [op for c in composites for op in c.body.block.ops if isinstance(op, BlockOp)]


def assert_vta_form(module: ModuleOp) -> None:
    for function in vta_functions(module):
        for composite in composites_in(function):
            *ops, last = composite.body.block.ops
            assert all(isinstance(op, ConstantOp | FillOp | EmptyOp | BlockOp) for op in ops)
            for value in last.operands:
                narrowing = value.owner
                assert isinstance(narrowing, BlockOp)
                assert isinstance(narrowing.body.block.first_op, arith.TruncIOp)
    for op in blocks_of(module):
        scalars = [type(inner) for inner in op.body.block.ops][:-1]
        if op.reductions:
            continue
        if len(scalars) == 1 and scalars[0] in (arith.ExtSIOp, arith.TruncIOp):
            continue
        if scalars == [arith.ExtSIOp, arith.ConstantOp, arith.MuliOp, arith.AddiOp]:
            assert [element_type_of(value.type) for value in op.ins] == [i8]
            continue
        *numbers, step = scalars
        assert step in ALU
        assert numbers in ([], [arith.ConstantOp])
        assert len(op.ins) == 1 - len(numbers)


def test_immediates_have_sixteen_bits() -> None:
    fits = [is_immediate(Constant.uniform(n, 2)) for n in (-32769, -32768, 32767, 32768)]
    assert fits == [False, True, True, False]


# What is left out.


WEIGHTS = np.random.default_rng(1).integers(-128, 128, (6, 4, 3, 3)).astype(np.int8)


def conv_net(
    scale: Scale,
    bias: np.ndarray | None = None,
    relu: bool = True,
    weights: np.ndarray = WEIGHTS,
) -> ModuleOp:
    net = Net((1, 4, 5, 5))

    def make(body, x):
        acc = body.conv(x, weights, 1, 1)
        acc = acc if bias is None else body.bias(acc, bias)
        return body.requantise(body.relu(acc) if relu else acc, scale)

    return net.module(net.composite("Conv_0", net.inputs, make))


def alu_steps(module: ModuleOp) -> list[str]:
    """The operations of the chain, with "i" where the operand is an immediate."""
    steps = []
    for op in blocks_of(module):
        scalars = list(op.body.block.ops)[:-1]
        if not op.reductions and isinstance(scalars[-1], ALU):
            steps.append(scalars[-1].name.split(".")[1] + ("" if op.ins else " i"))
    return steps


def test_power_of_two_needs_no_multiplication() -> None:
    module = apply(conv_net(Scale(np.array(1, np.int32), 9)), VtaLegalisePass)
    assert alu_steps(module) == ["maxsi i", "addi i", "shrsi i", "minsi i"]


def test_full_precision_clamps_before_it_multiplies() -> None:
    multipliers = np.array([9000, 12345, 8000, 700, 1, 20000], np.int32).reshape(6, 1, 1)
    module = apply(conv_net(Scale(multipliers, 23)), VtaLegalisePass)
    steps = ["maxsi i", "minsi", "muli", "shrsi i", "addi i", "shrsi i"]
    assert alu_steps(module) == steps


def test_products_that_each_channel_keeps_in_i32_are_not_clamped() -> None:
    """Of a channel of small weights the multiplier may be large, and the other way round."""
    divisors = np.array([1, 60, 2, 9, 127, 1])
    weights = (WEIGHTS / divisors.reshape(6, 1, 1, 1)).astype(np.int8)
    multipliers = (3000 * divisors).astype(np.int32).reshape(6, 1, 1)
    bias = np.array([70000, -1000, 30000, 7, -500, -80000], np.int32)
    module = apply(conv_net(Scale(multipliers, 22), bias, weights=weights), VtaLegalisePass)
    assert alu_steps(module) == ["muli", "addi", "shrsi i", "maxsi i", "minsi i"]


def test_half_even_adds_less_to_even_quotients() -> None:
    scale = Scale(np.array(1, np.int32), 9, "half_even")
    module = apply(conv_net(scale, relu=False), VtaLegalisePass)
    even = ["addi i", "shli i", "shrsi i"]
    assert alu_steps(module) == [*even, "addi i", "addi", "shrsi i", "maxsi i", "minsi i"]


def test_clip_after_requantise_needs_no_steps_of_its_own() -> None:
    net = Net((1, 4))
    weights = np.full((4, 3), 5, np.int8)
    scale = Scale(np.array(1, np.int32), 4)
    result = net.composite(
        "Dense_0",
        net.inputs,
        lambda body, x: body.clip(body.requantise(body.dense(x, weights), scale), 0, 20),
    )
    module = apply(net.module(result), VtaLegalisePass)
    assert alu_steps(module) == ["addi i", "shrsi i", "maxsi i", "minsi i"]


def pool_net(relu: bool) -> ModuleOp:
    net = Net((1, 3, 6, 6))
    value = net.inputs[0]
    if relu:
        value = net.composite("Relu_0", [value], lambda body, x: body.relu(x))
    pooled = net.composite("Pool_1", [value], lambda body, x: body.pool(x, "max", (3, 3), 2, 1))
    return net.module(pooled)


def test_max_pool_of_a_relu_pads_with_zero() -> None:
    (pool,) = [op for op in blocks_of(apply(pool_net(True), VtaLegalisePass)) if op.reductions]
    assert pool.where is None
    assert list(pool.pads) == [IntegerAttr(0, i8)]


def test_other_max_pools_leave_out_what_is_outside_which_may_be_the_least_number() -> None:
    (pool,) = [op for op in blocks_of(apply(pool_net(False), VtaLegalisePass)) if op.reductions]
    assert pool.where is not None
    assert len(pool.where.data.results) == 2  # the bottom and the right end inside
    assert list(pool.pads) == [IntegerAttr(-128, i8)]


def test_constants_from_outside_move_in() -> None:
    net = Net((1, 4))
    weights = ConstantOp.of(Array.of(np.full((4, 3), 2, np.int8)), location=named("weights"))
    net.block.add_op(weights)

    def make(body, x, w):
        acc = body.dense(x, np.zeros((4, 3), np.int8))
        acc.owner.operands[1] = w
        return body.requantise(acc, Scale(np.array(1, np.int32), 2))

    module = net.module(net.composite("Dense_0", [net.inputs[0], weights.result], make))
    expected = evaluate(module, [np.arange(4, dtype=np.int8).reshape(1, 4)])
    apply(module, VtaLegalisePass)
    (function,) = vta_functions(module)
    assert [op.name for op in function.body.block.ops] == ["byoc.composite", "func.return"]
    assert_same(evaluate(module, [np.arange(4, dtype=np.int8).reshape(1, 4)]), expected)


@pytest.mark.parametrize("channels", [(3, 4), (1, 1), (1, 4), (3, 1)])
def test_iterators_in_any_order_and_lost_unit_ones(channels: tuple[int, int]) -> None:
    """A convolution as another program may write it: [o, w, h | s, r, c], batch index 0."""
    inner, outer = channels
    net = Net((1, inner, 4, 5))
    weights = np.random.default_rng(0).integers(-9, 9, (outer, inner, 2, 3)).astype(np.int8)

    def make(body, x):
        kinds = [("o", P, outer), ("w", P, 3), ("h", P, 3), ("s", R, 3), ("r", R, 2)]
        iterators = [IteratorAttr.of(*kind) for kind in (*kinds, ("c", R, inner))]
        zero = AffineExpr.constant(0)
        o, c = (d(0) if outer > 1 else zero), (d(5) if inner > 1 else zero)
        maps = [
            AffineMap(6, 0, (o, c, d(4), d(3))),
            AffineMap(6, 0, (zero, c, d(2) + d(4), d(1) + d(3))),
            AffineMap(6, 0, (zero, o, d(2), d(1))),
        ]

        def product(w, x, acc):
            return multiply_accumulate(x, w, acc, to=i32)

        start = body.fill(0, (1, outer, 3, 3))
        region = emit_body([i8, i8, i32], product)
        acc = body.add(BlockOp(iterators, [body.constant(weights), x], [start], maps, region))
        return body.requantise(acc, Scale(np.array(1, np.int32), 3))

    module = net.module(net.composite("Conv_0", net.inputs, make))
    image = np.random.default_rng(2).integers(-128, 128, (1, inner, 4, 5)).astype(np.int8)
    expected = evaluate(module, [image])
    apply(module, VtaLegalisePass)
    (conv,) = [op for op in blocks_of(module) if op.reductions]
    assert conv.parallels == [0, 1, 2, 3]
    assert_same(evaluate(module, [image]), expected)


# Errors.


def refused(net: Net, make, inputs=None) -> ByocirError:
    module = net.module(net.composite("Node_7", inputs or net.inputs, make))
    with pytest.raises(ByocirError) as caught:
        VtaLegalisePass().apply(None, module)
    assert "node Node_7" in caught.value.where
    assert "composite vta.Node_7" in caught.value.where
    return caught.value


def test_refuses_other_scalar_ops() -> None:
    error = refused(
        Net((1, 4)),
        lambda body, x: body.elementwise(
            [x], lambda a: (a.to(i32) - a.to(i32)).clamp(-9, 9).to(i8), i8
        ),
    )
    assert error.code == "B321"
    assert "found arith.subi on i32, i32, i32" in error.message


def test_refuses_sums_that_wrap_in_eight_bits() -> None:
    error = refused(Net((1, 4)), lambda body, x: body.elementwise([x], lambda a: a + a, i8))
    assert error.code == "B321"
    assert "arith.addi" in error.message


def test_refuses_groups_that_do_not_fill_blocks() -> None:
    def make(body, x):
        extents = [("n", P, 1), ("g", P, 2), ("o", P, 3), ("h", P, 3), ("c", R, 2), ("r", R, 2)]
        out = d(1) * 3 + d(2)
        maps = [
            AffineMap(6, 0, (d(0), d(1) * 2 + d(4), d(3) + d(5))),
            AffineMap(6, 0, (out, d(4), d(5))),
            AffineMap(6, 0, (d(0), out, d(3))),
        ]
        w = body.constant(np.ones((6, 2, 2), np.int8))
        region = emit_body([i8, i8, i32], lambda a, b, c: multiply_accumulate(a, b, c, to=i32))
        iterators = [IteratorAttr.of(*extent) for extent in extents]
        block = BlockOp(iterators, [x, w], [body.fill(0, (1, 6, 3))], maps, region)
        return body.requantise(body.add(block), Scale(np.array(1, np.int32), 2))

    error = refused(Net((1, 4, 4)), make)
    assert error.code == "B322"
    assert "one parallel iterator per dimension" in error.message


def test_refuses_other_reductions() -> None:
    net = Net((1, 4, 4, 4))
    module = net.module(
        net.composite("Node_7", net.inputs, lambda body, x: body.pool(x, "max", (2, 2)))
    )
    (pool,) = blocks_of(module)
    pool.body.block.insert_op_before(
        minimum := arith.MinSIOp(*pool.body.block.args), pool.body.block.first_op
    )
    pool.body.block.last_op.operands[0] = minimum.result
    with pytest.raises(ByocirError, match="B322"):
        VtaLegalisePass().apply(None, module)


def test_refuses_numbers_beyond_32_bits() -> None:
    weights = np.full((4, 3), 100, np.int8)
    scale = Scale(np.array(2**30 + 1, np.int32), 40)
    error = refused(Net((1, 4)), lambda body, x: body.requantise(body.dense(x, weights), scale))
    assert error.code == "B323"


def test_refuses_results_that_are_not_bytes() -> None:
    error = refused(Net((1, 4)), lambda body, x: body.elementwise([x], lambda a: a.to(i64), i64))
    assert error.code == "B320"


def test_refuses_views_that_move_channels() -> None:
    def make(body, x):
        map_ = AffineMap(2, 0, (d(0), d(1) // 4, d(1) % 4))
        return body.elementwise([x], lambda a: a, i8, [map_], (1, 12))

    error = refused(Net((1, 3, 4)), make)
    assert error.code == "B320"
    assert "views" in error.message

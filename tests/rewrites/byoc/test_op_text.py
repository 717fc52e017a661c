"""Ops as keys of measured costs: what changes their time tells them apart, nothing else."""

import pytest

from byocir.dialects.text import parse_module
from byocir.rewrites.byoc.costs import work_of


def work(op, arguments):
    """The work of the last op before the return of a function of these arguments."""
    names = ", ".join(f"%{chr(97 + i)}: {type_}" for i, type_ in enumerate(arguments))
    module = parse_module(f"func.func @main({names}) {{\n{op}\nfunc.return\n}}")
    *_, found, _ = next(iter(module.body.block.ops)).body.block.ops
    return work_of("npu.op", [found])


def conv(dilation, pad, group=1):
    inner = 8 // group
    weights = f"tensor<8x{inner}x3x3xf32>"
    return work(
        f"%y = graph.conv %a, %b {{dilations = array<i64: {dilation}, {dilation}>, "
        f"pads = array<i64: {pad}, {pad}, {pad}, {pad}>, strides = array<i64: 1, 1>, "
        f"group = {group} : i64}} : (tensor<1x8x9x9xf32>, {weights}) -> tensor<1x8x9x9xf32>",
        ["tensor<1x8x9x9xf32>", weights],
    )


def test_attributes_of_one_result_type_tell_ops_apart():
    assert conv(1, 1) != conv(2, 2)
    assert conv(1, 1) == conv(1, 1)
    assert conv(1, 1, 2)[1] == (
        "graph.conv {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 1, 1, 1, 1>,"
        " strides = array<i64: 1, 1>} (tensor<1x8x9x9xf32>, tensor<8x4x3x3xf32>)"
        " -> tensor<1x8x9x9xf32>",
    )


def requantize(shift=3, ties="half_up"):
    return work(
        f"%y = graph.requantize %a, %b {{rounding = #graph.fixed<shift = {shift}, {ties}>, "
        "to = i8, zero_point = 0 : i64} : "
        "(tensor<4xi32>, tensor<i32>) -> tensor<4xi8>",
        ["tensor<4xi32>", "tensor<i32>"],
    )


def test_numbers_of_a_quantisation_do_not():
    assert requantize() == requantize(shift=9)
    assert "zero_point" not in requantize()[1][0]
    assert requantize() != requantize(ties="half_even")


def leaky(alpha):
    return work(
        f"%y = graph.leaky_relu %a {{alpha = {alpha} : f32}} : (tensor<4xf32>) -> tensor<4xf32>",
        ["tensor<4xf32>"],
    )


def test_floats_do_not():
    assert leaky(0.5) == leaky(0.25)


def block(name="i", extent=4, index="{}", pad="", op="arith.addi", number=1, where=""):
    return work(
        "%e = tir.empty : tensor<4xi32>\n"
        f"%y = tir.block [{name}: {extent}] ins(%a[{index.format(name)}]{pad} : tensor<4xi32>) "
        f"outs(%e[{name}] : tensor<4xi32>){where.format(name)} {{\n^bb0(%x: i32, %old: i32):\n"
        f"%c = arith.constant {number} : i32\n%s = {op} %x, %c : i32\ntir.yield %s : i32\n}}",
        ["tensor<4xi32>"],
    )


@pytest.mark.parametrize(
    "changes", [{"name": "j"}, {"number": 7}, {"name": "other", "number": -1}], ids=str
)
def test_names_and_numbers_of_blocks_do_not(changes):
    assert block() == block(**changes)


@pytest.mark.parametrize(
    "changes",
    [{"extent": 3}, {"index": "3 - {}"}, {"op": "arith.muli"}, {"pad": " pad 0 : i32"}],
    ids=str,
)
def test_space_accesses_and_ops_of_blocks_tell_them_apart(changes):
    assert block() != block(**changes)

"""Whole patterns as a target's author writes them, at both levels."""

from __future__ import annotations

import pytest
from block_programs import Conv, Read, Spec, at, matmul, product
from block_programs import attempt as attempt_block
from pattern_programs import by_name, module_of

from byocir.dialects.types import i32
from byocir.patterns import (
    Composite,
    block,
    composite,
    constant,
    grouped,
    op,
    optional,
    optional_operand,
    supports,
    wildcard,
)
from byocir.rewrites.byoc.extract import extract_composite


def conv_relu() -> Composite:
    @composite("npu.conv_relu")
    def made():
        x, w, b = wildcard("x"), constant("w"), constant("b")
        y = op("graph.conv", x, w, optional_operand(b), group=1) @ "conv"
        return optional(y, lambda v: op("graph.relu", v))

    @made.rule
    def channels_fill_a_block(m):
        """Input channels are a multiple of 16."""
        seen = m["w"].type.shape[1]
        return seen % 16 == 0, seen

    return made


def convolution(channels: int = 16, group: int = 1, *, bias: bool = True, relu: bool = True):
    """A 1x1 convolution to two channels, and what follows."""
    image, result = f"tensor<1x{channels}x4x4xf32>", "tensor<1x2x4x4xf32>"
    weights = f"tensor<2x{channels // group}x1x1xf32>"
    numbers = ", ".join(["1.0"] * (2 * channels // group))
    types = [image, weights, *["tensor<2xf32>"][: int(bias)]]
    lines = [
        f"%w = graph.constant #graph.array<[{numbers}] : {weights}>",
        "%b = graph.constant #graph.array<[1.0, 2.0] : tensor<2xf32>>",
        f"%c = graph.conv %x, %w{', %b' if bias else ''} {{strides = array<i64: 1, 1>, "
        "pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, "
        f'group = {group} : i64}} : ({", ".join(types)}) -> {result} loc("conv")',
        f'%r = graph.relu %c : ({result}) -> {result} loc("relu")',
        f"func.return %{'r' if relu else 'c'} : {result}",
    ]
    return module_of("\n".join(lines), inputs=f"%x: {image}", result=result)


@pytest.mark.parametrize("relu", [True, False], ids=["relu", "bare"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_convolution_with_optional_bias_and_relu(bias: bool, relu: bool):
    module = convolution(bias=bias, relu=relu)
    found = conv_relu().attempt(by_name(module)["r" if relu else "c"])
    assert found.fits
    assert len(found.matched) == 1 + relu
    assert ("b" in found.match) == bias
    assert found.match["conv"].attrs["group"] == 1


def test_the_rule_is_told_with_what_was_seen():
    found = conv_relu().attempt(by_name(convolution(8))["r"])
    assert (found.fits, found.reason, len(found.matched)) == (False, "1 of 1 rules fail", 2)
    (rule,) = found.rules
    assert (rule.sentence, rule.holds, rule.seen) == (
        "Input channels are a multiple of 16",
        False,
        "8",
    )


def test_an_attribute_that_differs_is_told():
    found = conv_relu().attempt(by_name(convolution(32, group=2))["r"])
    assert found.reason == "expected graph.conv with group 1, found 2"
    assert len(found.matched) == 2


def gemm() -> Composite:
    @composite("npu.gemm")
    def made():
        a, b = wildcard("a"), wildcard("b")
        return block("m n | k", a["m k"], b["n k"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))

    return made


def test_gemm_at_the_tensor_level():
    made = gemm()
    assert (made.level, made.root_names) == ("tensor", {"tir.block"})
    root = matmul(order="knm", swap=(1, 0)).module()[1]
    found = made.attempt(root)
    assert found.fits
    assert (found.match["a"].type.shape, found.match["b"].type.shape) == ((3, 5), (4, 5))


def any_convolution() -> Composite:
    @composite("npu.conv")
    def made():
        x, k = wildcard("x"), wildcard("k")
        image = x["n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)"].padded(0)
        return block(
            "n o h w | c r s",
            image,
            k["o c r s"],
            lambda acc, x, y: acc + x.to(i32) * y.to(i32),
        )

    @made.rule
    def strides_are_equal(m):
        """Both strides are equal."""
        return m["sh"] == m["sw"], (m["sh"], m["sw"])

    return made


def test_one_pattern_is_every_convolution_and_its_unknowns_are_read_by_rules():
    sizes = {"n": 1, "o": 2, "c": 3, "h": 4, "w": 5, "r": 3, "s": 2}
    strided = Conv(sizes, strides=(2, 2), dilations=(1, 3), pads=(1, 0))
    found = any_convolution().attempt(strided.spec(order="srcwhon").module()[1])
    assert found.fits
    unknowns = ("sh", "sw", "dh", "dw", "ph", "pw")
    assert [found.match[name] for name in unknowns] == [2, 2, 1, 3, 1, 0]
    found = any_convolution().attempt(Conv(sizes, strides=(2, 1)).spec().module()[1])
    assert (found.reason, found.rules[0].seen) == ("1 of 1 rules fail", "(2, 1)")


def test_grouped_stands_for_one_or_more_iterators():
    """A 1x1 convolution and a matrix product are one contraction."""

    @composite("npu.pointwise")
    def pointwise():
        a, b, m = wildcard("a"), wildcard("b"), grouped("m")
        return block(
            f"{m} n | k",
            a[f"{m} k"],
            b["n k"],
            lambda acc, x, y: acc + x.to(i32) * y.to(i32),
        )

    unit = {"n": 2, "o": 3, "c": 4, "h": 5, "w": 6, "r": 1, "s": 1}
    assert pointwise.attempt(matmul().module()[1]).fits
    assert pointwise.attempt(Conv(unit).spec().module()[1]).fits
    assert not pointwise.attempt(Conv({**unit, "r": 2}).spec().module()[1]).fits


def test_alternatives_of_one_composite_at_the_tensor_level():
    """The first that fits is taken; their names are their own."""

    @composite("npu.step")
    def step():
        x, y = wildcard("x"), wildcard("y")
        total = block("*i", x["*i"], y["*i"], lambda acc, a, b: a + b)
        return total, block("*i", wildcard("z")["*i"], lambda acc, a: a.max(0))

    i = at("i")
    total = Spec({"i": 3}, {}, [Read(i, i32), Read(i, i32)], i, lambda acc, a, b: a + b, init=None)
    bound = Spec({"i": 3}, {}, [Read(i, i32)], i, lambda acc, a: a.max(0), init=None)
    assert set(attempt_block(total, *step.patterns).match) == {"x", "y"}
    assert set(attempt_block(bound, *step.patterns).match) == {"z"}


def test_supports_is_called_as_its_function_by_the_target_that_lists_it():
    @supports("graph.conv")
    def convolution_of_few_channels(m):
        """There are at most 8 channels."""
        seen = m["op"].op.operands[0].type.get_shape()[1]
        return seen <= 8, seen

    for target in ("npu", "dsp"):
        named = convolution_of_few_channels.of_target(target)
        assert named.name == f"{target}.convolution_of_few_channels"
        assert named is convolution_of_few_channels.of_target(target)
        assert named.attempt(by_name(convolution(8))["c"]).fits
        found = named.attempt(by_name(convolution(16))["c"])
        assert (found.fits, found.rules[0].seen) == (False, "16")


def test_a_name_with_a_target_stays():
    assert conv_relu().of_target("dsp").name == "npu.conv_relu"


def test_a_code_generator_finds_what_the_pattern_bound():
    """The composite's body is matched again: sizes, strides and which iterator is which."""
    made = Composite("npu.conv", (any_conv() @ "conv",))
    module, root = Conv(SIZES, strides=(2, 1), pads=(1, 0)).spec(order="srcwhon").module()
    attempt = made.attempt(root)
    assert attempt.fits
    position = {op: i for i, op in enumerate(root.parent.ops)}
    taken = extract_composite(attempt, position)
    module.verify()
    match = made.matched_in(taken)
    assert match is not None
    assert (match["sh"], match["sw"], match["ph"]) == (2, 1, 1)
    assert match["conv"].extents == SIZES
    assert match["conv"].iterators["o"] == ("srcwhon".index("o"),)
    assert match["conv"].pads == (0, None)
    assert gemm().matched_in(taken) is None


SIZES = {"n": 2, "o": 3, "c": 4, "h": 5, "w": 6, "r": 3, "s": 2}


def any_conv():
    x, k = wildcard("x"), wildcard("k")
    image = x["n c (h*sh + r*dh - ph) (w*sw + s*dw - pw)"].padded(0)
    return block("n o h w | c r s", image, k["o c r s"], product)

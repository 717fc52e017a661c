"""Defines the composites that VTA takes at tensor level, whoever wrote the blocks: contractions,
windows, elementwise chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from byocir.dialects.tir import BlockOp, ConstantOp, bodies
from byocir.dialects.types import Shape, i8, i16, i32, i64, shape_of
from byocir.lowering.tir_to_vta.layout import contraction_roles
from byocir.patterns import (
    Match,
    Pattern,
    ScalarPattern,
    block,
    composite,
    constant,
    number,
    optional,
    wildcard,
    within,
)
from byocir.patterns.nodes import Access
from byocir.patterns.value_tests import ValueTest

S = ScalarPattern

_ROUND_AS_FIX_POINT = (
    "round by half of what the shift divides by, with factors and zero points that fit 32 bits "
    "together, as fix-point chooses them"
)


def _is_tensor(value: SSAValue) -> tuple[bool, str]:
    return isinstance(value.type, TensorType), "one in memory"


_TENSOR = ValueTest("a tensor (raise-scf-to-tir makes tensors of memory)", _is_tensor)


def _input(name: str) -> Pattern:
    """Matches the bytes that the composite is given."""
    return wildcard(name, dtype=i8, where=_TENSOR)


def _each(value: Pattern, body: Callable[[S], S]) -> Pattern:
    """Matches one elementwise step."""
    return block("*i", value["*i"], lambda acc, x: body(x))


def _either(patterns: Iterable[Pattern]) -> Pattern:
    """Matches one of these, the first that fits."""
    return reduce(Pattern.__or__, patterns)


def _bounded(value: Pattern, prefix: str = "") -> Pattern:
    """Matches relu or clip on i8 after requantisation, as one block or two."""
    low, high = number(f"{prefix}low"), number(f"{prefix}high")
    return optional(
        value,
        lambda v: (
            _each(v, lambda x: x.max(low))
            | _each(v, lambda x: x.max(low).min(high))
            | _each(v, lambda x: x.min(high))
        ),
    )


def _rescale(value: Pattern, prefix: str = "") -> Pattern:
    """Matches requantisation to i8 in fixed point, with any rounding, or an exact one with
    shift 0.
    """
    scale = constant(f"{prefix}scale", dtype=i32)
    half, below_half, shift, zero = (
        number(prefix + name) for name in ("half", "below_half", "shift", "zero")
    )

    def half_up(x: S, m: S) -> S:
        return bodies.scale_round(x, m, half, shift)

    def half_even(x: S, m: S) -> S:
        return bodies.scale_round_even(x, m, below_half, shift)

    def floor(x: S, m: S) -> S:
        return bodies.scale_floor(x, m, shift)

    def exact(x: S, m: S) -> S:
        return x.to(i64) * m.to(i64)

    def narrowed(scaled: Callable[[S, S], S], zero: S | None) -> Pattern:
        def body(acc: S, x: S, m: S) -> S:
            total = scaled(x, m) if zero is None else scaled(x, m) + zero
            return bodies.saturate(total, -128, 127)

        return block("*i", value["*i"], scale["~i"], body)

    # Rounded half up, a zero point is part of the number "half".
    kinds = [narrowed(scaled, None) for scaled in (half_up, floor, half_even, exact)]
    return _either([*kinds, *(narrowed(scaled, zero) for scaled in (floor, half_even, exact))])


def _shifted(value: Pattern) -> Pattern:
    """Matches narrowing to i8 without a multiplier: a shift, rounded or not, or none, and a
    clip.
    """

    def rounded(x: S) -> S:
        return x + number("half") >> number("shift")

    def plain(x: S) -> S:
        return x >> number("shift")

    def unscaled(x: S) -> S:
        return x

    def narrowed(scale: Callable[[S], S], low: int) -> Pattern:
        return _each(value, lambda x: scale(x).clamp(low, 127).to(i8))

    return _either(
        narrowed(scale, low) for low in (-128, -127, 0) for scale in (rounded, plain, unscaled)
    )


def _biased(value: Pattern, prefix: str = "") -> Pattern:
    """Matches the addition of a constant to each element."""
    return block("*i", value["*i"], constant(f"{prefix}b")["~i"], lambda acc, x, b: x + b)


def _epilogue(value: Pattern) -> Pattern:
    """Matches optional bias, optional relu, requantisation or a shift, and optional bounds."""
    total = _biased_relu(value)
    return _bounded(_rescale(total)) | _shifted(total)


def _requantised(value: Pattern, prefix: str = "") -> Pattern:
    """Matches optional bias, optional relu, requantisation, and optional bounds."""
    return _bounded(_rescale(_biased_relu(value, prefix), prefix), prefix)


def _biased_relu(value: Pattern, prefix: str = "") -> Pattern:
    """Matches optional bias and optional relu."""
    biased = optional(value, lambda v: _biased(v, prefix))
    return optional(biased, lambda v: _each(v, lambda x: x.max(0)))


def _product(acc: S, x: S, w: S) -> S:
    return bodies.multiply_accumulate(x, w, acc, to=i32)


def weights(name: str) -> Pattern:
    """Matches constant weights: bytes, or bytes less their zero points."""
    return constant(name, dtype=i8) | constant(name, dtype=i16, where=within(-255, 255))


def _reads(x: Pattern, index: str, rank: int) -> tuple[Access, Access]:
    """Lists the ways in which windows read an array [N, C, …]: through a copy of a part of it, or
    of it padded with a number, so that windows stay inside; or directly, with a number outside of
    it.
    """
    spaces, moved = (
        ("n c h w", "n c (h - top) (w - left)") if rank == 4 else ("n c h", "n c (h - top)")
    )
    copy = block(spaces, x[moved].padded("surrounding"), lambda acc, e: e)
    return copy[index], x[index].padded("around")


_ROW, _COLUMN = "(h*sh + r*dh - ph)", "(w*sw + s*dw - pw)"


def _conv(spaces: str, x: Pattern, index: str, weight: Access, out: str | None = None) -> Pattern:
    """Matches a convolution of an array in any of the ways to read it."""
    reads = _reads(x, index, 4 if _COLUMN in index else 3)
    made = (block(spaces, read, weight, _product, out=out) for read in reads)
    return _either(each @ "product" for each in made)


def _convs() -> tuple[Pattern, Pattern, Pattern, Pattern]:
    """Makes the patterns of convolutions of two dimensions and of one, without groups and with."""
    x, w = _input("x"), weights("w")
    conv2d = _conv("n o h w | c r s", x, f"n c {_ROW} {_COLUMN}", w["o c r s"])
    conv1d = _conv("n o h | c r", x, f"n c {_ROW}", w["o c r"])
    channel, output = "(g*inputs + c)", "(g*outputs + o)"
    grouped2d = _conv(
        "n g o h w | c r s",
        x,
        f"n {channel} {_ROW} {_COLUMN}",
        w[f"{output} c r s"],
        f"n {output} h w",
    )
    grouped1d = _conv(
        "n g o h | c r", x, f"n {channel} {_ROW}", w[f"{output} c r"], f"n {output} h"
    )
    return conv2d, conv1d, grouped2d, grouped1d


@composite("contraction")
def contraction():
    """A convolution or product of matrices as blocks, with its integer epilogue."""
    x, w = _input("x"), weights("w")
    dense = block("*m n | k", x["*m k"], w["k n"], _product)
    turned = block("*m n | k", x["*m k"], w["n k"], _product)
    y = _input("y")
    batched = block("*b *m n | k", x["*b *m k"], y["*b k n"], _product)
    crossed = block("*b *m n | k", x["*b *m k"], y["*b n k"], _product)
    conv2d, conv1d, grouped2d, grouped1d = _convs()
    products = _either(each @ "product" for each in (dense, turned, batched, crossed))
    families = (conv2d | conv1d, products, grouped2d | grouped1d)
    return tuple(_epilogue(family) for family in families)


def _maximum(spaces: str, read: Access) -> Pattern:
    """Matches a maximum over windows that ignore what is outside of an array."""
    return block(spaces, read.padded(-128), lambda acc, x: acc.max(x), init=-128)


@composite("contraction_pool")
def contraction_pool():
    """A convolution as blocks, requantised, and a maximum over windows of its results."""
    conv2d, conv1d, grouped2d, grouped1d = _convs()
    pools = (
        ("n c h w | r s", "n c (h*psh + r*pdh - pph) (w*psw + s*pdw - ppw)", conv2d | grouped2d),
        ("n c h | r", "n c (h*psh + r*pdh - pph)", conv1d | grouped1d),
    )
    return tuple(
        _bounded(_maximum(spaces, _requantised(conv, "inner_")[index]) @ "pool")
        for spaces, index, conv in pools
    )


def _term(zero: S | None) -> Callable[[S, S, S], S]:
    """Matches a term of a sum on its grid, without its zero point."""

    def body(acc: S, x: S, m: S) -> S:
        scaled = x.to(i64) * m.to(i64)
        total = scaled if zero is None else scaled + zero
        return total.clamp(-(2**31), 2**31 - 1).to(i32)

    return body


def _rescaled(name: str, x: Pattern | None = None) -> Pattern:
    """Matches bytes that are widened to integers: scaled without rounding, their zero point taken
    off.
    """
    x, m = x or _input(name), constant(f"scale_{name}", dtype=i32)
    zero = number(f"zero_{name}")
    scaled = [block("*i", x["*i"], m["~i"], _term(offset)) for offset in (None, zero)]
    return _either([*scaled, _each(x, lambda e: e.to(i32) + zero)])


@composite("contraction_add")
def contraction_add():
    """A convolution as blocks, requantised, and the sum of its results and another array,
    requantised."""
    b = _rescaled("b")["*i"]

    def total(conv: Pattern) -> Pattern:
        a = _rescaled("a", _requantised(conv, "inner_"))
        return block("*i", a["*i"], b, lambda acc, x, y: x + y)

    sums = (optional(total(conv), lambda v: _each(v, lambda e: e.max(0))) for conv in _convs())
    return tuple(_bounded(_rescale(each)) for each in sums)


def _window(
    body: Callable[[S, S], S], pad: int | str, init: int | None = None
) -> tuple[Pattern, Pattern]:
    x = _input("x")
    made: list[Pattern] = []
    for spaces, index in (("n c h w | r s", f"n c {_ROW} {_COLUMN}"), ("n c h | r", f"n c {_ROW}")):
        rank = 4 if _COLUMN in index else 3
        reads = _reads(x, index, rank) if isinstance(pad, str) else (x[index].padded(pad),)
        made.append(_either(block(spaces, read, body, init=init) for read in reads))
    return made[0], made[1]


@composite("window_max")
def window_max():
    """A maximum over windows as a block, with bounds."""
    pools = _window(lambda acc, x: acc.max(x), pad=-128, init=-128)
    return tuple(_bounded(pool) for pool in pools)


@composite("window_sum")
def window_sum():
    """A sum over windows as a block, less what a zero point brings, requantised."""
    pools = _window(lambda acc, x: bodies.widen_add(x, acc), pad="around")
    return tuple(_bounded(_rescale(optional(pool, _biased))) for pool in pools)


def _leaky() -> Pattern:
    """Matches a sum of integers and of their minimum with a number, each multiplied by a
    constant.
    """

    def times(value: Pattern, name: str) -> Pattern:
        factor = constant(name, dtype=i32)["~i"]
        return block("*i", value["*i"], factor, lambda acc, x, m: x * m)

    x = _rescaled("a")
    whole, below = times(x, "whole"), times(_each(x, lambda e: e.min(number("most"))), "below")
    return block("*i", whole["*i"], below["*i"], lambda acc, x, y: x + y)


@composite("elementwise")
def elementwise():
    """A sum or product of two arrays, or of one and a constant, a leaky relu, or a chain of steps
    on each element, requantised."""
    a, x = _rescaled("a"), _input("x")
    others = (_rescaled("b")["*i"], constant("b", dtype=i32)["~i"])
    total = _either(block("*i", a["*i"], b, lambda acc, x, y: x + y) for b in others)
    product = _either(block("*i", a["*i"], b, lambda acc, x, y: x * y) for b in others)
    start = optional(x, lambda v: _each(v, lambda e: e.to(i32) + number("offset")))
    return tuple(
        _bounded(_rescale(optional(value, lambda v: _each(v, lambda e: e.max(0)))))
        for value in (total, product, _leaky(), start)
    )


def varies_along_one_at_most(shape: Shape, result: Shape) -> bool:
    """Tells if a constant is one number, or varies along one dimension of a result of this shape,
    to which it broadcasts.
    """
    return len(shape) <= len(result) and sum(size > 1 for size in shape) <= 1


@elementwise.rule(fix="quantise with one scale, or one for each channel")
def one_scale_per_channel(m: Match) -> tuple[bool, Any]:
    """Scales, slopes and other constants are one number or vary along one dimension."""
    names = ("scale", "whole", "below", *(() if _are_computed(m) else ("b",)))
    shapes = [m[name].type.shape for name in names if name in m]
    return all(varies_along_one_at_most(shape, m.result.type.shape) for shape in shapes), shapes


def _are_computed(m: Match) -> bool:
    """Tells if a match has two operands that are computed."""
    return "b" in m and not isinstance(m["b"].value.owner, ConstantOp)


@contraction.rule(fix=_ROUND_AS_FIX_POINT)
@contraction_pool.rule(fix=_ROUND_AS_FIX_POINT)
@contraction_add.rule(fix=_ROUND_AS_FIX_POINT)
@window_sum.rule(fix=_ROUND_AS_FIX_POINT)
@elementwise.rule(fix=_ROUND_AS_FIX_POINT)
def steps_fit_the_alu(m: Match) -> tuple[bool, Any]:
    """VTA's ALU has each step, in 32 bits."""
    # Imported here, as listing targets does not need it.
    from byocir.lowering.tir_to_vta.legalise_verdict import refusal

    found = refusal([op for op in reversed(m.ops) if isinstance(op, BlockOp)])
    return not found, found or "all"


@composite("bound")
def bound():
    """A relu or clip as a block."""
    x = _input("x")
    return (
        _each(x, lambda e: e.max(number("low")).min(number("high")))
        | _each(x, lambda e: e.max(number("low")))
        | _each(x, lambda e: e.min(number("high")))
    )


@composite("view_block", glue=True)
def view_block():
    """A change of shape as a block that moves nothing."""
    x = _input("x")
    return (
        block("n c", x["n c (0) (0)"], lambda acc, e: e),
        block("n c", x["n c (0)"], lambda acc, e: e),
        block("n c h w", x["n c"], lambda acc, e: e),
        block("n c h", x["n c"], lambda acc, e: e),
    )


@view_block.rule(fix="pool or reduce the other dimensions to size 1 before")
def view_block_keeps_channels(m: Match) -> tuple[bool, Any]:
    """Batch and channels stay in place and everything else has size 1."""
    source, result = m["x"].type.shape, shape_of(m.root.results[0].type)
    fits = source[:2] == result[:2] and all(size == 1 for size in (*source[2:], *result[2:]))
    return fits, (source, result)


@contraction.rule(fix="give both a dimension of batches and one of channels")
def input_and_result_are_laid_out_alike(m: Match) -> tuple[bool, Any]:
    """Input and result have one rank, a dimension of channels and another."""
    product = m["product"].block
    shapes = [shape_of(value.type) for value in (*product.ins, *product.outs)]
    return contraction_roles(product) is not None, shapes

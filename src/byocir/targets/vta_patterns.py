"""What VTA takes, at both levels.

At graph level: convolution and dense with bias, relu or clip and requantisation; residual add; max,
average and global average pool; stand-alone requantisation, relu and clip; views of pooled
features. At tensor level: the same computations as blocks, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from byocir.dialects.graph import FixedAttr
from byocir.dialects.tir import bodies
from byocir.dialects.types import i8, i32, i64, shape_of
from byocir.patterns import (
    Composite,
    Match,
    Pattern,
    ScalarPattern,
    block,
    composite,
    constant,
    number,
    op,
    optional,
    optional_operand,
    wildcard,
)

S = ScalarPattern

# Graph level.


def _requantized(value: Pattern) -> Pattern:
    """Requantisation of an accumulator, then relu or clip on the result."""
    scaled = op(
        "graph.requantize", value, constant("scale"), optional_operand(constant("out_scale"))
    )
    return optional(scaled @ "requantize", lambda v: op("graph.relu", v) | op("graph.clip", v))


def _accumulated(value: Pattern) -> Pattern:
    """An accumulator with an optional relu, requantised."""
    return _requantized(optional(value, lambda v: op("graph.relu", v)))


def _is_fixed(m: Match) -> tuple[bool, Any]:
    """Requantisation is in fixed point."""
    rounding = m["requantize"].op.properties["rounding"]
    return isinstance(rounding, FixedAttr), rounding


def _one_scale_per_channel(m: Match) -> tuple[bool, Any]:
    """The scale is one number or one per channel."""
    scale, result = m["scale"].type.shape, m["requantize"].type.shape
    channels = (*result[1:2], *[1] * len(result[2:]))
    return all(size == 1 for size in scale) or scale == channels, scale


@composite("conv")
def conv():
    """A convolution, with bias, relu or clip, requantised."""
    x, w = wildcard("x", dtype=i8), constant("w", dtype=i8)
    acc = op("graph.conv", x, w, optional_operand(constant("b"))) @ "conv"
    return _accumulated(acc)


@conv.rule
def conv_is_not_grouped(m: Match) -> tuple[bool, Any]:
    """The convolution is not grouped."""
    group = m["conv"].attrs["group"]
    return group == 1, group


@conv.rule
def conv_has_one_or_two_dimensions(m: Match) -> tuple[bool, Any]:
    """The convolution has one or two spatial dimensions."""
    dimensions = m["x"].type.rank - 2
    return dimensions in (1, 2), dimensions


@composite("dense")
def dense():
    """A product of matrices, with bias, relu or clip, requantised."""
    x, w = wildcard("x", dtype=i8), constant("w", dtype=i8)
    acc = op("graph.matmul", x, w) @ "matmul"
    return _accumulated(optional(acc, lambda v: op("graph.add", v, constant("b")) @ "add"))


@dense.rule
def dense_is_a_matrix_product(m: Match) -> tuple[bool, Any]:
    """Both factors are matrices."""
    ranks = (m["x"].type.rank, m["w"].type.rank)
    return ranks == (2, 2), ranks


@dense.rule
def dense_bias_is_per_output(m: Match) -> tuple[bool, Any]:
    """The bias is one number per output."""
    if "b" not in m:
        return True, "no bias"
    shape, out = m["b"].type.shape, m["w"].type.shape[-1]
    return shape in ((out,), (1, out)), shape


@composite("add")
def add():
    """A residual add: both terms on one fine grid, relu or clip, requantised."""

    def rescaled(name: str) -> Pattern:
        x, m = wildcard(name, dtype=i8), constant(f"scale_{name}", dtype=i32)
        return op("graph.requantize", x, m) @ f"rescale_{name}"

    return _accumulated(op("graph.add", rescaled("a"), rescaled("b")) @ "add")


@add.rule
def add_does_not_broadcast(m: Match) -> tuple[bool, Any]:
    """Both terms have the same shape."""
    shapes = m["a"].type.shape, m["b"].type.shape
    return shapes[0] == shapes[1], shapes


@add.rule
def add_scales_are_numbers(m: Match) -> tuple[bool, Any]:
    """Each term has one scale."""
    sizes = m["scale_a"].array.size, m["scale_b"].array.size
    return sizes == (1, 1), sizes


@add.rule
def add_terms_are_exact(m: Match) -> tuple[bool, Any]:
    """Terms are scaled without rounding."""
    roundings = [m[name].op.properties["rounding"] for name in ("rescale_a", "rescale_b")]
    exact = [isinstance(r, FixedAttr) and r.shift.data == 0 for r in roundings]
    return all(exact), ", ".join(map(str, roundings))


@composite("max_pool")
def max_pool():
    """A max pool, with relu or clip."""
    pooled = op("graph.max_pool", wildcard("x", dtype=i8)) @ "pool"
    return optional(pooled, lambda v: op("graph.relu", v) | op("graph.clip", v))


@composite("avg_pool")
def avg_pool():
    """A sum over windows, requantised: an average or global average pool."""
    return _requantized(op("graph.sum_pool", wildcard("x", dtype=i8)) @ "pool")


@avg_pool.rule
def avg_pool_scale_broadcasts(m: Match) -> tuple[bool, Any]:
    """The scale is one number, one per channel or one per position."""
    scale, result = m["scale"].type.shape, m["requantize"].type.shape
    channels = (result[1], *[1] * (len(result) - 2))
    return all(s == 1 for s in scale) or scale in (channels, result[2:]), scale


@composite("requantize")
def requantize():
    """A change of scale on its own, with relu or clip."""
    x = wildcard("x", dtype=i8)
    return _requantized(x) | _requantized(op("graph.relu", x))


@composite("relu")
def relu():
    """A relu or clip on its own."""
    x = wildcard("x", dtype=i8)
    return op("graph.relu", x) | op("graph.clip", x)


@composite("view", glue=True)
def view():
    """A change of shape that moves nothing."""
    x = wildcard("x", dtype=i8)
    names = ("graph.reshape", "graph.flatten", "graph.squeeze", "graph.unsqueeze")
    result = op(names[0], x) @ "view"
    for name in names[1:]:
        result = result | op(name, x) @ "view"
    return result


@view.rule
def view_keeps_channels(m: Match) -> tuple[bool, Any]:
    """Batch and channels stay in place and everything else has size 1."""
    shapes = m["x"].type.shape, m["view"].type.shape
    fits = all(len(s) >= 2 and all(size == 1 for size in s[2:]) for s in shapes)
    return fits and shapes[0][:2] == shapes[1][:2], shapes


for _pattern in (conv, dense, add, avg_pool, requantize):
    _pattern.rule(_is_fixed)
for _pattern in (conv, dense, add, requantize):
    _pattern.rule(_one_scale_per_channel)


# Tensor level: the same computations as blocks.


def _each(value: Pattern, body: Callable[[S], S]) -> Pattern:
    """One elementwise step."""
    return block("*i", value["*i"], lambda acc, x: body(x))


def _bounded(value: Pattern) -> Pattern:
    """Relu or clip on i8 after requantisation, as one block or two."""
    return optional(
        value,
        lambda v: (
            _each(v, lambda x: x.max(number("low")))
            | _each(v, lambda x: x.max(number("low")).min(number("high")))
            | _each(v, lambda x: x.min(number("high")))
        ),
    )


def _rescale(value: Pattern) -> Pattern:
    """Requantisation to i8 in fixed point, with either rounding, or exactly for shift 0."""
    scale = constant("scale", dtype=i32)

    def half_up(acc: S, x: S, m: S) -> S:
        scaled = bodies.scale_round(x, m, number("half"), number("shift"))
        return bodies.saturate(scaled, -128, 127)

    def half_even(acc: S, x: S, m: S) -> S:
        scaled = bodies.scale_round_even(x, m, number("below_half"), number("shift"))
        return bodies.saturate(scaled, -128, 127)

    def exact(acc: S, x: S, m: S) -> S:
        return bodies.saturate(x.to(i64) * m.to(i64), -128, 127)

    kinds = [block("*i", value["*i"], scale["~i"], body) for body in (half_up, half_even, exact)]
    return kinds[0] | kinds[1] | kinds[2]


def _epilogue(value: Pattern) -> Pattern:
    """Optional bias, optional relu, requantisation, optional bounds."""
    biased = optional(
        value, lambda v: block("*i", v["*i"], constant("b")["~i"], lambda acc, x, b: x + b)
    )
    return _bounded(_rescale(optional(biased, lambda v: _each(v, lambda x: x.max(0)))))


def _product(acc: S, x: S, w: S) -> S:
    return bodies.multiply_accumulate(x, w, acc, to=i32)


@composite("contraction")
def contraction():
    """A convolution or product of matrices as blocks, with its integer epilogue."""
    x, w = wildcard("x", dtype=i8), constant("w", dtype=i8)
    row, column = "(h*sh + r*dh - ph)", "(w*sw + s*dw - pw)"
    conv2d = block("n o h w | c r s", x[f"n c {row} {column}"].padded(0), w["o c r s"], _product)
    conv1d = block("n o h | c r", x[f"n c {row}"].padded(0), w["o c r"], _product)
    dense = block("m n | k", x["m k"], w["k n"], _product)
    return _epilogue(conv2d), _epilogue(conv1d), _epilogue(dense)


def _window(
    body: Callable[[S, S], S], init: int | None = None, pad: int = 0
) -> tuple[Pattern, Pattern]:
    x = wildcard("x", dtype=i8)
    row, column = "(h*sh + r*dh - ph)", "(w*sw + s*dw - pw)"
    return (
        block("n c h w | r s", x[f"n c {row} {column}"].padded(pad), body, init=init),
        block("n c h | r", x[f"n c {row}"].padded(pad), body, init=init),
    )


@composite("window_max")
def window_max():
    """A maximum over windows as a block, with bounds."""
    pools = _window(lambda acc, x: acc.max(x), init=-128, pad=-128)
    return tuple(_bounded(pool) for pool in pools)


@composite("window_sum")
def window_sum():
    """A sum over windows as a block, requantised."""
    pools = _window(lambda acc, x: bodies.widen_add(x, acc))
    return tuple(_bounded(_rescale(pool)) for pool in pools)


@composite("elementwise")
def elementwise():
    """A residual add or a chain of steps on each element, requantised."""

    def rescaled(name: str) -> Pattern:
        x, m = wildcard(name, dtype=i8), constant(f"scale_{name}", dtype=i32)
        return block(
            "*i",
            x["*i"],
            m["~i"],
            lambda acc, x, m: (x.to(i64) * m.to(i64)).clamp(-(2**31), 2**31 - 1).to(i32),
        )

    total = block("*i", rescaled("a")["*i"], rescaled("b")["*i"], lambda acc, x, y: x + y)
    x = wildcard("x", dtype=i8)
    chain = _bounded(_rescale(optional(x, lambda v: _each(v, lambda e: e.max(0)))))
    return _bounded(_rescale(optional(total, lambda v: _each(v, lambda e: e.max(0))))), chain


@elementwise.rule
def one_scale_per_channel(m: Match) -> tuple[bool, Any]:
    """The scale is one number or one per channel."""
    shape = m["scale"].type.shape
    return sum(size > 1 for size in shape) <= 1, shape


@elementwise.rule
def terms_have_one_shape(m: Match) -> tuple[bool, Any]:
    """Both terms have the same shape."""
    if "b" not in m:
        return True, "one term"
    shapes = m["a"].type.shape, m["b"].type.shape
    return shapes[0] == shapes[1], shapes


@composite("bound")
def bound():
    """A relu or clip as a block."""
    x = wildcard("x", dtype=i8)
    return (
        _each(x, lambda e: e.max(number("low")).min(number("high")))
        | _each(x, lambda e: e.max(number("low")))
        | _each(x, lambda e: e.min(number("high")))
    )


@composite("view_block", glue=True)
def view_block():
    """A change of shape as a block that moves nothing."""
    x = wildcard("x", dtype=i8)
    return (
        block("n c", x["n c (0) (0)"], lambda acc, e: e),
        block("n c", x["n c (0)"], lambda acc, e: e),
        block("n c h w", x["n c"], lambda acc, e: e),
        block("n c h", x["n c"], lambda acc, e: e),
    )


@view_block.rule
def view_block_keeps_channels(m: Match) -> tuple[bool, Any]:
    """Batch and channels stay in place and everything else has size 1."""
    source, result = m["x"].type.shape, shape_of(m.root.results[0].type)
    fits = source[:2] == result[:2] and all(size == 1 for size in (*source[2:], *result[2:]))
    return fits, (source, result)


PATTERNS: tuple[Composite, ...] = (
    conv,
    dense,
    add,
    max_pool,
    avg_pool,
    requantize,
    relu,
    view,
    contraction,
    window_max,
    window_sum,
    elementwise,
    bound,
    view_block,
)
"""In order of priority; the first that fits takes the ops."""


def _has_channels(m: Match) -> tuple[bool, Any]:
    """Tensors have a batch and a channel dimension."""
    shape = m.result.type.shape
    return len(shape) >= 2, shape


def _result_is_i8(m: Match) -> tuple[bool, Any]:
    """The result is i8."""
    element = m.result.type.element
    return element == i8, str(element)


# Where the pattern itself or another rule leaves no other case, a rule would say nothing.
for _pattern in (add, requantize, relu, elementwise, bound):
    _pattern.rule(_has_channels)
for _pattern in (conv, dense, add, avg_pool, requantize):
    _pattern.rule(_result_is_i8)

"""Defines the composites that VTA takes, at both levels.

At graph level: convolution, dense and product of two computed arrays with bias, relu or clip and
requantisation; residual add, product element by element, leaky relu; max, average and global
average pool; stand-alone requantisation, relu and clip; views of pooled features. At tensor level:
the same computations as blocks, whoever wrote them (`vta_blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from xdsl.ir import SSAValue

from byocir.dialects.array import known_values
from byocir.dialects.graph import ConstantOp, FixedAttr, RequantizeOp
from byocir.dialects.types import i8, i32, shape_of
from byocir.patterns import (
    Composite,
    Match,
    Pattern,
    ScalarPattern,
    composite,
    constant,
    op,
    optional,
    optional_operand,
    wildcard,
)
from byocir.patterns.nodes import OptionalOperand
from byocir.patterns.value_tests import ValueTest
from byocir.targets.pads import around_the_image, of_zeros
from byocir.targets.vta_blocks import (
    bound,
    contraction,
    contraction_add,
    contraction_pool,
    elementwise,
    varies_along_one_at_most,
    view_block,
    weights,
    window_max,
    window_sum,
)
from byocir.targets.vta_rules import rules_for
from byocir.vta_sim import DEFAULT_CONFIG, VTAConfig

S = ScalarPattern

# What users can do about rules that fail.
_PER_TENSOR = "quantise it with one scale, per tensor"
_PER_CHANNEL = "quantise weights per tensor or per output channel, and the result per tensor"
_PER_OUTPUT = "quantise weights per tensor or per output, and give each output one bias"
_EXPAND = "expand the smaller operand to the shape of the other"
_FIXED = "let fix-point choose factors and shifts: it runs where a target asks for fixed point"
_POOL_FIRST = "pool or reduce the other dimensions to size 1 before"

# Graph level.


def _bounded(value: Pattern) -> Pattern:
    """Matches bytes with an optional relu or clip."""
    return optional(value, lambda v: op("graph.relu", v) | op("graph.clip", v))


def _requantized(value: Pattern) -> Pattern:
    """Matches the requantisation of an accumulator, then an optional relu or clip."""
    scales = constant("scale"), optional_operand(constant("out_scale"))
    return _bounded(op("graph.requantize", value, *scales) @ "requantize")


def _accumulated(value: Pattern) -> Pattern:
    """Matches an accumulator with an optional relu, requantised."""
    return _requantized(optional(value, lambda v: op("graph.relu", v)))


def _narrowings(m: Match) -> list[RequantizeOp]:
    """Lists the requantises of accumulators to bytes."""
    return [op for op in m.ops if isinstance(op, RequantizeOp) and op.to != i32]


def _is_fixed(m: Match) -> tuple[bool, Any]:
    """Requantisation is in fixed point."""
    found = [op.rounding for op in _narrowings(m)]
    return all(isinstance(rounding, FixedAttr) for rounding in found), _listed(found)


def _one_scale_per_channel(m: Match) -> tuple[bool, Any]:
    """The scale is one number or one for each channel, dimension 1 of the result."""
    shapes = [(shape_of(op.scales[0].type), shape_of(op.result.type)) for op in _narrowings(m)]
    seen = [f"{scale} for a result {result}" for scale, result in shapes]
    return all(_is_one_per_channel(*pair) for pair in shapes), _listed(seen)


def _is_one_per_channel(shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Tells if numbers of this shape are one, or one for each channel of a result."""
    channels = (*result[1:2], *[1] * len(result[2:]))
    return all(size == 1 for size in shape) or shape == channels


def _listed(seen: Sequence[Any]) -> str:
    """Words what differs, each thing once."""
    return ", ".join(dict.fromkeys(map(str, seen)))


def _is_in_fixed_point(rounding: Any) -> bool:
    """in fixed point"""
    return isinstance(rounding, FixedAttr)


def _is_exact(rounding: Any) -> bool:
    """in fixed point, without a shift"""
    return isinstance(rounding, FixedAttr) and rounding.shift.data == 0


def _several(kernel: tuple[int, ...]) -> bool:
    """of more than one element"""
    return max(kernel, default=1) > 1


def _windows(name: str, label: str, *others: Pattern | OptionalOperand, **inside: Any) -> Pattern:
    """Matches an op that slides windows over an input of bytes, or over one padded with a number,
    as quantised inputs are with their zero point; attributes `inside` keep windows from reading
    zeros outside of the padded input.
    """
    x = wildcard("x", dtype=i8)
    padded = op("graph.pad", x, mode="constant", pads=around_the_image)
    return (op(name, padded, *others, pads=of_zeros, **inside) | op(name, x, *others)) @ label


def _term(name: str, x: Pattern | None = None, **inside: Any) -> Pattern:
    """Matches bytes that are widened to integers: scaled without rounding, their zero point taken
    off.
    """
    x, m = x or wildcard(name, dtype=i8), constant(f"scale_{name}", dtype=i32)
    return op("graph.requantize", x, m, to=i32, **inside) @ f"rescale_{name}"


def _conv_of_bytes(bias: str = "b") -> Pattern:
    """Matches a convolution, with bias."""
    return _windows("graph.conv", "conv", weights("w"), optional_operand(constant(bias)))


@composite("conv", zero_points=True)
def conv():
    """A convolution, with bias, relu or clip, requantised."""
    return _accumulated(_conv_of_bytes())


def _bytes_of(value: Pattern) -> Pattern:
    """Matches an accumulator with an optional relu, requantised to bytes in fixed point."""
    summed, rounding = optional(value, lambda v: op("graph.relu", v)), _is_in_fixed_point
    return _bounded(op("graph.requantize", summed, constant(None), to=i8, rounding=rounding))


@composite("conv_pool", zero_points=True)
def conv_pool():
    """A convolution, with bias, relu or clip, requantised, and a max pool with relu or clip: the
    maxima are those of the sums, and only these are requantised."""
    return _bounded(op("graph.max_pool", _bytes_of(_conv_of_bytes())) @ "pool")


@composite("conv_add", zero_points=True)
def conv_add():
    """A convolution, with bias, relu or clip, requantised, and the sum of its result and another
    array on a fine grid, relu or clip, requantised: the convolution's results stay on the chip."""
    a = _term("a", _bytes_of(_conv_of_bytes("inner_b")), rounding=_is_exact)
    return _bytes_of(op("graph.add", a, _term("b", rounding=_is_exact)) @ "add")


@conv.rule(fix="split it into convolutions of two dimensions")
@conv_pool.rule(fix="split it into convolutions of two dimensions")
@conv_add.rule(fix="split it into convolutions of two dimensions")
def conv_has_one_or_two_dimensions(m: Match) -> tuple[bool, Any]:
    """The convolution has one or two spatial dimensions."""
    dimensions = m["x"].type.rank - 2
    return dimensions in (1, 2), dimensions


@composite("dense", zero_points=True)
def dense():
    """A product of matrices, with bias, relu or clip, requantised."""
    acc = op("graph.matmul", wildcard("x", dtype=i8), weights("w")) @ "matmul"
    return _accumulated(optional(acc, lambda v: op("graph.add", v, constant("b")) @ "add"))


@dense.rule(fix="reshape the weights to a matrix")
def dense_is_a_matrix_product(m: Match) -> tuple[bool, Any]:
    """The weights are a matrix, and the input is one or several."""
    ranks = (m["x"].type.rank, m["w"].type.rank)
    return ranks[0] >= 2 and ranks[1] == 2, ranks


def _is_computed(value: SSAValue) -> tuple[bool, str]:
    return not isinstance(value.owner, ConstantOp), "a constant"


_COMPUTED = ValueTest("a computed array", _is_computed)


@composite("product", zero_points=True)
def product():
    """A product of two computed arrays of matrices, as in attention, with relu or clip,
    requantised."""
    x, y = (wildcard(name, dtype=i8, where=_COMPUTED) for name in ("x", "y"))
    acc = op("graph.matmul", x, y) @ "matmul"
    return _accumulated(optional(acc, lambda v: op("graph.add", v, constant("b")) @ "add"))


@product.rule(fix="expand the factors to the batches of the result")
def product_is_laid_out_as_its_first_factor(m: Match) -> tuple[bool, Any]:
    """Both factors are matrices, and the first has the batches and rows of the result."""
    shapes = m["x"].type.shape, m["y"].type.shape, m["matmul"].type.shape
    fits = len(shapes[1]) >= 2 and len(shapes[0]) >= 2
    return fits and shapes[0][:-1] == shapes[2][:-1], shapes


@dense.rule(fix=_PER_OUTPUT)
@product.rule(fix=_PER_OUTPUT)
def bias_is_per_output(m: Match) -> tuple[bool, Any]:
    """The bias is one number, or one per output."""
    if "b" not in m:
        return True, "no bias"
    return _is_per_output(m["b"].type.shape, m), m["b"].type.shape


@dense.rule(fix=_PER_OUTPUT)
@product.rule(fix=_PER_OUTPUT)
def scale_is_per_output(m: Match) -> tuple[bool, Any]:
    """The scale is one number or one for each output."""
    return _is_per_output(m["scale"].type.shape, m), m["scale"].type.shape


def _is_per_output(shape: tuple[int, ...], m: Match) -> bool:
    """Tells whether numbers of this shape are one, or one for each output of a product."""
    outputs = m["matmul"].type.shape[-1:]
    return all(size == 1 for size in shape[:-1]) and shape[-1:] in ((), (1,), outputs)


def _term_or_constant(name: str) -> Pattern:
    return _term(name) | constant(name, dtype=i32)


@composite("add", zero_points=True)
def add():
    """A sum of two arrays, or of one and a constant, on a fine grid, relu or clip, requantised."""
    return _accumulated(op("graph.add", _term("a"), _term_or_constant("b")) @ "add")


@composite("multiply", zero_points=True)
def multiply():
    """A product element by element of two arrays, or of one and a constant, relu or clip,
    requantised."""
    return _accumulated(op("graph.mul", _term("a"), _term_or_constant("b")) @ "multiply")


@composite("leaky_relu", zero_points=True)
def leaky_relu():
    """A leaky relu or prelu: a sum of the integers and of those below 0, each by a constant,
    requantised."""
    x = _term("a")
    below = op("graph.mul", op("graph.clip", x), constant("below", dtype=i32))
    return _accumulated(op("graph.add", op("graph.mul", x, constant("whole", dtype=i32)), below))


@conv_add.rule(fix=_EXPAND)
@add.rule(fix=_EXPAND)
@multiply.rule(fix=_EXPAND)
def terms_do_not_broadcast(m: Match) -> tuple[bool, Any]:
    """Both operands have the same shape, or the second is a constant that varies along one
    dimension at most."""
    a, b = m["rescale_a"].type.shape, m["b"].type.shape
    return a == b if "scale_b" in m else varies_along_one_at_most(b, a), (a, b)


@conv_add.rule(fix=_PER_TENSOR)
@add.rule(fix=_PER_TENSOR)
@multiply.rule(fix=_PER_TENSOR)
def terms_have_one_scale(m: Match) -> tuple[bool, Any]:
    """Each operand has one scale."""
    sizes = [m[name].array.size for name in ("scale_a", "scale_b") if name in m]
    return max(sizes) == 1, tuple(sizes)


@add.rule(fix=_FIXED)
@multiply.rule(fix=_FIXED)
@leaky_relu.rule(fix=_FIXED)
def terms_are_exact(m: Match) -> tuple[bool, Any]:
    """Operands are scaled without rounding."""
    names = (name for name in ("rescale_a", "rescale_b") if name in m)
    roundings = [m[name].op.properties["rounding"] for name in names]
    exact = [isinstance(r, FixedAttr) and r.shift.data == 0 for r in roundings]
    return all(exact), ", ".join(map(str, roundings))


@leaky_relu.rule(fix=_PER_TENSOR)
def numbers_are_per_channel(m: Match) -> tuple[bool, Any]:
    """Scales and slopes are one number, or one for each channel, dimension 1 of the result."""
    shapes = [m[name].type.shape for name in ("scale_a", "whole", "below", "scale")]
    channels = (*m["a"].type.shape[1:2], *[1] * len(m["a"].type.shape[2:]))
    fits = (all(size == 1 for size in shape) or shape == channels for shape in shapes)
    return all(fits), shapes


@composite("max_pool")
def max_pool():
    """A max pool, with relu or clip."""
    pooled = op("graph.max_pool", wildcard("x", dtype=i8)) @ "pool"
    return optional(pooled, lambda v: op("graph.relu", v) | op("graph.clip", v))


@composite("avg_pool", zero_points=True)
def avg_pool():
    """A sum over windows, less what its zero point brings, requantised: an average or global
    average pool."""
    total = _windows("graph.sum_pool", "pool", ceil_mode=0, kernel_shape=_several)
    return _requantized(optional(total, lambda v: op("graph.add", v, constant("b"))))


@avg_pool.rule(fix=_PER_TENSOR)
def excess_is_one_number(m: Match) -> tuple[bool, Any]:
    """What is added to the sums is one number."""
    size = m["b"].array.size if "b" in m else 1
    return size == 1 and m.get("b", m["scale"]).type.rank <= m["pool"].type.rank, size


@avg_pool.rule(fix=_PER_TENSOR)
def avg_pool_scale_broadcasts(m: Match) -> tuple[bool, Any]:
    """The scale is one number, one per channel or one per position."""
    scale, result = m["scale"].type.shape, m["requantize"].type.shape
    channels = (result[1], *[1] * (len(result) - 2))
    return all(s == 1 for s in scale) or scale in (channels, result[2:]), scale


@composite("requantize", zero_points=True)
def requantize():
    """A change of scale on its own, with relu or clip."""
    x = wildcard("x", dtype=i8)
    wide = op("graph.requantize", x, constant("offset_scale", dtype=i32)) @ "offset"
    return _accumulated(x) | _accumulated(wide)


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


@view.rule(fix=_POOL_FIRST)
def view_keeps_channels(m: Match) -> tuple[bool, Any]:
    """Batch and channels stay in place and everything else has size 1."""
    shapes = m["x"].type.shape, m["view"].type.shape
    fits = all(len(s) >= 2 and all(size == 1 for size in s[2:]) for s in shapes)
    return fits and shapes[0][:2] == shapes[1][:2], shapes


@requantize.rule(fix=_FIXED)
def offset_is_exact(m: Match) -> tuple[bool, Any]:
    """A zero point is taken off without scaling."""
    if "offset" not in m:
        return True, "none"
    rounding, factor = m["offset"].op.properties["rounding"], m["offset_scale"].array
    exact = isinstance(rounding, FixedAttr) and rounding.shift.data == 0 and factor.size == 1
    return exact and m["offset"].type.element == i32, rounding


def _numbers_fit(m: Match) -> tuple[bool, Any]:
    """Factors and shifts of requantisation fit 32 bits."""
    found = [op for op in m.ops if isinstance(op, RequantizeOp) and not _fits(op)]
    return not found, ", ".join(f"{op.rounding}" for op in found) or "they do"


def _fits(op: RequantizeOp) -> bool:
    """Tells if the sums of a requantise and its rounding stay in 32 bits."""
    # Imported here, as listing targets does not need it.
    from byocir.lowering.tir_to_vta.legalise_verdict import requantise_fits

    known = known_values(op.scales[0]) is not None
    return not known or not isinstance(op.rounding, FixedAttr) or requantise_fits(op)


_SCALED = (conv, dense, product, add, multiply, leaky_relu, avg_pool, requantize)
for _pattern in _SCALED:
    _pattern.rule(fix=_FIXED)(_is_fixed)
for _pattern in (conv_pool, conv_add):
    _pattern.rule(fix=_FIXED)(_numbers_fit)
for _pattern in _SCALED:
    _pattern.rule(
        fix=_FIXED,
        vary="requantize.rounding",
        holds=(FixedAttr.of(0), FixedAttr.of(8)),
        fails=(FixedAttr.of(40),),
    )(_numbers_fit)
for _pattern in (conv, conv_pool, conv_add, add, multiply, requantize):
    _pattern.rule(fix=_PER_CHANNEL)(_one_scale_per_channel)


_ALL: tuple[Composite, ...] = (
    conv_pool,
    conv_add,
    conv,
    dense,
    product,
    add,
    multiply,
    leaky_relu,
    max_pool,
    avg_pool,
    requantize,
    relu,
    view,
    contraction_pool,
    contraction_add,
    contraction,
    window_max,
    window_sum,
    elementwise,
    bound,
    view_block,
)
"""The patterns in order of priority; the first that fits takes the ops."""


def _has_channels(m: Match) -> tuple[bool, Any]:
    """Tensors have a batch and a channel dimension."""
    shape = m.result.type.shape
    return len(shape) >= 2, shape


def _result_is_i8(m: Match) -> tuple[bool, Any]:
    """The result is i8."""
    element = m.result.type.element
    return element == i8, str(element)


# Where the pattern itself or another rule leaves no other case, a rule would say nothing.
for _pattern in (add, multiply, leaky_relu, requantize, relu, elementwise, bound):
    _pattern.rule(fix="give the model a batch dimension")(_has_channels)
for _pattern in _SCALED:
    _pattern.rule(
        fix="quantise the result to 8 bits", vary="requantize.to", holds=(i8,), fails=(i32,)
    )(_result_is_i8)


@cache
def patterns_of(config: VTAConfig, gathers: bool = True) -> tuple[Composite, ...]:
    """Lists the composites of a VTA. Their rules say what its unit, and what it lacks, demand;
    `gathers` says whether the host gathers the windows of convolutions of few channels.
    """
    found: list[Composite] = []
    for made in _ALL:
        rules = list(rules_for(made.name, config, gathers))
        own = Composite(made.name, made.patterns, zero_points=made.zero_points, glue=made.glue)
        own.rules = list(made.rules)
        for rule, options in rules:
            own.rule(**options)(rule)
        found.append(own if rules else made)
    return tuple(found)


PATTERNS = patterns_of(DEFAULT_CONFIG)
"""Those of the default VTA."""

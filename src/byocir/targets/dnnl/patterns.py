"""Defines the composites that oneDNN takes: each is one primitive, and what follows it element by
element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from xdsl.ir import Attribute, SSAValue

from byocir.dialects.graph import FixedAttr, FloatHalfEvenAttr
from byocir.dialects.types import bf16, element_type_of, f32, i8, i32, shape_of, static_shape, ui8
from byocir.patterns import (
    Match,
    Pattern,
    composite,
    constant,
    either,
    op,
    optional,
    optional_operand,
    supports,
    wildcard,
)
from byocir.patterns.structure import repeat
from byocir.patterns.value_tests import ValueTest, per_tensor, within
from byocir.targets.pads import around_the_image, of_zeros

MOST_DIMENSIONS = 6
"""oneDNN has kernels of its own for arrays of so many."""
MOST_AFTER = 3
"""The most functions of one element behind each other that a composite takes."""

Numbers = tuple[str, float, float]
LARGEST = 3.4028234663852886e38


def _alone(kind: str) -> Callable[[dict[str, Any]], Numbers]:
    return lambda _: (kind, 0.0, 0.0)


FUNCTIONS: dict[str, Callable[[dict[str, Any]], Numbers]] = {
    "graph.abs": _alone("abs"),
    "graph.clip": lambda a: ("clip_v2", a.get("min", -LARGEST), a.get("max", LARGEST)),
    "graph.elu": lambda a: ("elu", a["alpha"], 0.0),
    "graph.exp": _alone("exp"),
    "graph.gelu": lambda a: ("gelu_tanh" if a["approximate"] == "tanh" else "gelu_erf", 0.0, 0.0),
    "graph.hard_sigmoid": lambda a: ("hardsigmoid", a["alpha"], a["beta"]),
    "graph.hard_swish": lambda _: ("hardswish", 1 / 6, 0.5),
    "graph.leaky_relu": lambda a: ("relu", a["alpha"], 0.0),
    "graph.mish": _alone("mish"),
    "graph.neg": lambda _: ("linear", -1.0, 0.0),
    "graph.relu": _alone("relu"),
    "graph.sigmoid": _alone("logistic"),
    "graph.sqrt": _alone("sqrt"),
    "graph.tanh": _alone("tanh"),
}
"""oneDNN's functions of one element by op, with their two numbers for its attributes. Its softplus
is not among them: below zero it is wrong by as much as it is, and may be negative."""

BINARY = {
    "graph.add": "add",
    "graph.div": "div",
    "graph.max": "max",
    "graph.min": "min",
    "graph.mul": "mul",
    "graph.sub": "sub",
}
VIEWS = ("graph.flatten", "graph.reshape", "graph.squeeze", "graph.transpose", "graph.unsqueeze")


def _has_elements(value: SSAValue) -> tuple[bool, str]:
    shape = static_shape(value.type)
    fits = shape is not None and len(shape) <= MOST_DIMENSIONS and 0 not in shape
    return fits, str(value.type)


SIZED = ValueTest(
    f"known sizes, none of them 0, in at most {MOST_DIMENSIONS} dimensions",
    _has_elements,
    fix="pin open sizes, --shape NAME=D,D,…, or reshape to fewer dimensions",
)


def _is_image(value: SSAValue) -> tuple[bool, int]:
    dimensions = len(shape_of(value.type)) - 2
    return dimensions <= 3, dimensions


IMAGE = ValueTest(
    "at most three spatial dimensions", _is_image, fix="reshape to fewer where windows allow it"
)
FLOATS, BYTES = (f32, bf16), (i8, ui8)
CAST = "compute it in f32: cast what goes in and comes out"


def _of(sentence: str, *elements: Attribute, fix: str) -> ValueTest:
    """Makes a test of the element type of an array."""

    def look(value: SSAValue) -> tuple[bool, str]:
        return element_type_of(value.type) in elements, str(value.type)

    return ValueTest(sentence, look, fix=fix)


OF_FLOATS = _of("f32 or bf16", *FLOATS, fix=CAST)
OF_F32 = _of("f32", f32, fix=CAST)
OF_NUMBERS = _of("f32, bf16 or bytes", *FLOATS, *BYTES, fix=CAST)
OF_BYTES = _of("bytes", *BYTES, fix="quantise to 8 bits")
OF_SIGNED = _of("signed bytes", i8, fix="quantise weights to signed bytes, without zero points")
OF_ONE = replace(per_tensor(), fix="quantise activations with one scale for each array")


def _array(name: str, *tests: ValueTest) -> Pattern:
    return wildcard(name, where=(OF_FLOATS, SIZED, *tests))


def _bytes(name: str, *tests: ValueTest) -> Pattern:
    return wildcard(name, where=(OF_BYTES, SIZED, *tests))


def _numbers(name: str, *tests: ValueTest) -> Pattern:
    return wildcard(name, where=(OF_NUMBERS, SIZED, *tests))


def _in_float(rounding: Any) -> bool:
    """in float"""
    return isinstance(rounding, FloatHalfEvenAttr)


def _in_integers(rounding: Any) -> bool:
    """in integers, without a shift"""
    return isinstance(rounding, FixedAttr) and rounding.shift.data == 0


def _requantized(value: Pattern) -> Pattern:
    value = optional(value, lambda v: op("graph.relu", v))
    scale = constant("scale", dtype=f32)
    return op("graph.requantize", value, scale, rounding=_in_float)


def _limited(value: Pattern) -> Pattern:
    return optional(value, lambda v: op("graph.relu", v) | op("graph.clip", v))


def _one(name: str) -> Pattern:
    return constant(name, where=OF_ONE)


def _dequantized(value: Pattern, name: str) -> Pattern:
    return op("graph.dequantize", value, _one(f"scale_{name}"), _one(f"zero_{name}"))


def _summed(value: Pattern) -> Pattern:
    """Matches bytes to which others are added as floats, quantised again."""
    other = _dequantized(_bytes("added"), "added")
    total = op("graph.add", _dequantized(value, "result"), other)
    zero = constant("zero_total", where=(OF_BYTES, OF_ONE))
    return op("graph.quantize", _limited(total), _one("scale_total"), zero)


def _function(value: Pattern) -> Pattern:
    """Matches a function of each element: one that oneDNN has, or arithmetic with one number."""
    number = constant(where=per_tensor())
    alone = (op(name, value) for name in FUNCTIONS)
    return either(*alone, *(op(name, value, number) for name in BINARY))


def _smooth(v: Pattern) -> Pattern:
    """Matches functions that models spell out: `v * sigmoid(v)`, mish, gelu by erf, hard swish by
    clip.
    """
    share = op("graph.add", op("graph.erf", _over(v, 2**0.5)), _close_to(1))
    clipped = op("graph.clip", op("graph.add", v, _close_to(3)), min=0.0, max=6.0)
    return either(
        op("graph.mul", v, op("graph.sigmoid", v)),
        op("graph.mul", v, op("graph.tanh", op("graph.softplus", v))),
        _over(op("graph.mul", v, share), 2),
        op("graph.mul", v, _over(share, 2)),
        op("graph.mul", _over(v, 2), share),
        _over(op("graph.mul", v, clipped), 6),
        op("graph.mul", v, _over(clipped, 6)),
    )


def _close_to(number: float) -> Pattern:
    near = within(number * (1 - 1e-6), number * (1 + 1e-6))
    return constant(where=(per_tensor(), near))


def _over(value: Pattern, number: float) -> Pattern:
    """Matches a value divided by a number, or multiplied by the inverse of the number."""
    divided = op("graph.div", value, _close_to(number))
    return divided | op("graph.mul", value, _close_to(1 / number))


def _followed(value: Pattern) -> Pattern:
    """Matches an array, optionally with another one added, and then with functions of each
    element.
    """
    added = optional(value, lambda v: op("graph.add", v, _array("added")))
    return _smooth(added) | repeat(added, _function, most=MOST_AFTER)


@composite("conv")
def conv() -> Pattern:
    """A convolution, with bias, a sum and functions of each element."""
    w, bias = wildcard("w", where=SIZED), optional_operand(wildcard("b"))
    return _followed(op("graph.conv", _array("x", IMAGE), w, bias))


@composite("matmul")
def matmul() -> Pattern:
    """A product of matrices, with a sum and functions of each element."""
    return _followed(op("graph.matmul", _array("x"), _array("w")))


@composite("conv_bytes", zero_points=True)
def conv_bytes() -> Pattern:
    """A convolution of bytes, requantised, and a sum with others."""
    x, w = _bytes("x", IMAGE), constant("w", where=OF_SIGNED)
    b = optional_operand(constant("b"))
    padded = op("graph.pad", x, mode="constant", pads=around_the_image)
    acc = op("graph.conv", padded, w, b, pads=of_zeros) | op("graph.conv", x, w, b)
    made = _requantized(acc)
    return _summed(made) | _limited(made)


@composite("matmul_bytes", zero_points=True)
def matmul_bytes() -> Pattern:
    """A product of matrices of bytes, with a bias, requantised."""
    w = wildcard("w", where=(OF_SIGNED, SIZED))
    acc = op("graph.matmul", _bytes("x"), w)
    made = _requantized(optional(acc, lambda v: op("graph.add", v, constant("b"))))
    return _limited(made)


@composite("mean_bytes", zero_points=True)
def mean_bytes() -> Pattern:
    """The mean of each window of bytes."""
    acc = op("graph.sum_pool", _bytes("x", IMAGE))
    return _limited(_requantized(optional(acc, lambda v: op("graph.add", v, constant("b")))))


@composite("rescale", zero_points=True)
def rescale() -> Pattern:
    """Bytes on another grid, with another zero point."""
    x, factor = _bytes("x"), constant("factor", where=(per_tensor(), within(1, 2**16)))
    whole = op("graph.requantize", x, factor, rounding=_in_integers, to=i32)
    scale = constant("scale", dtype=f32)
    return op("graph.requantize", whole | x, scale, rounding=_in_float)


@composite("sum_bytes", zero_points=True)
def sum_bytes() -> Pattern:
    """A sum of bytes on one grid, requantised."""
    terms = (op("graph.cast", _bytes(name), to=i32) for name in ("x", "y"))
    return _limited(_requantized(op("graph.add", *terms)))


@composite("quantize")
def quantize() -> Pattern:
    """Floats to bytes."""
    zero = constant("zero", where=OF_BYTES)
    x = wildcard("x", where=(OF_F32, SIZED))
    return op("graph.quantize", x, constant("scale"), zero)


@composite("dequantize")
def dequantize() -> Pattern:
    """Bytes to floats."""
    x = _bytes("x") | constant("x", dtype=i32)
    return op("graph.dequantize", x, constant("scale", dtype=f32), constant("zero"))


@composite("max_pool")
def max_pool() -> Pattern:
    """The greatest of each window."""
    return op("graph.max_pool", _numbers("x", IMAGE)) @ "pool"


@composite("average_pool")
def average_pool() -> Pattern:
    """The mean of each window."""
    return op("graph.average_pool", _array("x", IMAGE)) @ "pool"


@composite("global_pool")
def global_pool() -> Pattern:
    """The mean or the greatest of each channel."""
    x = _array("x", IMAGE)
    return op("graph.global_average_pool", x) | op("graph.global_max_pool", x)


@composite("softmax")
def softmax() -> Pattern:
    """A softmax, or its logarithm."""
    x = _array("x")
    return op("graph.softmax", x) | op("graph.log_softmax", x)


@composite("layer_norm")
def layer_norm() -> Pattern:
    """A normalisation of the last dimensions."""
    scale, shift = wildcard("scale"), optional_operand(wildcard("shift"))
    return op("graph.layer_norm", _array("x"), scale, shift) @ "norm"


@composite("binary")
def binary() -> Pattern:
    """Arithmetic on two arrays, then functions of each element."""
    x, y = _array("x"), _array("y")
    return repeat(either(*(op(name, x, y) for name in BINARY)), _function, most=MOST_AFTER)


@composite("smooth")
def smooth() -> Pattern:
    """`x * sigmoid(x)`, mish, gelu by erf, and the hard swish by clip."""
    return _smooth(_array("x"))


@composite("function")
def function() -> Pattern:
    """Functions of each element."""
    return repeat(_function(_array("x")), _function, most=MOST_AFTER)


@supports("graph.concat", fix="join some of the parts before")
def concat(m: Match) -> tuple[bool, Any]:
    """At most 32 arrays of f32, bf16 or bytes, of known sizes, none of them 0, are joined."""
    parts = m["op"].op.operands
    others = [str(v.type) for v in parts if not (OF_NUMBERS.look(v)[0] and SIZED.look(v)[0])]
    return len(parts) <= 32 and not others, others or len(parts)


@composite("view", glue=True)
def view() -> Pattern:
    """The same elements in another shape or order."""
    return either(*(op(name, _numbers("x")) for name in VIEWS))


@average_pool.rule(fix="count pads or round sizes up, not both")
def pads_that_count_are_told(m: Match) -> tuple[bool, Any]:
    """Pads do not count where sizes are rounded up."""
    attrs = m["pool"].attrs
    both = attrs["ceil_mode"] == 1 and attrs["count_include_pad"] == 1
    return not both, f"ceil_mode {attrs['ceil_mode']}"


@matmul.rule(fix="reshape the vector to a matrix")
@matmul_bytes.rule(fix="reshape the vector to a matrix")
def factors_are_matrices(m: Match) -> tuple[bool, Any]:
    """Both factors have at least two dimensions."""
    ranks = m["x"].type.rank, m["w"].type.rank
    return min(ranks) >= 2, ranks


@layer_norm.rule(fix="expand scale and bias to the dimensions that are normalised")
def parameters_are_whole(m: Match) -> tuple[bool, Any]:
    """Scale and bias have a number for each element that is normalised."""
    wanted = m["x"].type.shape[m["norm"].attrs["axis"] :]
    found = [m[name].type.shape for name in ("scale", "shift") if name in m]
    return all(prod(shape) == prod(wanted) for shape in found), f"{found} for {wanted}"


OF_INTEGERS = (conv_bytes, matmul_bytes, mean_bytes, sum_bytes, rescale, quantize, dequantize)
PATTERNS = (
    conv_bytes,
    matmul_bytes,
    mean_bytes,
    sum_bytes,
    conv,
    matmul,
    max_pool,
    average_pool,
    global_pool,
    softmax,
    layer_norm,
    concat,
    smooth,
    binary,
    function,
    rescale,
    quantize,
    dequantize,
    view,
)

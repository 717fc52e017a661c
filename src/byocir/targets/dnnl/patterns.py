"""The composites that oneDNN takes: each is one primitive, and what follows it element by
element."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from byocir.dialects.types import element_type_of, f32, shape_of, static_shape
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
from byocir.patterns.value_tests import ValueTest

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
    "graph.softplus": lambda _: ("soft_relu", 1.0, 0.0),
    "graph.sqrt": _alone("sqrt"),
    "graph.tanh": _alone("tanh"),
}
"""oneDNN's functions of one element by op, with their two numbers for its attributes."""

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
    f"known sizes, none of them 0, in at most {MOST_DIMENSIONS} dimensions", _has_elements
)


def _is_image(value: SSAValue) -> tuple[bool, int]:
    dimensions = len(shape_of(value.type)) - 2
    return dimensions <= 3, dimensions


IMAGE = ValueTest("at most three spatial dimensions", _is_image)


def _array(name: str, *tests: ValueTest) -> Pattern:
    return wildcard(name, dtype=f32, where=(SIZED, *tests))


def _function(value: Pattern) -> Pattern:
    return either(*(op(name, value) for name in FUNCTIONS))


def _followed(value: Pattern) -> Pattern:
    """An array, with another one added and functions of each element, as far as there are."""
    added = optional(value, lambda v: op("graph.add", v, _array("added")))
    return repeat(added, _function, most=MOST_AFTER)


@composite("conv")
def conv() -> Pattern:
    """A convolution, with bias, a sum and functions of each element."""
    bias = optional_operand(constant("b"))
    return _followed(op("graph.conv", _array("x", IMAGE), constant("w"), bias))


@composite("matmul")
def matmul() -> Pattern:
    """A product of matrices, with a sum and functions of each element."""
    return _followed(op("graph.matmul", _array("x"), _array("w")))


@composite("max_pool")
def max_pool() -> Pattern:
    """The greatest of each window."""
    return op("graph.max_pool", _array("x", IMAGE)) @ "pool"


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
    scale, shift = constant("scale"), optional_operand(constant("shift"))
    return op("graph.layer_norm", _array("x"), scale, shift) @ "norm"


@composite("binary")
def binary() -> Pattern:
    """Arithmetic on two arrays, then functions of each element."""
    x, y = _array("x"), _array("y")
    return repeat(either(*(op(name, x, y) for name in BINARY)), _function, most=MOST_AFTER)


@composite("function")
def function() -> Pattern:
    """Functions of each element."""
    return repeat(_function(_array("x")), _function, most=MOST_AFTER)


@supports("graph.concat", fix="join some of the parts before")
def concat(m: Match) -> tuple[bool, Any]:
    """At most 32 arrays of f32 of known sizes, none of them 0, are joined."""
    parts = m["op"].op.operands
    others = [
        str(v.type) for v in parts if element_type_of(v.type) != f32 or not _has_elements(v)[0]
    ]
    return len(parts) <= 32 and not others, others or len(parts)


@composite("view", glue=True)
def view() -> Pattern:
    """The same elements in another shape or order."""
    return either(*(op(name, _array("x")) for name in VIEWS))


@average_pool.rule(fix="count pads or round sizes up, not both")
def pads_that_count_are_told(m: Match) -> tuple[bool, Any]:
    """Pads do not count where sizes are rounded up."""
    attrs = m["pool"].attrs
    both = attrs["ceil_mode"] == 1 and attrs["count_include_pad"] == 1
    return not both, f"ceil_mode {attrs['ceil_mode']}"


@matmul.rule(fix="reshape the vector to a matrix")
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


PATTERNS = (
    conv,
    matmul,
    max_pool,
    average_pool,
    global_pool,
    softmax,
    layer_norm,
    concat,
    binary,
    function,
    view,
)

"""acme is a target whose code is JSON, which any language can read, and whose device is numpy.

To make it yours, change in this order: the patterns, their rules, the kernels. `byocir conform
acme.py` says after each step whether it is right; `byocir patterns acme.py` what it takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from byocir.dialects.types import f32
from byocir.patterns import Match, composite, constant, op, optional, optional_operand, wildcard
from byocir.targets.json import KERNELS, JsonTarget, Kernel, Step

# 1. What the device can do: patterns, from the inputs to the result.


def relu_after(value):
    """Gives the value, or a relu of it."""
    return optional(value, lambda v: op("graph.relu", v))


@composite("acme.conv")
def conv():
    """A convolution with an optional bias and relu."""
    weights, bias = constant("w", dtype=f32), optional_operand(constant("b"))
    return relu_after(op("graph.conv", wildcard("x", dtype=f32), weights, bias, group=1))


@composite("acme.dense")
def dense():
    """A product with constant weights and an optional relu."""
    return relu_after(op("graph.matmul", wildcard("x", dtype=f32), constant("w", dtype=f32)))


# 2. When it can: rules. The docstring is the sentence that users read, `fix` what they can do.
# `vary` tells conform which sizes to try; without it conform looks for some itself.


@dense.rule(fix="pad the weights", vary="w.shape[1]", holds=(4, 8), fails=(3, 6))
def columns_fill_lanes(m: Match) -> tuple[bool, Any]:
    """The weights are a matrix whose columns are a multiple of 4."""
    shape = m["w"].type.shape
    return len(shape) == 2 and shape[1] % 4 == 0, shape


# 3. How it runs: a kernel gets what is in the JSON, and arrays: inputs, then constants.


def run_dense(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Runs a whole composite in one go; others run op by op."""
    x, w = inputs
    product = np.matmul(x, w)
    return np.maximum(product, 0) if step.steps[-1].name == "graph.relu" else product


# 4. The target: what was declared above, by name.


@dataclass(frozen=True)
class Acme(JsonTarget):
    """Runs convolutions and products, as JSON."""

    name = "acme"
    patterns = (conv, dense)
    kernels: ClassVar[Mapping[str, Kernel]] = {**KERNELS, "acme.dense": run_dense}

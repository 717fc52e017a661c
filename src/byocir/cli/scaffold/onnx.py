"""acme is a target whose toolkit reads ONNX, as those of TensorRT, OpenVINO and QNN do.

Each region goes to the toolkit as an ONNX model. onnx's reference evaluator stands in for yours. To
make it yours, change in this order: the patterns, their rules, `build` and `open`. `byocir conform
acme.py` says after each step whether it is right; `byocir patterns acme.py` what it takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from byocir.dialects.types import f32
from byocir.patterns import Match, composite, constant, op, optional, optional_operand, wildcard
from byocir.targets.onnx import OnnxTarget, Opened

# 1. What the toolkit takes: patterns, from the inputs to the result.


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


@composite("acme.add")
def add():
    """A sum and an optional relu."""
    x, y = wildcard("x", dtype=f32), wildcard("y", dtype=f32)
    return relu_after(op("graph.add", x, y))


# 2. When it does: rules. The docstring is the sentence that users read, `fix` what they can do.


@conv.rule(fix="leave kernels of one or three dimensions on the host")
def kernel_is_flat(m: Match) -> tuple[bool, Any]:
    """The kernel has two dimensions."""
    kernel = m["w"].type.shape[2:]
    return len(kernel) == 2, kernel


# 3. The target: `build` compiles a region's model, once; `open` loads that where it is run.


@dataclass(frozen=True)
class Acme(OnnxTarget):
    """Runs convolutions, products and sums, as ONNX models."""

    name = "acme"
    patterns = (conv, dense, add)
    suffix = "onnx"

    def build(self, symbol: str, model: bytes) -> bytes:
        return model  # return toolkit.compile(model)

    def open(self, symbol: str, built: bytes) -> Opened:
        engine = ReferenceEvaluator(onnx.load_model_from_string(built))

        def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return engine.run(None, dict(zip(engine.input_names, inputs, strict=True)))

        return run

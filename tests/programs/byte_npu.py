"""A toy that computes on bytes, and on floats along an axis: right, and a place for bugs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from byocir.dialects.types import f32, i8, ui8
from byocir.patterns import Match, composite, constant, op, wildcard
from byocir.patterns.value_tests import satisfies
from byocir.targets.json import KERNELS, JsonTarget, Kernel, Step


def scale(name: str) -> Any:
    return constant(name, where=satisfies("above 0", lambda numbers: (numbers > 0).all()))


@composite("byte.dense", zero_points=True)
def dense():
    """A product of bytes, in bytes again."""
    product = op("graph.matmul", wildcard("x"), constant("w"))
    return op("graph.requantize", product, scale("before"), scale("after"))


@dense.rule
def factors_are_bytes(m: Match) -> tuple[bool, Any]:
    """Both factors are bytes."""
    found = m["x"].type.element, m["w"].type.element
    return all(each in (i8, ui8) for each in found), found


@composite("byte.softmax")
def softmax():
    """A softmax along any axis."""
    return op("graph.softmax", wildcard("x", dtype=f32))


@composite("byte.max_pool")
def max_pool():
    """A maximum over windows of two dimensions."""
    return op("graph.max_pool", wildcard("x", dtype=f32), ceil_mode=0, dilations=(1, 1))


def run_dense(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    given = dict(zip(step.inputs, inputs, strict=True))  # of two equal scales one is an input
    x, w = (given[number] for number in step.steps[0].inputs)
    before, after = (given[number] for number in step.steps[1].inputs[1:])
    sums = x.astype(np.int32) @ w.astype(np.int32)
    rounded = np.rint(np.asarray(sums).astype(np.float32) * before / after)
    shifted = rounded + step.steps[-1].attributes["zero_point"]
    info = np.iinfo(step.output_types[0].dtype)
    return np.clip(shifted, info.min, info.max).astype(info.dtype)


def run_softmax(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    (x,), axis = inputs, step.steps[0].attributes["axis"]
    powers = np.exp(x - np.max(x, axis, keepdims=True))
    return powers / np.sum(powers, axis, keepdims=True)


def run_max_pool(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    (x,), attributes = inputs, step.steps[0].attributes
    top, left, bottom, right = attributes["pads"]
    (sh, sw), (r, s) = attributes["strides"], attributes["kernel_shape"]
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    padded = np.pad(x, around, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (r, s), (2, 3))
    return np.max(windows[:, :, ::sh, ::sw], (-2, -1))


@dataclass(frozen=True)
class ByteNpu(JsonTarget):
    """A toy accelerator of bytes."""

    name = "byte"
    patterns = (dense, softmax, max_pool)
    kernels: ClassVar[Mapping[str, Kernel]] = {
        **KERNELS,
        "byte.dense": run_dense,
        "byte.softmax": run_softmax,
        "byte.max_pool": run_max_pool,
    }

"""A toy accelerator, whole: three patterns, two rules, one pass, and JSON as its code.

It convolves in blocks of eight input channels, multiplies matrices and takes maxima over windows,
in float. Try it in this folder:

    byocir explain digits/digits_f32.onnx --shape image=1,1,8,8 --target toy_npu.py

`docs/your-first-target.md` builds it step by step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.graph import ReluOp
from byocir.dialects.graph.base import is_signed
from byocir.dialects.types import f32
from byocir.patterns import Match, composite, constant, op, optional, optional_operand, wildcard
from byocir.rewrites.driver import NewOps, rewrite_module
from byocir.rewrites.matching import rewrites
from byocir.targets.json import KERNELS, JsonTarget, Kernel, Step

CHANNELS = 8

# 1. Patterns and rules: what the device can do, and when.


@composite("npu.conv")
def conv():
    """A convolution with an optional bias and relu."""
    weights, bias = constant("w"), optional_operand(constant("b"))
    acc = op("graph.conv", wildcard("x", dtype=f32), weights, bias, group=1) @ "conv"
    return optional(acc, lambda value: op("graph.relu", value))


@conv.rule(fix="pad the channels with zeros", vary="w.shape[1]", holds=(8, 16), fails=(4, 12))
def channels_fill_blocks(m: Match) -> tuple[bool, Any]:
    """Input channels are a multiple of 8."""
    channels = m["w"].type.shape[1]
    return channels % CHANNELS == 0, channels


@conv.rule
def kernel_is_small(m: Match) -> tuple[bool, Any]:
    """The kernel has two dimensions of at most 3."""
    kernel = m["w"].type.shape[2:]
    return len(kernel) == 2 and max(kernel) <= 3, kernel


@composite("npu.dense")
def dense():
    """A product with constant weights, and an optional bias."""
    product = op("graph.matmul", wildcard("x"), constant("w"))
    return optional(product, lambda value: op("graph.add", value, constant("b")))


@composite("npu.max_pool")
def max_pool():
    """A maximum over windows."""
    return op("graph.max_pool", wildcard("x"))


# 2. A pass of its own: clip from 0 is relu, which the device has.


@rewrites(op("graph.clip", wildcard("x")) @ "clip")
def relu_of_clip(m: Match, new: NewOps) -> Sequence[SSAValue] | None:
    if m["clip"].attrs.get("min") != 0 or "max" in m["clip"].attrs:
        return None
    if not is_signed(m["x"].type.element):  # of what is never negative there is no relu
        return None
    return [new.add(ReluOp.make(m["x"].value)).result]


@dataclass(frozen=True)
class ReluForClipPass(ModulePass):
    name = "npu-relu-for-clip"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [relu_of_clip])


# 3. The device: a kernel that runs a whole composite; numpy runs the others op by op.


def run_conv(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """[N,C,H,W] by [O,C,R,S], summed over blocks of channels as the device does."""
    (x, w), bias = inputs[:2], inputs[2:]
    attributes = step.steps[0].attributes
    (top, left, bottom, right), (down, along) = attributes["pads"], attributes["dilations"]
    (sh, sw), (_, _, height, width) = attributes["strides"], step.output_types[0].shape
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    result = np.zeros(step.output_types[0].shape, np.float32)
    for c in range(0, w.shape[1], CHANNELS):
        for r, s in np.ndindex(*w.shape[2:]):
            rows = slice(r * down, r * down + (height - 1) * sh + 1, sh)
            columns = slice(s * along, s * along + (width - 1) * sw + 1, sw)
            part, weights = x[:, c : c + CHANNELS, rows, columns], w[:, c : c + CHANNELS, r, s]
            result += np.einsum("nchw,oc->nohw", part, weights)
    result += sum(b.reshape(-1, 1, 1) for b in bias)
    return np.maximum(result, 0) if len(step.steps) > 1 else result


@dataclass(frozen=True)
class Npu(JsonTarget):
    """A toy accelerator whose code is JSON."""

    name = "npu"
    patterns = (conv, dense, max_pool)
    kernels: ClassVar[Mapping[str, Kernel]] = {**KERNELS, "npu.conv": run_conv}

    def passes(self, point: str) -> Sequence[ModulePass]:
        return [ReluForClipPass()] if point == "before-match" else []

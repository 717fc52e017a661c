"""acme is a target that calls a library, once for each convolution and product.

Its code is a table of calls, as JSON. `LIBRARY` stands in for yours, in numpy. To make it yours,
change in this order: the patterns, their rules, `call_of`, `LIBRARY`. `byocir conform acme.py` says
after each step whether it is right; `byocir patterns acme.py` what it takes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.traits import SymbolTable

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.graph import ConvOp, MatmulOp, ReluOp
from byocir.dialects.types import f32
from byocir.patterns import Match, composite, constant, op, optional, optional_operand, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.targets.base import Runner

# 1. What the library has: patterns, from the inputs to the result.


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


@conv.rule(fix="leave kernels of one or three dimensions on the host")
def kernel_is_flat(m: Match) -> tuple[bool, Any]:
    """The kernel has two dimensions."""
    kernel = m["w"].type.shape[2:]
    return len(kernel) == 2, kernel


# 3. The code: what the library is called with for a region, which is one composite.


def call_of(function: FuncOp) -> Mapping[str, Any]:
    (taken,) = (each for each in function.walk() if isinstance(each, CompositeOp))
    given = dict(zip(taken.body.block.args, taken.inputs, strict=True))
    ops = [*taken.body.block.ops]
    call: dict[str, Any] = {"relu": any(isinstance(each, ReluOp) for each in ops)}
    for each in ops:
        if isinstance(each, ConvOp | MatmulOp):
            call["inputs"] = [given[value].index for value in each.operands]
            call["function"] = each.name.removeprefix("graph.")
        if isinstance(each, ConvOp):
            for name in ("strides", "pads", "dilations"):
                call[name] = [*each.properties[name].get_values()]
    return call


# 4. The library.


def library_conv(call: Mapping[str, Any], x: np.ndarray, w: np.ndarray, *b: np.ndarray) -> Any:
    (sh, sw), (dh, dw), (top, left, bottom, right) = (
        call[name] for name in ("strides", "dilations", "pads")
    )
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    height, width = (w.shape[2] - 1) * dh + 1, (w.shape[3] - 1) * dw + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (height, width), (2, 3))
    windows = windows[:, :, ::sh, ::sw, ::dh, ::dw]
    sums = np.einsum("nchwrs,ocrs->nohw", windows, w)
    return sums + b[0].reshape(-1, 1, 1) if b else sums


LIBRARY = {"conv": library_conv, "matmul": lambda call, x, w: np.matmul(x, w)}


@dataclass(frozen=True)
class Acme(byocir.Target):
    """Runs convolutions and products, by calls of a library."""

    name, patterns = "acme", (conv, dense)
    constants = "argument"  # weights come in as inputs
    region_policy = RegionPolicy(merge="none")  # a region for each composite

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        functions = {symbol: SymbolTable.lookup_symbol(module, symbol) for symbol in symbols}
        calls = {symbol: call_of(function) for symbol, function in functions.items()}
        return {"calls.json": json.dumps(calls, indent=1, sort_keys=True).encode()}

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        calls = json.loads(blobs["calls.json"])

        def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            call = calls[symbol]
            made = LIBRARY[call["function"]](call, *(inputs[i] for i in call["inputs"]))
            return [np.asarray(np.maximum(made, 0) if call["relu"] else made)]

        return run

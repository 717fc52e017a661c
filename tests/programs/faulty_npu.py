"""Toys that do what a device must not, as their input or options say: in C, and in Python."""

import ctypes
import os
from dataclasses import dataclass
from math import prod

import numpy as np

import byocir
from byocir.dialects.types import f32, shape_of
from byocir.patterns import composite, op, wildcard
from byocir.targets.c import ARRAYS, CTarget
from byocir.targets.onnx import OnnxTarget

FAULTS = ("none", "crash", "abort", "loop", "eat", "write", "exit", "divide")
"""The first input is the index of what is done."""
BODY = """
    volatile int *more = 0, zero = 0;
    switch ((int)x[0]) {
    case 1: *(volatile int *)8 = 1; break;
    case 2: abort();
    case 3: for (volatile int i = 0;; i++) {}
    case 4: for (;;) if ((more = malloc(4000))) more[0] = more[999] = 1;
    case 5: ((float *)x)[1] = 5; break;
    case 6: _Exit(3);
    case 7: zero = 7 / zero;
    }"""


@composite("faulty.neg")
def neg():
    """The negative of numbers."""
    return op("graph.neg", wildcard("x", dtype=f32))


@composite("dying.neg")
def dying_neg():
    """The negative of numbers."""
    return op("graph.neg", wildcard("x", dtype=f32))


@dataclass(frozen=True)
class Faulty(CTarget):
    name, patterns, preamble = "faulty", (neg,), "#include <stdlib.h>"

    def define(self, function, name):
        count = prod(shape_of(function.function_type.outputs.data[0]))
        return f"""int {name}({ARRAYS})
{{
    const float *x = inputs[0];
    float *y = outputs[0];{BODY}
    for (int i = 0; i < {count}; i++) y[i] = -x[i];
    return 0;
}}"""


@dataclass(frozen=True)
class Dying(byocir.Target):
    """Dies in Python, where `fault` says, or gives the number of its process."""

    name, patterns = "dying", (dying_neg,)
    fault: str = "crash"

    def emit(self, module, symbols):
        if self.fault == "emit-crash":
            ctypes.string_at(8)
        while self.fault == "emit-loop":
            pass
        if self.fault == "emit-raise":
            raise ValueError("no license")
        return {"text": self.fault.encode(), "nothing": b""}

    def device(self, blobs):
        """Gives nothing, which is known when there is code: an export gets as far as `emit`."""

    def load(self, blobs):
        if self.fault == "load-crash":
            ctypes.string_at(8)

        def run(symbol, inputs):
            if self.fault == "crash":
                ctypes.string_at(8)
            while self.fault == "loop":
                pass
            if self.fault == "eat":
                bytearray(1 << 30)[:] = bytes(1 << 30)
            if self.fault == "write":
                ctypes.memset(inputs[0].ctypes.data, 1, inputs[0].nbytes)
            if self.fault == "raise":
                raise ValueError("no device")
            if self.fault == "list":
                return [3, inputs[0]]
            return [np.full_like(inputs[0], os.getpid())]

        return run


@composite("building.neg")
def building_neg():
    """The negative of numbers."""
    return op("graph.neg", wildcard("x", dtype=f32))


@dataclass(frozen=True)
class Building(OnnxTarget):
    """Dies as it builds its second region."""

    name, patterns = "building", (building_neg,)

    def build(self, symbol, model):
        if symbol == "building_1":
            os.abort()
        return model

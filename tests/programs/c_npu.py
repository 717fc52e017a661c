"""A toy whose code is C: right, and a place for bugs."""

from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.func import FuncOp

from byocir.dialects.graph import LeakyReluOp
from byocir.dialects.types import f32, shape_of
from byocir.patterns import RegionPolicy, composite, op, wildcard
from byocir.targets.c import ARRAYS, CTarget


@composite("leaky.relu")
def leaky_relu() -> Any:
    """A leaky relu of any shape."""
    return op("graph.leaky_relu", wildcard("x", dtype=f32))


@dataclass(frozen=True)
class Leaky(CTarget):
    """A toy accelerator in C."""

    name = "leaky"
    patterns = (leaky_relu,)
    region_policy = RegionPolicy(merge="none")

    def define(self, function: FuncOp, name: str) -> str:
        (taken,) = (each for each in function.walk() if isinstance(each, LeakyReluOp))
        count = prod(shape_of(taken.result.type))
        alpha = float(taken.alpha.value.data).hex()
        return f"""int {name}({ARRAYS})
{{
    const float *x = inputs[0];
    float *y = outputs[0];
    for (int i = 0; i < {count}; i++)
        y[i] = x[i] < 0 ? {alpha}f * x[i] : x[i];
    return 0;
}}"""

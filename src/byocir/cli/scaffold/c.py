"""acme is a target whose code is C: it calls a kernel for each convolution and product.

byocir builds it to run it, and exports it as it is. To make it yours, change the patterns, their
rules, KERNELS, `define`. `byocir conform acme.py` says after each step whether it is right.
"""

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.graph import ConvOp, ReluOp
from byocir.dialects.types import f32, shape_of
from byocir.patterns import Match, composite, constant, op, optional, optional_operand, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.targets.c import ARRAYS, CTarget

# 1. What the kernels can do: patterns, from the inputs to the result.


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


# 2. When they can: rules. The docstring is the sentence that users read, `fix` what they can do.


@conv.rule(fix="leave kernels of one or three dimensions on the host")
def kernel_is_flat(m: Match) -> tuple[bool, Any]:
    """The kernel has two dimensions."""
    kernel = m["w"].type.shape[2:]
    return len(kernel) == 2, kernel


@dense.rule(fix="reshape to matrices around the product")
def factors_are_matrices(m: Match) -> tuple[bool, Any]:
    """Both factors are matrices."""
    ranks = len(m["x"].type.shape), len(m["w"].type.shape)
    return ranks == (2, 2), ranks


# 3. The kernels, the same for every model. Their names begin with the target's.

KERNELS = """
static void acme_dense(const float *x, const float *w, float *y, const int *s) {
    for (int m = 0; m < s[0]; m++)
        for (int n = 0; n < s[2]; n++) {
            float sum = 0;
            for (int k = 0; k < s[1]; k++) sum += x[m * s[1] + k] * w[k * s[2] + n];
            y[m * s[2] + n] = s[3] && sum < 0 ? 0 : sum;
        }
}

/* s: n c h w, o oh ow, r s, strides, top and left pads, dilations, relu */
static void acme_conv(const float *x, const float *w, const float *b, float *y, const int *s) {
    for (int n = 0; n < s[0]; n++)
        for (int o = 0; o < s[4]; o++)
            for (int i = 0; i < s[5]; i++)
                for (int j = 0; j < s[6]; j++) {
                    float sum = b ? b[o] : 0;
                    for (int c = 0; c < s[1]; c++)
                        for (int r = 0; r < s[7]; r++)
                            for (int q = 0; q < s[8]; q++) {
                                int h = i * s[9] + r * s[13] - s[11];
                                int v = j * s[10] + q * s[14] - s[12];
                                if (h < 0 || h >= s[2] || v < 0 || v >= s[3]) continue;
                                sum += x[((n * s[1] + c) * s[2] + h) * s[3] + v]
                                     * w[((o * s[1] + c) * s[7] + r) * s[8] + q];
                            }
                    *y++ = s[15] && sum < 0 ? 0 : sum;
                }
}
"""


@dataclass(frozen=True)
class Acme(CTarget):
    """Runs convolutions and products, by kernels in C."""

    name, patterns = "acme", (conv, dense)
    constants = "argument"  # weights come in as inputs
    region_policy = RegionPolicy(merge="none")  # a region for each composite
    library = {"acme.h": KERNELS}
    preamble = '#include "acme.h"'

    def define(self, function: FuncOp, name: str) -> str:
        (taken,) = (each for each in function.walk() if isinstance(each, CompositeOp))
        given = dict(zip(taken.body.block.args, taken.inputs, strict=True))
        first, *rest = taken.body.block.ops
        relu = any(isinstance(each, ReluOp) for each in rest)
        inputs = [f"inputs[{given[value].index}]" for value in first.operands]
        sizes = [*shape_of(first.operands[0].type)]
        if isinstance(first, ConvOp):
            inputs += ["0"] * (3 - len(inputs))  # no bias
            sizes += [*shape_of(first.result.type)[1:], *shape_of(first.weight.type)[2:]]
            pads = first.pads.get_values()[:2]
            sizes += [*first.strides.get_values(), *pads, *first.dilations.get_values()]
        else:
            sizes.append(shape_of(first.operands[1].type)[1])
        call = taken.pattern.data.replace(".", "_")
        return f"""int {name}({ARRAYS}) {{
    static const int sizes[] = {{{", ".join(map(str, [*sizes, int(relu)]))}}};
    {call}({", ".join(inputs)}, outputs[0], sizes);
    return 0;
}}"""

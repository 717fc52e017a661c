"""Lists what ONNX Runtime refuses, or computes otherwise than ONNX: element types for which it has
no kernel on the processor, attributes, and values that only a run shows.

The list is written down here, because what a target takes must not depend on the installed version.
The types are those of ONNX Runtime 1.31; a slow test tries all of them on the version that is
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from byocir.dialects.array import known_values
from byocir.dialects.graph import (
    DivOp,
    GruOp,
    LrnOp,
    LstmOp,
    ModOp,
    PoolOp,
    PowOp,
    ReduceL1Op,
    ReduceOp,
    ReduceProdOp,
    ReduceSumOp,
    ReduceSumSquareOp,
    ResizeOp,
    ReverseSequenceOp,
    RnnOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import element_type_of, is_float, shape_of

_FLOAT_OPS = (
    "acos acosh asin asinh atan atanh average_pool celu conv conv_transpose cosh dequantize.1 elu "
    "erf gelu global_average_pool global_max_pool hard_sigmoid hard_swish hardmax instance_norm "
    "leaky_relu lp_pool lrn mish prelu quantize resize rnn selu sinh softplus softsign tan "
    "thresholded_relu"
)
_SUMS = "cum_sum pow pow.1 prelu reduce_l1 reduce_prod reduce_sum reduce_sum_square trilu"
_WITHOUT = {
    "f16": "celu",
    "f64": f"{_FLOAT_OPS} one_hot one_hot.1",
    "f16 f32 i1": "one_hot",
    "i1": "depth_to_space one_hot.1 resize space_to_depth where.1",
    "i8 ui8": f"{_SUMS} one_hot one_hot.1",
    "i16": "relu",
    "i16 ui16": f"{_SUMS} arg_max arg_min clip depth_to_space matmul max min one_hot one_hot.1 pad "
    "reduce_max reduce_min resize space_to_depth where.1",
    "ui16": "top_k",
    "i32": "depth_to_space gather_nd.1 one_hot one_hot.1 prelu scatter_nd.1 space_to_depth",
    "i64": "depth_to_space prelu relu resize space_to_depth",
    "ui32 ui64": f"{_SUMS} arg_max arg_min depth_to_space one_hot one_hot.1 reduce_max reduce_min "
    "resize space_to_depth top_k",
    "ui64": "where.1",
}
"""Maps element types to the ops whose first operand, or of `op.1` the second, cannot have these."""


@cache
def _without() -> frozenset[tuple[str, int, str]]:
    """Lists op, operand and element type where there is no kernel."""
    pairs = [
        (t, op) for types, ops in _WITHOUT.items() for t in types.split() for op in ops.split()
    ]
    places = [(element, *op.partition(".")) for element, op in pairs]
    return frozenset((name, int(index or 0), element) for element, name, _, index in places)


def type_without_kernel(op: Operation) -> str:
    """Finds the element type of an operand for which ONNX Runtime has no kernel of the op; empty if
    there is none.
    """
    name = op.name.removeprefix("graph.")
    for index, operand in enumerate(op.operands[:2]):
        is_tensor = isinstance(operand.type, TensorType)
        element = str(element_type_of(operand.type)) if is_tensor else ""
        if (name, index, element) in _without():
            return element
    return ""


def not_taken(op: Operation) -> str:
    """Names what ONNX Runtime refuses of an op, or computes otherwise; empty where it is right."""
    element = type_without_kernel(op)
    if element:
        return f"{element}, for which it has no kernel"
    refused = next((test for kind, test in _TESTS.items() if isinstance(op, kind)), None)
    return refused(op) if refused is not None else ""


def _pool(op: PoolOp) -> str:
    pads, kernel = int_tuple(op.pads), int_tuple(op.kernel_shape)
    reached = [pad for pad, size in zip(pads, kernel * 2, strict=True) if pad >= size]
    return f"a pool whose window lies in {reached[0]} pads alone" if reached else ""


def _resize(op: ResizeOp) -> str:
    if op.scales is not None and op.coordinate_transformation_mode.data == "align_corners":
        # It takes the corners of the output, which are not those at size * scale.
        return "align_corners with scales that lead to no whole size"
    mode = op.mode.data
    if mode != "nearest" and not is_float(element_type_of(op.input.type)):
        return f"a {mode} Resize of integers, which it cuts off"
    weighs = mode == "cubic" or (mode == "linear" and op.antialias.value.data)
    if op.exclude_outside.value.data and not weighs:
        return f"exclude_outside with mode {mode}"
    return _resize_of_rank(mode, shape_of(op.input.type), shape_of(op.result.type))


def _resize_of_rank(mode: str, given: Sequence[int], made: Sequence[int]) -> str:
    """Names a Resize that ONNX Runtime refuses: it interpolates images in a batch of channels, or
    arrays of few dimensions in all of them.
    """
    rank, last = len(given), len(given) - 1
    resized = {i for i, (old, new) in enumerate(zip(given, made, strict=True)) if old != new}
    ranks = {"linear": (2, 3), "cubic": (2,)}.get(mode)
    inner = {"linear": (4, 5), "cubic": (4,)}.get(mode, ())
    if ranks is None or rank in ranks or (rank in inner and not resized & {0, 1}):
        return ""
    if mode == "linear" and rank == 4 and not resized & {0, last}:
        return ""
    return f"a {mode} Resize of {rank} dimensions, {sorted(resized)} of which change"


def _lrn(op: LrnOp) -> str:
    if len(shape_of(op.input.type)) != 4:
        return f"an LRN of {len(shape_of(op.input.type))} dimensions"
    if op.size.value.data % 2 == 0:
        return f"an LRN over {op.size.value.data} channels, an even number"
    # It updates one sum from channel to channel, subtracting what leaves the window.
    if op.size.value.data == 1:
        return "an LRN over one channel, in which what rounding left of those before stays"
    if min(op.alpha.value.data, op.beta.value.data) <= 0:
        return "an LRN whose alpha or beta is not above 0"
    return ""


def _divided(op: DivOp | ModOp) -> str:
    divisors = known_values(op.rhs)
    is_zero = divisors is not None and divisors.dtype.kind in "iu" and not divisors.all()
    return "integers divided by 0" if is_zero else ""


def _reduced(op: ReduceOp) -> str:
    if is_float(element_type_of(op.input.type)):
        return ""
    return "integers, whose sums and products it saturates"


def _pow(op: PowOp) -> str:
    is_integer = not is_float(element_type_of(op.result.type))
    return "an integer power, which it computes in floats" if is_integer else ""


def _recurrent(op: RnnOp | GruOp | LstmOp) -> str:
    lengths = known_values(op.lengths)
    if lengths is None:
        return "lengths of sequences that only a run tells, of which it has other results for 0"
    steps = shape_of(op.input.type)[0]
    if lengths.size and lengths.min() <= 0:
        return "a sequence without elements, whose last state is not the first"
    return _too_long(lengths, steps)


def _reverse_sequence(op: ReverseSequenceOp) -> str:
    lengths = known_values(op.lengths)
    steps = shape_of(op.input.type)[op.time_axis.value.data]
    if lengths is not None and lengths.size and lengths.min() < 0:
        return f"a sequence of length {lengths.min()}"
    return "" if lengths is None else _too_long(lengths, steps)


def _scattered(op: ScatterElementsOp | ScatterNdOp) -> str:
    """Names a scatter of f16 that ONNX Runtime refuses: it finds a kernel, which fails when it is
    run.
    """
    how, refused = op.reduction.data, ["add", "mul"]
    if isinstance(op, ScatterNdOp):
        refused += ["min", "max"]
    is_half = str(element_type_of(op.input.type)) == "f16"
    return f"f16 scattered with {how}" if is_half and how in refused else ""


def _too_long(lengths: np.ndarray, steps: int) -> str:
    beyond = lengths[lengths > steps]
    return f"a sequence of length {beyond[0]} in {steps} steps" if beyond.size else ""


_TESTS: dict[type[Operation], Callable[[Any], str]] = {
    DivOp: _divided,
    GruOp: _recurrent,
    LrnOp: _lrn,
    LstmOp: _recurrent,
    ModOp: _divided,
    PoolOp: _pool,
    PowOp: _pow,
    ReduceL1Op: _reduced,
    ReduceProdOp: _reduced,
    ReduceSumOp: _reduced,
    ReduceSumSquareOp: _reduced,
    ResizeOp: _resize,
    ReverseSequenceOp: _reverse_sequence,
    RnnOp: _recurrent,
    ScatterElementsOp: _scattered,
    ScatterNdOp: _scattered,
}

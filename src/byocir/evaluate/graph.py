"""The meaning of graph ops, on numpy arrays.

What an op means is its ONNX form, taken from the op table and run by onnx's reference evaluator.
`GRAPH_RULES` holds numpy rules of our own for ops that have no ONNX operator, for exact integer
contractions, and where onnx's reference is slow or wrong: its pools walk over windows in Python and
fail for padded 8-bit integers ("cannot convert float NaN to integer"), its QuantizeLinear converts
to int32 before it saturates. ONNX Runtime is never used: results must not depend on what is
installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region

from byocir.dialects.graph import (
    AveragePoolOp,
    ConstantOp,
    ConvOp,
    FixedAttr,
    GraphOp,
    LpPoolOp,
    MatmulOp,
    MaxPoolOp,
    PoolOp,
    QuantizeOp,
    RequantizeOp,
    ResizeOp,
    SumPoolOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.fixed_point import Rounding, rescale
from byocir.dialects.graph.nn import BYTES
from byocir.dialects.graph.pool import window_counts
from byocir.dialects.graph.quant import HALF_UP
from byocir.dialects.locations import place
from byocir.dialects.types import Shape, dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.graph_arrays import ARRAY_RULES
from byocir.evaluate.graph_elementwise import ELEMENTWISE_RULES
from byocir.evaluate.graph_recurrent import RECURRENT_RULES
from byocir.evaluate.graph_reduce import REDUCE_RULES
from byocir.evaluate.resize import resize
from byocir.evaluate.rule import Rule
from byocir.evaluate.scalar import saturate
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.reference import NotComputed, Reference
from byocir.memory import refused


def evaluate_graph_op(op: Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a graph op for these operands, whose shapes and dtypes are the op's own.
    Integers wrap around. Raises ByocirError B107 for a constant whose values are absent, B109 for
    an op that is no graph op, B312 for values that it does not take, as an index out of range."""
    rule = GRAPH_RULES.get(type(op), _by_reference)
    try:
        with refused(f"room for {op.name}", place(op.location)):
            made = rule(op, operands)
    except (NotComputed, IndexError) as error:
        raise ByocirError(
            "B312",
            f"expected an operator that can be run on these values, found {op.name}: {error}",
            where=place(op.location),
        ) from error
    arrays = list(map(np.asarray, made if isinstance(made, list | tuple) else [made]))
    for array, result in zip(arrays, op.results, strict=True):
        type_ = result.type
        assert array.shape == shape_of(type_), (op.name, array.shape, type_)
        assert array.dtype == dtype_of(element_type_of(type_)), (op.name, array.dtype, type_)
    return arrays


# -- by onnx's reference


def _by_reference(op: Operation, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    reference = _reference(
        cast(type[GraphOp], type(op)),
        tuple(value.type for value in op.operands),
        tuple(op.properties.items()),
        tuple(result.type for result in op.results),
    )
    return reference.run(dict(zip(reference.inputs, operands, strict=True)))


@lru_cache(maxsize=1024)
def _reference(
    op: type[GraphOp],
    operands: tuple[Attribute, ...],
    properties: tuple[tuple[str, Attribute], ...],
    results: tuple[Attribute, ...],
) -> Reference:
    """The evaluator of all ops with these types and properties: a function of one op, exported."""
    block = Block(arg_types=operands)
    only = op.create(operands=block.args, result_types=results, properties=dict(properties))
    block.add_ops([only, ReturnOp(*only.results)])
    return Reference(export_onnx(FuncOp("op", (operands, results), Region(block))))


# -- windows


def _slices(
    x: np.ndarray, out: Shape, op: PoolOp | ConvOp, kernel: Sequence[int], fill: Any
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """For each position in the kernel, in order, the elements of `x` [N,C,spatial…] that the
    windows have there [N,C,out…]. Outside of `x` there is `fill`."""
    strides, dilations = int_tuple(op.strides), int_tuple(op.dilations)
    begins = int_tuple(op.pads)[: len(kernel)]
    reach = [
        (count - 1) * stride + (extent - 1) * dilation + 1
        for count, stride, extent, dilation in zip(out, strides, kernel, dilations, strict=True)
    ]
    ends = [max(r - b - d, 0) for r, b, d in zip(reach, begins, x.shape[2:], strict=True)]
    padding = [(0, 0), (0, 0), *zip(begins, ends, strict=True)]
    op.ask_for([n + sum(pad) for n, pad in zip(x.shape, padding, strict=True)], x.dtype)
    padded = np.pad(x, padding, constant_values=fill)
    for position in product(*map(range, kernel)):
        starts = [p * d for p, d in zip(position, dilations, strict=True)]
        window = (
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(starts, out, strides, strict=True)
        )
        yield position, padded[(slice(None), slice(None), *window)]


def _pool_slices(op: PoolOp, x: np.ndarray, fill: Any) -> Iterator[np.ndarray]:
    out = shape_of(op.result.type)[2:]
    return (part for _, part in _slices(x, out, op, int_tuple(op.kernel_shape), fill))


def _max_pool(op: MaxPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x = operands[0]
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    result = np.full(shape_of(op.result.type), least, x.dtype)
    for part in _pool_slices(op, x, least):
        np.maximum(result, part, out=result)
    return result


def _average_pool(op: AveragePoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x = operands[0]
    wide = np.promote_types(x.dtype, np.float32)
    total = np.zeros(shape_of(op.result.type), wide)
    for part in _pool_slices(op, x.astype(wide), 0):
        total += part
    counts = window_counts(op, bool(op.count_include_pad.value.data))
    return (total / counts.astype(wide)).astype(x.dtype)


def _lp_pool(op: LpPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Onnx's reference scales windows that lie partly beyond the pads, as an average would be."""
    x, p = operands[0], op.p.value.data
    wide = np.promote_types(x.dtype, np.float32)
    total = np.zeros(shape_of(op.result.type), wide)
    for part in _pool_slices(op, np.abs(x.astype(wide)), 0):
        total += part if p == 1 else part * part if p == 2 else part ** wide.type(p)
    root = total if p == 1 else np.sqrt(total) if p == 2 else total ** wide.type(1 / p)
    return root.astype(x.dtype)


def _sum_pool(op: SumPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    total = np.zeros(shape_of(op.result.type), np.int32)
    for part in _pool_slices(op, operands[0], 0):
        total += part
    return total


# -- contractions


def _conv(op: ConvOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Adds one matrix product for each kernel position: integers exactly, for products of bytes
    summed in float64 stay far below 2^53. Onnx's reference multiplies what lies between the taps of
    a dilated kernel by zeros, so that a NaN there spreads."""
    x, w = operands[0], operands[1]
    group, out = op.group.value.data, shape_of(op.result.type)
    whole = element_type_of(op.input.type) in BYTES
    wide = np.dtype(np.float64) if whole else np.promote_types(x.dtype, np.float32)
    op.ask_for(out, wide)
    # Kernel positions first, so that each is a contiguous matrix: numpy has no BLAS for others.
    weights = np.moveaxis(w, (0, 1), (-2, -1)).astype(wide, order="C")
    weights = weights.reshape(*w.shape[2:], group, w.shape[0] // group, w.shape[1])
    total = np.zeros((x.shape[0], group, w.shape[0] // group, math.prod(out[2:])), wide)
    for position, part in _slices(x.astype(wide), out[2:], op, w.shape[2:], 0):
        columns = part.reshape(x.shape[0], group, w.shape[1], math.prod(out[2:]))
        total += weights[position] @ columns
    result = (total.astype(np.int64) if whole else total).reshape(out)
    if len(operands) > 2:
        result += operands[2].reshape(-1, *(1 for _ in out[2:]))
    return result.astype(np.int32 if whole else x.dtype)


def _matmul(op: MatmulOp, operands: Sequence[np.ndarray]) -> np.ndarray | Sequence[np.ndarray]:
    lhs, rhs = operands
    if element_type_of(op.lhs.type) not in BYTES:
        return _by_reference(op, operands)
    total = np.asarray(lhs.astype(np.float64) @ rhs.astype(np.float64))
    return total.astype(np.int64).astype(np.int32)


# -- quantisation


def _quantize(op: QuantizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, scale, zero_point = operands
    if scale.ndim:  # along the axis
        column = [-1] + [1] * (x.ndim - 1 - op.axis.value.data)
        scale, zero_point = scale.reshape(column), zero_point.reshape(column)
    wide = np.promote_types(x.dtype, np.float32)
    with np.errstate(over="ignore"):  # ONNX divides in the type of the scale
        rounded = np.rint((x / scale).astype(wide))
    return saturate(rounded + zero_point.astype(wide), zero_point.dtype)


def _requantize(op: RequantizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    dtype = dtype_of(op.to)
    if isinstance(op.rounding, FixedAttr):
        x, multiplier = (array.astype(np.int64) for array in operands)
        ties: Rounding = "half_up" if op.rounding.ties.data == HALF_UP else "half_even"
        rounded = rescale(x, multiplier, op.rounding.shift.data, ties)
    else:
        x, scale, *after = operands
        scaled = x.astype(np.float32) * scale
        rounded = np.rint(scaled / after[0] if after else scaled)
    return saturate(rounded + op.zero_point.value.data, dtype)


def _constant(op: ConstantOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    return op.value.data.values()


GRAPH_RULES: Mapping[type[Operation], Rule] = {
    **ARRAY_RULES,
    **ELEMENTWISE_RULES,
    **RECURRENT_RULES,
    **REDUCE_RULES,
    AveragePoolOp: _average_pool,
    ConstantOp: _constant,
    ConvOp: _conv,
    LpPoolOp: _lp_pool,
    MatmulOp: _matmul,
    MaxPoolOp: _max_pool,
    QuantizeOp: _quantize,
    RequantizeOp: _requantize,
    ResizeOp: resize,
    SumPoolOp: _sum_pool,
}
"""Our own rules, by op class. Every other graph op is evaluated by its ONNX form."""

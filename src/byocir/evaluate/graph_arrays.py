"""Numpy rules of ops where onnx's reference is wrong or slow: it fails for pads below 0, for
transposed convolutions in groups, for gathers by element of fewer rows and for gathers of no
batches, rounds the values of OneHot, loses the shape of an empty Slice and pools other axes than
the spatial ones where these are not two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import cast

import numpy as np
from xdsl.ir import Operation

from byocir.dialects.graph import (
    ConvTransposeOp,
    FlattenOp,
    GatherElementsOp,
    GatherNdOp,
    GlobalMaxPoolOp,
    OneHotOp,
    PadOp,
    SliceOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import shape_of
from byocir.evaluate.rule import Rule


def _slice(op: SliceOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    rows = zip(*map(int_tuple, (op.starts, op.sizes, op.steps)), strict=True)
    chosen = [range(start, start + size * step, step) for start, size, step in rows]
    ends = [each.stop if each.stop >= 0 else None for each in chosen]
    return operands[0][
        tuple(
            slice(each.start, end if len(each) else each.start, each.step)
            for each, end in zip(chosen, ends, strict=True)
        )
    ]


def _pad(op: PadOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, pads, rank = operands[0], int_tuple(op.pads), operands[0].ndim
    begins, ends = pads[:rank], pads[rank:]
    kept: np.ndarray = x[
        tuple(
            slice(max(-begin, 0), size - max(-end, 0))
            for begin, end, size in zip(begins, ends, x.shape, strict=True)
        )
    ]
    width = [(max(begin, 0), max(end, 0)) for begin, end in zip(begins, ends, strict=True)]
    if not width:
        return kept
    pad = cast(Callable[..., np.ndarray], np.pad)  # numpy's types know modes as literals only
    if op.mode.data == "constant":
        fill = op.value.data.values() if op.value is not None else 0
        return pad(kept, width, constant_values=fill)
    return pad(kept, width, mode=op.mode.data)


def _gather_elements(op: GatherElementsOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, indices = operands
    places = list[np.ndarray](np.indices(indices.shape))
    places[op.axis.value.data] = indices
    return x[tuple(places)]


def _gather_nd(op: GatherNdOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, indices = operands
    batch = op.batch_dims.value.data
    along = np.indices(indices.shape[:-1], sparse=True)[:batch]
    return x[(*along, *np.moveaxis(indices, -1, 0))]


def _one_hot(op: OneHotOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    indices, values = operands
    axis, depth = op.axis.value.data, op.depth.value.data
    at = np.expand_dims(indices, axis)
    places = np.arange(depth).reshape(-1, *(1 for _ in range(indices.ndim - axis)))
    hit = (at == places) | (at == places - depth)
    return values[hit.astype(np.intp)]


def _global_max_pool(op: GlobalMaxPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    return np.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _around(op: ConvTransposeOp, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Counts the elements before the first, and behind the last, of each spatial dimension the
    kernel reaches from the elements of the result."""
    rows = zip(
        sizes,
        int_tuple(op.strides),
        int_tuple(op.dilations),
        shape_of(op.weight.type)[2:],
        int_tuple(op.pads),
        shape_of(op.result.type)[2:],
        strict=False,
    )
    reach = [((k - 1) * d - b, b + o - 1, n, s) for n, s, d, k, b, o in rows]
    return [(max(before // s, 0), max(last // s - (n - 1), 0)) for before, last, n, s in reach]


def _conv_transpose(op: ConvTransposeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Adds the products with each kernel position to every `strides`-th element. As blocks have
    it, there are zeros around the input, of which weights that are not finite make NaN."""
    x, w, group = operands[0], operands[1], op.group.value.data
    strides, dilations = int_tuple(op.strides), int_tuple(op.dilations)
    begins, out = int_tuple(op.pads)[: x.ndim - 2], shape_of(op.result.type)
    if not np.isfinite(w).all():
        around = _around(op, x.shape[2:])
        x = np.pad(x, [(0, 0), (0, 0), *around])
        begins = [b + s * pads[0] for b, s, pads in zip(begins, strides, around, strict=True)]
    kernel, sizes, outputs = w.shape[2:], x.shape[2:], w.shape[1]
    reach = [
        max((n - 1) * s + (k - 1) * d + 1, b + o)
        for n, s, k, d, b, o in zip(sizes, strides, kernel, dilations, begins, out[2:], strict=True)
    ]
    wide = np.promote_types(x.dtype, np.float32)
    op.ask_for((x.shape[0], w.shape[1] * group, *reach), wide)
    total = np.zeros((x.shape[0], group, outputs, *reach), wide)
    flat = (x.shape[0], group, x.shape[1] // group, prod(sizes))  # an empty batch, too
    columns = x.reshape(flat).astype(wide)
    weights = w.reshape(group, w.shape[0] // group, outputs, *kernel).astype(wide)
    for position in product(*map(range, kernel)):
        part = np.swapaxes(weights[(..., *position)], 1, 2) @ columns
        places = (
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(position, dilations, sizes, strides, strict=True)
        )
        total[(..., *places)] += part.reshape(*part.shape[:3], *sizes)
    cut = (slice(b, b + o) for b, o in zip(begins, out[2:], strict=True))
    result = total[(..., *cut)].reshape(out)
    if len(operands) > 2:
        result = result + operands[2].reshape(-1, *(1 for _ in sizes))
    return result.astype(x.dtype)


def _flatten(op: FlattenOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """onnx's reference cannot tell the sizes of nothing."""
    return operands[0].reshape(shape_of(op.result.type))


ARRAY_RULES: Mapping[type[Operation], Rule] = {
    ConvTransposeOp: _conv_transpose,
    FlattenOp: _flatten,
    GatherElementsOp: _gather_elements,
    GatherNdOp: _gather_nd,
    GlobalMaxPoolOp: _global_max_pool,
    OneHotOp: _one_hot,
    PadOp: _pad,
    SliceOp: _slice,
}
"""By op class."""

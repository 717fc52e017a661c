"""The arrays in main memory of a described machine's programs, as their code numbers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from byocir.dialects.tir import AllocOp, ConstantOp, scope_of
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.evaluate.ports import ports_of
from byocir.targets.described import functions_of


def arrays_of(
    blobs: Mapping[str, bytes], symbol: str, inputs: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The outputs of a program that begins on these inputs, and all of its arrays in order."""
    function = functions_of(blobs)[symbol]
    _, types = ports_of(function)
    outputs = [np.zeros(shape_of(t), dtype_of(element_type_of(t))) for t in types]
    others = [found for op in function.body.block.ops if (found := _array_of(op)) is not None]
    return outputs, [*map(np.ascontiguousarray, inputs), *outputs, *others]


def _array_of(op: Operation) -> np.ndarray | None:
    """A constant, or a buffer in main memory."""
    if isinstance(op, ConstantOp):
        return op.value.data.values().copy()
    if isinstance(op, AllocOp) and not scope_of(op.result.type):
        return np.zeros(shape_of(op.result.type), dtype_of(element_type_of(op.result.type)))
    return None

"""Finds the numbers that composites read around their inputs, at either level."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.graph import ConvOp, PadOp, SumPoolOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir import BlockOp


def numbers_around(composite: CompositeOp) -> dict[int, int]:
    """Finds the number that a composite reads around each input, by the input's order, where it
    reads outside. A maximum over windows can have a guard instead, and needs none.
    """
    arguments: list[SSAValue] = list(composite.body.block.args)
    return {
        arguments.index(value): number
        for op in composite.body.block.ops
        for value, number in _read_around(op)
        if value in arguments
    }


def _read_around(op: Operation) -> Iterator[tuple[SSAValue, int]]:
    """Yields the operands that an op reads with a number around them, and the number."""
    if isinstance(op, PadOp):
        yield op.input, 0 if op.value is None else int(op.value.data.values())
    elif isinstance(op, ConvOp | SumPoolOp) and any(int_tuple(op.pads)):
        yield op.input, 0
    elif isinstance(op, BlockOp) and not any(isinstance(o, arith.MaxSIOp) for o in op.body.walk()):
        for value, pad in zip(op.ins, op.pad_values, strict=True):
            if isinstance(pad, IntegerAttr):
                yield value, pad.value.data

"""Counts how often the graphs of control flow and the bodies of loops run, where a program fixes
that before it runs.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from byocir.dialects.array import known_values
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir import ForOp
from byocir.dialects.types import static_shape


def trip_count(op: ForeignOp) -> int | None:
    """Counts how often a graph of control flow runs each time that the op runs: of a Scan as long
    as what it scans, of a Loop with a constant number of turns whose condition always holds that
    number, of an If once at most. None where it depends on values.
    """
    if op.op_type.data == "Scan":
        return _scanned(op)
    return _looped(op) if op.op_type.data == "Loop" else 1


def trip_count_around(op: Operation) -> int | None:
    """Counts how often an op runs each time that its function runs; None where that depends on
    values.
    """
    turns, around = 1, op.parent_op()
    while around is not None:
        if isinstance(around, ForeignOp) and around.is_control_flow:
            own = trip_count(around)
            if own is None:
                return None
            turns *= own
        elif isinstance(around, ForOp):
            if around.conditional is not None:
                return None
            turns *= around.extent.value.data
        around = around.parent_op()
    return turns


def _scanned(op: ForeignOp) -> int | None:
    count, axes = op.attrs.data.get("num_scan_inputs"), op.attrs.data.get("scan_input_axes")
    number = cast("IntegerAttr", count).value.data if isinstance(count, IntegerAttr) else 0
    if not 0 < number <= len(op.inputs):
        return None
    shape = static_shape(op.inputs[len(op.inputs) - number].type)
    axis = int_tuple(cast("DenseArrayBase[I64]", axes))[0] if axes is not None else 0
    return shape[axis] if shape else None


def _looped(op: ForeignOp) -> int | None:
    most, condition = op.optional_inputs()[:2]
    turns, block = _number(most), op.graphs[0].block
    last = block.last_op
    if turns is None or (condition is not None and not _number(condition)) or last is None:
        return None
    kept = last.operands[0]
    given = isinstance(kept, BlockArgument) and kept.block is block and kept.index == 1
    return max(turns, 0) if given or _number(kept) else None


def _number(value: SSAValue | None) -> int | None:
    """Gives the one element of a constant, at either level."""
    values = known_values(value)
    return None if values is None or values.size != 1 else int(values.reshape(-1)[0])

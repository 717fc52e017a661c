"""tabulate-bytes: turns functions of one byte into tables.

Does: what is computed between dequantize and quantize from one array of bytes, element by element
(sigmoid, tanh, gelu, hard swish, leaky relu, `x * sigmoid(x)`, …), becomes a `graph.gather` from a
constant of 256 bytes. Its indices are the bytes themselves, of which negative ones count from the
end. What is but relu and clip stays: they cost nothing behind what makes their input.

Requires: normalize-qdq and qdq-to-integer have run. A target asks for this pass (`Target.tables`);
scales that are no constants, and grids that are not per-tensor and 8-bit, keep the float form.

Guarantees: every value keeps its bits: the entries are what the evaluator computes. Locations are
kept.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import known_values
from byocir.dialects.graph import (
    CastOp,
    ClipOp,
    ConstantOp,
    DequantizeOp,
    GatherOp,
    GraphOp,
    PreluOp,
    QuantizeOp,
    ReluOp,
    WhereOp,
)
from byocir.dialects.graph.elementwise import BinaryOp
from byocir.dialects.graph.unary import UnaryOp
from byocir.dialects.types import dtype_of, element_type_of, i32, shape_of
from byocir.evaluate.graph_ops import evaluate_graph_op
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import grid_of, is_plain

_ELEMENTWISE = (UnaryOp, BinaryOp, CastOp, PreluOp, WhereOp)
_BOUNDS = (ReluOp, ClipOp)


@dataclass(frozen=True)
class TabulateBytesPass(ModulePass):
    """Turns functions of one byte between dequantize and quantize into tables of 256 entries;
    exact.
    """

    name = "tabulate-bytes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [FunctionOfBytesToTable()])


class FunctionOfBytesToTable(Pattern):
    """Replaces `quantize(f(dequantize(x)))` by a look-up of x in a table."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        found = _function_before(op)
        if found is None:
            return None
        source, ops = found
        entries = {source: every_byte(element_type_of(source.type))}
        for each in ops:
            entries[each.results[0]] = _entries(each, entries)
        return [look_up(entries[op.result], source, new)]


def look_up(table: np.ndarray, index: SSAValue, new: NewOps) -> SSAValue:
    """Looks bytes up in a table of 256 entries."""
    wide = new.add(CastOp.make(index, to=i32)).result
    return new.add(GatherOp.make(new.constant(table), wide, axis=0)).result


def every_byte(element: Attribute) -> np.ndarray:
    """Lists all bytes in the order of a table: those below 0 come last."""
    return np.arange(256, dtype=np.uint8).view(dtype_of(element))


def _function_before(quantize: QuantizeOp) -> tuple[SSAValue, list[GraphOp]] | None:
    """Finds the array of bytes on which a quantize op depends element by element, and the ops from
    there to it, in order. None where there are several such arrays, or where what is between has
    another form or use.
    """
    ops = _elementwise_before(quantize)
    if ops is None or not all(map(_is_on_bytes, ops)) or _is_used_outside(ops):
        return None
    sources = dict.fromkeys(op.input for op in ops if isinstance(op, DequantizeOp))
    between = [op for op in ops if not isinstance(op, (QuantizeOp, DequantizeOp, *_BOUNDS))]
    if len(sources) != 1 or not between:
        return None
    return next(iter(sources)), _in_order(quantize, ops)


def _elementwise_before(quantize: QuantizeOp) -> dict[GraphOp, None] | None:
    """Lists the ops on all ways from dequantize ops to a quantize op, these included; None where
    one of them does not work element by element.
    """
    ops: dict[GraphOp, None] = {quantize: None}
    pending = [quantize.input]
    while pending:
        value = pending.pop()
        op = value.owner
        if _is_number(value) or op in ops:
            continue
        same_shape = shape_of(value.type) == shape_of(quantize.result.type)
        if not isinstance(op, (*_ELEMENTWISE, DequantizeOp)) or not same_shape:
            return None
        ops[op] = None
        pending += () if isinstance(op, DequantizeOp) else op.operands
    return ops


def _in_order(last: GraphOp, ops: Container[Operation]) -> list[GraphOp]:
    """Sorts ops, each behind those that make its operands."""
    ordered: dict[GraphOp, None] = {}
    pending = [last]
    while pending:
        makers = [value.owner for value in pending[-1].operands]
        needed = [
            op for op in makers if isinstance(op, GraphOp) and op in ops and op not in ordered
        ]
        if not needed:
            ordered[pending.pop()] = None
        pending += needed
    return [*ordered]


def _is_on_bytes(op: GraphOp) -> bool:
    """Tells whether an op is no quantize or dequantize op, or one with a grid of bytes."""
    return not isinstance(op, QuantizeOp | DequantizeOp) or is_plain(grid_of(op))


def _is_number(value: SSAValue) -> bool:
    values = known_values(value)
    return values is not None and values.size == 1


def _is_used_outside(ops: dict[GraphOp, None]) -> bool:
    inner = [op for op in ops if not isinstance(op, QuantizeOp)]
    return any(use.operation not in ops for op in inner for use in op.results[0].uses)


def _entries(op: GraphOp, known: dict[SSAValue, np.ndarray]) -> np.ndarray:
    """Computes the table entries of an op from those of its operands."""
    arrays = [_operand(value, known) for value in op.operands]
    operands = [ConstantOp.of(array).result for array in arrays]
    made = type(op).make(*operands, **cast("dict[str, Any]", op.properties))
    with np.errstate(all="ignore"):
        (entries,) = evaluate_graph_op(made, arrays)
    return entries


def _operand(value: SSAValue, known: dict[SSAValue, np.ndarray]) -> np.ndarray:
    if value in known:
        return known[value]
    number = known_values(value)
    assert number is not None
    return number.reshape(())

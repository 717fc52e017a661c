"""Counts the work of blocks of the tensor level on VTA, for `vta_cost`, whoever wrote them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir import BlockOp
from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import i64, nbytes, shape_of
from byocir.lowering.tir_to_vta.layout import Data, contraction_roles, weights_of
from byocir.lowering.tir_to_vta.legalise_groups import sharing
from byocir.targets.vta_work import (
    UnitWork,
    inputs_of,
    padded,
    requantise_steps,
    vectors,
)

FREE = (arith.ConstantOp, arith.ExtSIOp, arith.TruncIOp)
"""Ops that take no step of the ALU: they are how values are loaded and stored."""


def work_of_blocks(ops: Sequence[Operation], block: int, rounding: str) -> UnitWork | None:
    """Counts the work of blocks that are one composite, the last one first. None for a contraction
    whose arrays have no layout with `block` lanes.
    """
    work, blocks = UnitWork(), [op for op in ops if isinstance(op, BlockOp)]
    channels, read = 1, dict[SSAValue, int]()
    for op in blocks:
        if op.reductions and len(op.ins) == 2:
            roles = contraction_roles(op)
            if roles is None:
                return None
            x, _, result = roles
            channels = result.channels
            steps, squares = _squares(op, x, result, block)
            work.gemm += steps
            weights, data = op.ins[weights_of(op)], op.ins[1 - weights_of(op)]
            read |= {weights: squares * block * block, data: padded(data.type, block, x.channels)}
    pool = next((op for op in blocks if _takes_maxima(op)), None)
    for op in blocks:
        immediate, register, multiplies = _alu_steps(op, rounding)
        # Maxima are those of the sums: what is computed of these is computed of the maxima.
        count = vectors((pool or op).results[0].type, block, channels)
        work.immediate += immediate * count
        work.register += register * count
        work.multiplies += multiplies * count
    if work.moves_nothing:
        return work
    for value in inputs_of(blocks):
        size = (
            nbytes(value.type) if is_constant_value(value) else padded(value.type, block, channels)
        )
        work.read += read.get(value, size)
    work.written = sum(padded(result.type, block, channels) for result in blocks[0].results)
    return work


def _squares(op: BlockOp, x: Data, result: Data, block: int) -> tuple[int, int]:
    """Counts the steps of the GEMM unit, and the squares of weights that are loaded."""
    of_w, of_x = op.in_maps[weights_of(op)].results, op.in_maps[1 - weights_of(op)].results
    out, shape = op.out_maps[0].results, shape_of(op.results[0].type)
    lanes, summed = _dims(out[result.channels : result.channels + 1]), _dims(of_w) - _dims(out)
    groups = _extent(op, lanes & _dims(of_x))
    outputs = max(1, shape[result.channels] // groups)
    inputs = _extent(op, summed & _dims(of_x[x.channels : x.channels + 1]))
    kernel = _extent(op, summed) // inputs
    shared = sharing(inputs, outputs, block) if groups > 1 else 1
    each = math.ceil(shared * inputs / block) * math.ceil(shared * outputs / block)
    squares = math.ceil(groups / shared) * each * kernel
    matrices = _extent(op, _dims(of_w) & _dims(out) - lanes)
    return math.prod(shape) // shape[result.channels] * squares, matrices * squares


def _dims(exprs: Sequence[AffineExpr]) -> set[int]:
    """Collects the iterators in some indices."""
    return set[int]().union(*(expr.used_dims() for expr in exprs))


def _extent(op: BlockOp, iterators: set[int]) -> int:
    return math.prod(op.extents[i] for i in iterators)


def _alu_steps(op: BlockOp, rounding: str) -> tuple[int, int, int]:
    """Counts the steps for each vector of the result, with an immediate and on two registers, and
    how many of the latter multiply. A product is done by the GEMM unit; a window takes a step for
    each of its elements; a requantisation takes the steps that VTA's lowering makes of its body.
    """
    points = math.prod(op.extents[i] for i in op.reductions)
    if op.reductions:
        return (0, 0, 0) if len(op.ins) == 2 else (0, points, 0)
    steps = [inner for inner in op.body.block.ops if inner.operands and not isinstance(inner, FREE)]
    steps = [inner for inner in steps if inner.results]
    register = [step for step in steps if not any(map(_is_number, step.operands))]
    products = [step for step in register if isinstance(step, arith.MuliOp)]
    shifts = any(isinstance(step, arith.ShRSIOp) for step in steps)
    if shifts and any(step.results[0].type == i64 for step in products):
        return (*requantise_steps(rounding), 1)
    return len(steps) - len(register), len(register), len(products)


def _takes_maxima(op: BlockOp) -> bool:
    return bool(op.reductions) and isinstance(op.yielded[0].owner, arith.MaxSIOp)


def _is_number(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)

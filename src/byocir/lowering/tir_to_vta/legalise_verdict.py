"""Tells if VTA computes what a pattern matched, before anything is taken: by the functions with
which `vta-legalise` computes it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeGuard

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.array import Array, known_values
from byocir.dialects.graph import RequantizeOp
from byocir.dialects.graph.quant import rescaled
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.memos import Memo
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    FillOp,
    IteratorAttr,
    IteratorKind,
)
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import dtype_of, element_type_of, i32, shape_of, tensor
from byocir.dialects.uses import erase
from byocir.lowering.tir_to_vta.legalise_bodies import why_not_computed
from byocir.lowering.tir_to_vta.legalise_space import view_of
from byocir.rewrites.block_ends import scalar_ends
from byocir.rewrites.host.fuse_blocks import fuse_into, with_numbers
from byocir.rewrites.machine.restate_bodies import why_not_restated


def requantise_fits(op: RequantizeOp) -> bool:
    """Tells if 32 bits are enough to multiply the integers of a requantise in fixed point by known
    numbers, to round, shift and add a zero point, and to saturate. Several patterns ask that of
    each.
    """
    multipliers = known_values(op.scales[0])
    assert multipliers is not None
    numbers = np.unique(multipliers)
    types = element_type_of(op.input.type), element_type_of(op.result.type)
    key = (numbers.dtype.str, numbers.tobytes(), *types, op.to, op.rounding, op.zero_point)
    return _FITS.of(key, lambda: _computed_in_i32(op, numbers))


_FITS = Memo[Hashable, bool](1024)


def _computed_in_i32(op: RequantizeOp, numbers: np.ndarray) -> bool:
    """Makes a block of a requantise by numbers, and tells if 32 bits are enough for it."""
    result = element_type_of(op.result.type)
    factors = ConstantOp.of(Array.of(numbers))
    channels, types = shape_of(factors.result.type), [element_type_of(op.input.type), i32, result]
    outside = Block([factors], arg_types=[tensor(types[0], channels)])
    empty = EmptyOp.of(tensor(result, channels))
    outside.add_op(empty)

    def computed(x: Emitted, factor: Emitted, _: Emitted) -> Emitted:
        return rescaled(x, factor, op)

    iterators = [IteratorAttr.of("c", IteratorKind.PARALLEL, *channels)]
    ins, maps = [outside.args[0], factors.result], [AffineMap.identity(1)] * 3
    outside.add_op(
        block := BlockOp(iterators, ins, [empty.result], maps, emit_body(types, computed))
    )
    return not why_not_restated(block, i32, scalar_ends(block))


def refusal(blocks: Sequence[BlockOp]) -> str:
    """Says why VTA cannot compute the bodies of blocks, each of which comes after those that it
    reads; empty if it can. Reductions may give any number of their type.
    """
    body, copies, given = Block(), dict[SSAValue, SSAValue](), dict[SSAValue, Interval]()
    reduced = set[SSAValue]()
    try:
        for block in blocks:
            if block.reductions:
                reduced.update(block.results)
                continue
            is_behind = any(value in reduced or value in copies for value in block.ins)
            if not block.in_value_form or (not is_behind and _is_read_through(block)):
                continue
            if moved := next((m for m in block.in_maps if _moves(block, m)), None):
                return f"elements read at {moved} and not summed"
            if strange := next(_read_otherwise(block), None):
                return f"elements read at {strange}"
            _copy(block, body, copies, given)
        for op in [op for op in body.ops if isinstance(op, BlockOp)]:
            with_numbers(fuse_into(op))
        for op in [op for op in body.ops if isinstance(op, BlockOp)]:
            if reason := why_not_computed(op, given):
                return reason
    finally:
        for op in reversed(list(body.ops)):
            erase(op)
    return ""


def _copy(
    block: BlockOp,
    body: Block,
    copies: dict[SSAValue, SSAValue],
    given: dict[SSAValue, Interval],
) -> None:
    """Copies a block into a body. What it reads from elsewhere may be any number of its type, if it
    is no constant; one whose bytes are absent, so that rules that look at shapes only can still be
    checked, is 1.
    """
    for value in block.operands:
        owner = value.owner
        if value in copies or isinstance(owner, FillOp | EmptyOp):
            continue
        if not isinstance(owner, ConstantOp):
            given[value] = integer_range(element_type_of(value.type))
        elif not owner.value.data.present:
            shape, dtype = shape_of(value.type), dtype_of(element_type_of(value.type))
            body.add_op(ones := ConstantOp.of(Array.of(np.ones(shape, dtype))))
            copies[value] = ones.result
    body.add_op(made := block.clone(copies))
    copies.update(zip(block.results, made.results, strict=True))


def _is_read_through(block: BlockOp) -> bool:
    """Tells if only reductions read a block: they read the numbers around its input as pads."""
    users = [use.operation for use in block.results[0].uses]
    return bool(users) and all(isinstance(u, BlockOp) and u.reductions for u in users)


def _moves(block: BlockOp, map_: AffineMap) -> bool:
    """Tells if an index still computes something once iterators of one point are 0."""
    dims = [
        AffineExpr.constant(0) if extent == 1 else AffineExpr.dimension(i)
        for i, extent in enumerate(block.extents)
    ]
    found = (expr.replace_dims_and_symbols(dims, []) for expr in map_.results)
    return any(isinstance(expr, AffineBinaryOpExpr) for expr in found)


def _read_otherwise(block: BlockOp) -> Iterator[str]:
    """Yields the indices of computed operands that are neither the result's, dimension for
    dimension, nor those of a view between [N, C] and [N, C, 1, …].
    """
    places = {e.position: n for n, e in enumerate(block.out_maps[0].results) if _is_dim(e)}
    order = [
        AffineExpr.dimension(places[i]) if i in places else AffineExpr.constant(0)
        for i in range(len(block.extents))
    ]
    shape = shape_of(block.results[0].type)
    for value, map_ in zip(block.ins, block.in_maps, strict=True):
        found = [expr.replace_dims_and_symbols(order, []) for expr in map_.results]
        placed = AffineMap(len(shape), 0, tuple(found))
        given = shape_of(value.type)
        if not isinstance(value.owner, ConstantOp | FillOp) and not view_of(placed, shape, given):
            yield f"{map_} of {value.type}"


def _is_dim(expr: AffineExpr) -> TypeGuard[AffineDimExpr]:
    return isinstance(expr, AffineDimExpr)

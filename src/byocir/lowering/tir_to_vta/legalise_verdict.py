"""Tells if VTA computes what a pattern matched, before anything is taken: by the functions with
which `vta-legalise` computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.graph.fixed_point import Rounding
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir import BlockOp, ConstantOp, FillOp
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.legalise_lanes import Constant, Lane, Requantised, merge_clamps
from byocir.lowering.tir_to_vta.legalise_requantise import NeedsMoreBits, expand, expand_all
from byocir.lowering.tir_to_vta.legalise_scalars import Value, lane_of
from byocir.lowering.tir_to_vta.legalise_space import spread, view_of

BEYOND = "numbers beyond 32 bits"


def requantise_fits(
    operand: Interval,
    multipliers: np.ndarray,
    rescaling: tuple[int, Rounding, int],
    result: Interval,
) -> bool:
    """Tells if 32 bits are enough to multiply integers in the range of `operand`, to round, shift
    and add a zero point (`rescaling`), and to saturate to the range of `result`.
    """
    shift, rounding, zero = rescaling
    numbers = Constant(np.asarray(multipliers, np.int64).reshape(-1))
    lane = Lane(operand, UNKNOWN_LOC)
    try:
        expand(Requantised(result, UNKNOWN_LOC, lane, numbers, shift, rounding, zero))
    except NeedsMoreBits:
        return False
    return True


def refusal(blocks: Sequence[BlockOp]) -> str:
    """Says why VTA cannot compute the bodies of blocks, each of which comes after those that it
    reads; empty if it can. Reductions may give any number of their type.
    """
    lanes: dict[SSAValue, Lane] = {}
    reduced, used = set[SSAValue](), set[SSAValue]()
    try:
        for block in blocks:
            if block.reductions:
                reduced.update(block.results)
                continue
            is_behind = any(value in reduced or value in lanes for value in block.ins)
            if not block.in_value_form or (not is_behind and _is_read_through(block)):
                continue
            if moved := next((m for m in block.in_maps if _moves(block, m)), None):
                return f"elements read at {moved} and not summed"
            if strange := next(_read_otherwise(block), None):
                return f"elements read at {strange}"
            arguments = _arguments(block, lanes)
            lanes[block.results[0]] = lane_of(block, arguments, len(block.extents))
            used.update(block.ins)
        expand_all(merge_clamps([lane for value, lane in lanes.items() if value not in used]))
    except NeedsMoreBits:
        return BEYOND
    except ByocirError as error:
        return error.message
    return ""


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


def _arguments(block: BlockOp, lanes: dict[SSAValue, Lane]) -> dict[SSAValue, Value]:
    values = [*block.ins, *block.outs]
    maps = [*block.in_maps, *block.out_maps]
    return {
        argument: _value(value, map_, block.extents, lanes)
        for argument, value, map_ in zip(block.body.block.args, values, maps, strict=True)
        if argument.first_use is not None
    }


def _value(value: SSAValue, map_: AffineMap, extents: Shape, lanes: dict[SSAValue, Lane]) -> Value:
    owner = value.owner
    if isinstance(owner, ConstantOp):
        if not owner.value.data.present:  # rules that look at shapes only can still be checked
            return Constant.uniform(1, len(extents))
        return Constant(spread(owner.value.data.values(), map_, extents))
    return lanes.get(value) or Lane(integer_range(element_type_of(value.type)), UNKNOWN_LOC)

"""Finds constants whose products are known numbers, for instructions that add products to sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr

from byocir.dialects.intervals import integer_range
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import dtype_of, is_integer
from byocir.machine import Limit
from byocir.machine.instructions import Instruction, init_of
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.nodes import ValuePattern
from byocir.rewrites.machine.pieces import Made
from byocir.rewrites.machine.restate_bodies import is_signed
from byocir.rewrites.numbers_as_products import (
    input_of_numbers,
    least_count,
    weights_of_numbers,
)


def factors_of(
    op: BlockOp, numbers: np.ndarray, instruction: Instruction, form: BlockPattern
) -> Iterator[tuple[tuple[Made, Made], int]]:
    """Yields pairs of constants, inputs and weights, of which an instruction that adds products
    makes known numbers: one number for each lane of a block's result. The products are summed over
    one more iterator, whose extent comes with the pair. There are none for forms that add no
    products of two arrays.
    """
    if init_of(form) is None or not form.iterators.reduction or len(form.reads) != 2:
        return
    summed, lanes = AffineExpr.dimension(len(op.extents)), op.out_maps[0].results[-1]
    elements = [_element(read.pattern) for read in form.reads]
    for one, other in dict.fromkeys(permutations(elements)):
        if one is None or not is_integer(one) or not is_signed(other):
            continue
        largest, most = integer_range(one).high, integer_range(other).high
        for count in _counts(least_count(numbers, largest, most), instruction, form):
            found = weights_of_numbers(numbers, count, largest, most)
            if found is None:
                continue
            given = input_of_numbers(count, largest).astype(dtype_of(one))
            weights = found.astype(dtype_of(other))
            same = Made(given, one, (summed,))
            yield (same, Made(weights.T, other, (summed, lanes))), count
            yield (same, Made(weights, other, (lanes, summed))), count


def _element(pattern: object) -> Attribute | None:
    return pattern.dtype if isinstance(pattern, ValuePattern) else None


def _counts(least: int, instruction: Instruction, form: BlockPattern) -> list[int]:
    """Lists the numbers of products, at least so many, over which calls may sum."""
    limits = [instruction.limits.get(name, Limit(least)) for name in form.iterators.reduction]
    rounded = ((-(-least // limit.step) * limit.step, limit) for limit in limits)
    return sorted({count for count, limit in rounded if limit.allows(count)})

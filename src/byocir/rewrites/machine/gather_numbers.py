"""Joins the numbers that are added to the terms of a sum to one number, added behind the sum:

```
(x * 27 - 459) + (y * 23 + 345)  →  (x * 27 + y * 23) - 114
```

Zero points and halves that round terms are such numbers. Steps that follow may take in the one that
is left, with what they add.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.intervals import integer_range
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import width_of
from byocir.dialects.uses import erase_unused, replace_uses
from byocir.rewrites.block_ends import NOTHING, BodyEnds, Known, scalar_ends
from byocir.rewrites.machine.clamp_chains import CLAMPS, CONVERSIONS
from byocir.rewrites.machine.round_to_even import even_rounding


def gather_numbers(op: BlockOp, given: Known = NOTHING) -> BodyEnds:
    """Adds numbers behind the sums to whose terms a block's body adds them, where no number on the
    way leaves its type; bounds the integers of the body. `given` bounds arrays that are made
    elsewhere.
    """
    ends = scalar_ends(op, given)
    while (found := _first(op, ends)) is not None:
        total, other, term = found
        _put(op, total, other, term)
        ends = scalar_ends(op, given)
    return ends


def _first(op: BlockOp, ends: BodyEnds) -> tuple[arith.AddiOp, SSAValue, arith.AddiOp] | None:
    """Finds a sum, one of its terms, and the addition of a number that the other one is."""
    for total in op.body.block.ops:
        if not isinstance(total, arith.AddiOp):
            continue
        for value, other in permutations(total.operands):
            if _is_known(other, ends):
                break
            term = _behind(value, ends).owner
            if not isinstance(term, arith.AddiOp):
                continue
            fits = _is_known(term.rhs, ends) and _stays(total, other, term, ends)
            if fits and not _rounds_to_even(total, ends):
                return total, other, term
    return None


def _rounds_to_even(total: arith.AddiOp, ends: BodyEnds) -> bool:
    """Tells whether a sum is that of a rounding, which is read as a whole."""
    shifts = (use.operation for use in total.result.uses)
    return any(even_rounding(op.results[0], ends) for op in shifts if op.results)


def _is_known(value: SSAValue, ends: BodyEnds) -> bool:
    return value in ends and ends[value].are_known


def _behind(value: SSAValue, ends: BodyEnds) -> SSAValue:
    """Looks through conversions and clamps that change no number, which nothing else reads."""
    while isinstance(owner := value.owner, CONVERSIONS | CLAMPS) and value.has_one_use():
        before = owner.operands[0]
        if before not in ends or not _keeps(owner, before, ends):
            return value
        value = before
    return value


def _keeps(op: Operation, before: SSAValue, ends: BodyEnds) -> bool:
    """Tells whether an op gives what it is given."""
    if isinstance(op, CONVERSIONS):
        return ends.unwrapped(op) is not None
    limit, (low, high) = ends[op.operands[1]].interval, ends[before].interval
    return limit.high <= low if isinstance(op, arith.MaxSIOp) else limit.low >= high


def _stays(total: arith.AddiOp, other: SSAValue, term: arith.AddiOp, ends: BodyEnds) -> bool:
    """Tells whether all fits the type of a sum once a number is added behind it."""
    type_ = integer_range(total.result.type)
    if not term.result.has_one_use() or ends.unwrapped(total) is None:
        return False
    if ends.unwrapped(term) is None or other not in ends or term.lhs not in ends:
        return False
    parts = ends[term.lhs], ends[term.rhs], ends[term.lhs].corners(ends[other], np.add)
    return all(part.within(type_) for part in parts)


def _put(op: BlockOp, total: arith.AddiOp, other: SSAValue, term: arith.AddiOp) -> None:
    made = list[Operation]()

    def converted(value: SSAValue, type_: Attribute) -> SSAValue:
        if value.type == type_:
            return value
        widens = width_of(value.type) < width_of(type_)
        made.append((arith.ExtSIOp if widens else arith.TruncIOp)(value, type_))  # pyrefly: ignore[bad-argument-type]
        return made[-1].results[0]

    type_ = total.result.type
    term_ = converted(term.lhs, type_)
    operands = (other, term_) if total.lhs is other else (term_, other)
    made.append(inner := arith.AddiOp(*operands))
    made.append(outer := arith.AddiOp(inner, converted(term.rhs, type_)))
    for each in made:
        each.location = total.location
    op.body.block.insert_ops_before(made, total)
    replace_uses(total.result, outer.result)
    erase_unused(op.body.block)

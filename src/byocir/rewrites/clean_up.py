"""clean-up: erases unused ops, merges equal ones, and drops those that do nothing.

Does: erases pure ops that nothing uses; merges equal pure ops of a block (constants are equal if
their contents are); drops ops that return their input, requantize ops that take off again what one
before added, and shape ops that a later one overrides.

Requires: nothing. Dequantize ops are not merged: normalize-qdq gives each use its own, and what
matches them counts on that. So it is with requantize ops to i32, terms of sums and products.

Guarantees: every value keeps its bits. Names of arguments and results do not change. An op that
stands for several has the locations of all; a constant has that of its first use.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import known_values
from byocir.dialects.graph import (
    CastOp,
    ClipOp,
    ConcatOp,
    ConstantOp,
    DequantizeOp,
    ExpandOp,
    FixedAttr,
    FlattenOp,
    PadOp,
    RequantizeOp,
    ReshapeOp,
    SliceOp,
    SplitOp,
    SqueezeOp,
    TileOp,
    TransposeOp,
    UnsqueezeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.locations import fuse
from byocir.dialects.traits import is_pure
from byocir.dialects.types import element_type_of, i32
from byocir.dialects.uses import replace_uses
from byocir.dialects.walk import blocks_of, ops_in
from byocir.patterns import Bound, Match, either, wildcard
from byocir.patterns import Pattern as ValuePattern
from byocir.patterns import op as op_pattern
from byocir.rewrites.driver import (
    NewOps,
    Pattern,
    erase_dead,
    is_dead,
    rewrite_blocks,
)
from byocir.rewrites.matching import rewrites

_RESHAPES = (ReshapeOp, FlattenOp, SqueezeOp, UnsqueezeOp)
"""Ops that keep the order of elements and differ from a reshape in how they say the shape."""


@dataclass(frozen=True)
class CleanUpPass(ModulePass):
    """Erases unused ops, merges equal ones, and drops those that do nothing."""

    name = "clean-up"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        blocks = blocks_of(op)
        if any([_erase_unused(block) for block in blocks]):
            blocks = blocks_of(op)  # without those of ops that were erased
        if rewrite_blocks(blocks, _REWRITES):
            blocks = blocks_of(op)
        for block in blocks:
            _merge_equal(block)


def _erase_unused(block: Block) -> bool:
    """Erases the ops of a block that nothing uses; tells if there were any."""
    erased, op = False, block.last_op
    while op is not None:
        before = op.prev_op
        if is_dead(op):
            op.detach()
            op.erase()
            erased = True
        op = before
    return erased


def _merge_equal(block: Block) -> None:
    ops = [op for op in ops_in(block) if _may_merge(op)]
    if len(ops) < 2:  # as in most bodies
        return
    known, gone = _Known(), dict[Operation, list[LocationAttr]]()
    for op in ops:
        first = known.equal(op)
        if first is op:
            continue
        for old, kept in zip(op.results, first.results, strict=True):
            replace_uses(old, kept)
        gone.setdefault(first, []).extend(erase_dead(op))
    for first, locations in gone.items():  # fused together, as each fusing lists all names again
        if not isinstance(first, ConstantOp):
            first.location = fuse(first, *locations)


class _Known:
    """Finds, for an op of a block, the first earlier op that is equal. Most ops have a first
    operand that no other op of their class has; the rest of those is never compared.
    """

    def __init__(self) -> None:
        self._alone: dict[Hashable, Operation | None] = {}
        self._by_content: dict[Hashable, Operation] = {}

    def equal(self, op: Operation) -> Operation:
        """Gives the first op that is equal to this one; that may be this one itself."""
        operands = op.operands
        beginning = (type(op), operands[0] if len(operands) else None)
        if beginning not in self._alone:
            self._alone[beginning] = op
            return op
        other, self._alone[beginning] = self._alone[beginning], None
        if other is not None:
            self._by_content[_content(other)] = other
        return self._by_content.setdefault(_content(op), op)


def _may_merge(op: Operation) -> bool:
    return bool(op.results) and not op.regions and not _is_term(op) and is_pure(op)


def _is_term(op: Operation) -> bool:
    """Tells if patterns match an op together with its one user, so that each user should have one
    of its own.
    """
    return type(op) is DequantizeOp or (type(op) is RequantizeOp and op.to == i32)


def _content(op: Operation) -> Hashable:
    """Makes a key that pure ops share if they are equal: class, operands, properties, attributes
    and result types."""
    return (
        type(op),
        tuple(op.operands),
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
        tuple(result.type for result in op.results),
    )


class DropIdentity(Pattern):
    """Drops an op that returns its input: a shape op or an expand to the same shape, a cast to the
    same type, a transpose that keeps the order, a clip without bounds, a concat of one tensor, a
    split into one, a slice of all, a pad or tile by nothing.
    """

    roots = (
        *_RESHAPES,
        CastOp,
        ClipOp,
        ConcatOp,
        ExpandOp,
        PadOp,
        SliceOp,
        SplitOp,
        TileOp,
        TransposeOp,
    )

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        return [op.operands[0]] if _is_identity(op) else None


def _is_identity(op: Operation) -> bool:
    if isinstance(op, TransposeOp):
        perm = int_tuple(op.perm)
        return list(perm) == sorted(perm)
    if isinstance(op, ClipOp):
        return op.min is None and op.max is None
    if isinstance(op, PadOp) and any(int_tuple(op.pads)):
        return False
    if isinstance(op, SliceOp) and any(step < 0 for step in int_tuple(op.steps)):
        return False
    if len(op.results) != 1:
        return False
    return len(op.operands) == 1 and op.operands[0].type == op.results[0].type


class DropUndone(Pattern):
    """Drops two requantizes of which the second takes off what the first added: bytes without their
    zero point that get it back, or whose sign changes twice.
    """

    roots = (RequantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, RequantizeOp)
        inner = op.input.owner
        if not isinstance(inner, RequantizeOp) or element_type_of(inner.input.type) != op.to:
            return None
        added = added_by(inner)
        if added is None or added_by(op) != -added:
            return None
        low, high = integer_range(op.to)
        kept = integer_range(inner.to).contains(Interval(low + added, high + added))
        return [inner.input] if kept else None


def added_by(op: RequantizeOp) -> int | None:
    """Gives the number that a requantize adds, if it does nothing else but saturate; None where it
    multiplies, too.
    """
    scale = known_values(op.scales[0])
    if not isinstance(op.rounding, FixedAttr) or op.rounding.shift.data:
        return None
    one = scale is not None and bool(np.all(scale == 1))
    return op.zero_point.value.data if one else None


def _any_reshape(value: ValuePattern) -> ValuePattern:
    """Matches a shape op of any kind."""
    return either(*(op_pattern(kind.name, value) for kind in _RESHAPES))


@rewrites(_any_reshape(_any_reshape(wildcard("x"))))
def merge_reshapes(m: Match, x: Bound, new: NewOps) -> SSAValue:
    """A shape op that keeps the order of elements, behind another, is one reshape."""
    return new.add(ReshapeOp.make(x.value, shape=m.result.type.shape)).result


@rewrites(
    op_pattern("graph.transpose", op_pattern("graph.transpose", wildcard("x")) @ "inner") @ "outer"
)
def merge_transposes(x: Bound, inner: Bound, outer: Bound, new: NewOps) -> SSAValue:
    """A transpose behind another is one transpose."""
    merged = [inner.attrs["perm"][axis] for axis in outer.attrs["perm"]]
    return new.add(TransposeOp.make(x.value, perm=merged)).result


_BOUNDED = op_pattern("graph.relu", wildcard()) | op_pattern("graph.clip", wildcard())


@rewrites(op_pattern("graph.relu", _BOUNDED @ "inner"))
def drop_second_relu(inner: Bound) -> Bound:
    """A relu behind a relu, or behind a clip from 0 or more, does nothing."""
    return inner


@drop_second_relu.where
def nothing_is_below_0_before_it(inner: Bound) -> tuple[bool, str]:
    """The op before it is a relu, or a clip whose bounds are 0 or more."""
    clip = inner.op
    if not isinstance(clip, ClipOp):
        return True, "relu"
    low, high = inner.attrs.get("min"), inner.attrs.get("max")
    fits = low is not None and low >= 0 and (high is None or high >= 0)
    return fits, f"clip to {low} and {high}"


_REWRITES = (DropIdentity(), DropUndone(), merge_reshapes, merge_transposes, drop_second_relu)

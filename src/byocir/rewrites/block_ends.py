"""Bounds the elements of integer arrays that blocks compute, by channel where constants tell."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import permutations
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp
from byocir.dialects.tir.affine import iterator_of
from byocir.dialects.types import element_type_of, is_integer, shape_of
from byocir.evaluate.scalar import number
from byocir.rewrites.window_guards import points_left

LARGE = 2**62
"""From this magnitude on numbers are no longer held in 64 bits."""


Operator = Callable[[np.ndarray, np.ndarray], np.ndarray]

_OF_INTEGERS: Mapping[Any, Callable[[int, int], int]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.maximum: max,
    np.minimum: min,
    np.left_shift: lambda a, b: a << b,
    np.right_shift: lambda a, b: a >> b,
}
"""Operations on integers of any size, for functions of arrays that do not take these."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Holds the least and the greatest values of some integers, as arrays that broadcast over the
    space of these integers.
    """

    low: np.ndarray
    high: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.low, self.high))

    @staticmethod
    def of(interval: Interval, rank: int = 0) -> Ends:
        """Makes the ends of numbers that all lie in an interval."""
        type_ = type_for(interval)
        return Ends(*(np.asarray(end, type_).reshape((1,) * rank) for end in interval))

    @cached_property
    def interval(self) -> Interval:
        """Gives the interval in which all of the integers lie."""
        low, high = self.low, self.high
        return Interval(
            int(low.item() if low.size == 1 else low.min()),
            int(high.item() if high.size == 1 else high.max()),
        )

    @cached_property
    def are_known(self) -> bool:
        """Tells whether each of the integers can be one number only."""
        return self.low is self.high or bool(np.array_equal(self.low, self.high))

    def corners(self, other: Ends, apply: Operator) -> Ends:
        """Computes the ends of an operation that is monotone in each of its operands."""

        exact: Any = _OF_INTEGERS.get(apply, apply)
        reached = self.interval.corners(other.interval, exact)
        type_ = type_for(reached)
        sides: list[list[np.ndarray]] = [[*self], [*other]]
        if all(end.size == 1 for each in sides for end in each):
            rank = max(end.ndim for each in sides for end in each)
            return Ends.of(reached, rank)
        sides = [[end.astype(type_, copy=False) for end in each] for each in sides]
        found = [_arrays(apply, a, b) for a in sides[0] for b in sides[1]]
        return Ends(reduce(_least, found), reduce(_greatest, found))

    def within(self, interval: Interval) -> bool:
        """Tells whether all of the integers lie in an interval."""
        return interval.contains(self.interval)

    def clamped(self, to: Ends) -> Ends:
        """Computes the ends of the integers once they are clamped between others."""
        return Ends(*(_least(_greatest(end, to.low), to.high) for end in self))

    def with_other(self, other: Interval) -> Ends:
        """Widens the ends by the numbers of an interval."""
        low, high = (np.asarray(end) for end in other)
        return Ends(_least(self.low, low), _greatest(self.high, high))


def _arrays(apply: Operator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Applies an operation to two arrays: numpy gives integers, which may fit none of its types,
    for arrays of objects without dimensions.
    """
    return np.asarray(apply(a, b))


def _least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _arrays(np.minimum, a, b)


def _greatest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _arrays(np.maximum, a, b)


def type_for(interval: Interval) -> np.dtype:
    """Gives the type of arrays of the integers in an interval: where machine words hold them, and
    one more bit, arithmetic is many times as fast as on objects.
    """
    small = Interval(1 - LARGE, LARGE - 1).contains(interval)
    return np.dtype(np.int64 if small else object)


EXACT: Mapping[type[Operation], Operator] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
}
"""The operations on integers that are monotone in each operand, without wrapping."""


Known = Mapping[SSAValue, Interval | Ends | SSAValue]
"""The numbers that elements of some arrays lie between, from elsewhere, or the arrays they are."""
NOTHING: Known = MappingProxyType({})


def ends_of(value: SSAValue, given: Known = NOTHING) -> Ends | None:
    """Bounds the elements of an array, in arrays of its rank; None for floats."""
    return _ends_of(value, given, through=True)


def _ends_of(value: SSAValue, given: Known, *, through: bool) -> Ends | None:
    type_ = element_type_of(value.type)
    if not is_integer(type_):
        return None
    owner, found = value.owner, None
    if value in given:
        known = given[value]
        if isinstance(known, Interval):
            known = Ends.of(known, len(shape_of(value.type)))
        found = ends_of(known, given) if isinstance(known, SSAValue) else known
    elif isinstance(owner, ConstantOp) and owner.value.data.present:
        array = owner.value.data.values().astype(np.int64)
        found = Ends(array, array)
    elif isinstance(owner, FillOp):
        found = Ends.of(Interval.at(int(number(owner.value))), len(shape_of(value.type)))
    elif isinstance(owner, BlockOp) and len(owner.outs) == 1:
        found = _of_block(owner, given, through=through)
    elif isinstance(owner, Block) and through:
        found = _of_argument(value, given)
    elif isinstance(owner, CompositeOp):
        found = _of_composite(owner, value)
    whole = integer_range(type_)
    if found is not None and found.within(whole):
        return found
    return Ends.of(whole, len(shape_of(value.type)))


def _of_argument(value: SSAValue, given: Known) -> Ends | None:
    """Bounds an argument of a composite: a constant, or what another composite made."""
    assert isinstance(value, BlockArgument)
    home = value.block.parent_op()
    if not isinstance(home, CompositeOp):
        return None
    return _ends_of(home.operands[value.index], given, through=False)


def _of_composite(op: CompositeOp, result: SSAValue) -> Ends | None:
    """Bounds a result of a composite by its last block, whatever that reads from outside."""
    end, index = op.body.block.last_op, list[SSAValue](op.outputs).index(result)
    return None if end is None else _ends_of(end.operands[index], NOTHING, through=False)


def _of_block(op: BlockOp, given: Known, *, through: bool) -> Ends | None:
    known = _argument_ends(op, given, through=through)
    value, old = op.yielded[0].owner, op.body.block.args[-1]
    if not op.reductions:
        if op.where is not None:  # points that are left out keep their value
            return None
        _put_ends(op, known)
        found = known.get(op.yielded[0])
        return _in_result(op, found) or _beside(_ends_of(op.outs[0], given, through=through), found)
    if not isinstance(value, arith.AddiOp | arith.MaxSIOp | arith.MinSIOp):
        return None
    terms = [term for term in (value.lhs, value.rhs) if term is not old]
    if len(terms) != 1 or old not in known or not old.has_one_use():
        return None
    if isinstance(value, arith.AddiOp):
        found = _summed(op, terms[0], known)
    else:
        found = _farthest(op, terms[0], known)
        if found is not None and op.where is not None:  # it may leave out all points of a window
            found = found.with_other(known[old].interval)
    return found and _in_result(op, known[old].corners(found, EXACT[type(value)]))


def _farthest(op: BlockOp, term: SSAValue, known: BodyEnds) -> Ends | None:
    """Bounds a term over all points of the iterators that a block reduces."""
    _put_ends(op, known)
    ends, axes = known.get(term), tuple(op.reductions)
    if ends is None:
        return None
    return Ends(ends.low.min(axes, keepdims=True), ends.high.max(axes, keepdims=True))


def _summed(op: BlockOp, term: SSAValue, known: BodyEnds) -> Ends | None:
    """Bounds sums of a term over the iterators that a block reduces."""
    product = term.owner
    if isinstance(product, arith.MuliOp):
        _put_ends(op, known, before=product)
        for x, factor in permutations(product.operands):
            found = _summed_products(op, known.get(x), known.get(factor), term.type)
            if found is not None:
                return found
    _put_ends(op, known)
    ends = known.get(term)
    if ends is None:
        return None
    shape = np.broadcast_shapes(*(end.shape for end in ends))
    if op.where is not None and all(shape[i] == 1 for i in op.reductions):
        points = points_left(op, op.where.data)
        return ends.corners(Ends(points, points), np.multiply)
    ends = _or_none(op, ends)
    times = _repeats(op, ends.low)
    low, high = (end.sum(tuple(op.reductions), keepdims=True) for end in ends)
    return Ends(low, high).corners(Ends.of(Interval.at(times)), np.multiply)


def _or_none(op: BlockOp, ends: Ends) -> Ends:
    """Widens the ends of what a block adds by zero, if its guard leaves out points."""
    return ends if op.where is None else ends.with_other(Interval.at(0))


def _repeats(op: BlockOp, numbers: np.ndarray) -> int:
    """Counts how often a block sums the same number, where numbers do not depend on iterators."""
    return prod(op.extents[i] for i in op.reductions if numbers.shape[i] == 1)


def _summed_products(
    op: BlockOp, x: Ends | None, factor: Ends | None, type_: Attribute
) -> Ends | None:
    """Bounds the sums of products of numbers of one interval with known factors; None for other
    products, and for those that may leave their type.
    """
    if x is None or factor is None or x.low.size > 1 or not factor.are_known:
        return None
    x = _or_none(op, x)
    reached, times = x.interval.corners(factor.interval, operator.mul), _repeats(op, factor.low)
    is_large = type_for(reached.scaled(times * factor.low.size)) != np.int64
    if is_large or not integer_range(type_).contains(reached):
        return None
    low, high = sums_of_products(factor.low, x.interval, tuple(op.reductions))
    return Ends(low * times, high * times)


def sums_of_products(factors: np.ndarray, x: Interval, axes: tuple[int, ...]) -> Ends:
    """Bounds sums, along these axes, which stay with size 1, of the products of factors (int64)
    with numbers of an interval.
    """
    above = np.maximum(factors, 0).sum(axes, keepdims=True)
    below = factors.sum(axes, keepdims=True) - above
    return Ends(above * x.low + below * x.high, above * x.high + below * x.low)


def _in_result(op: BlockOp, found: Ends | None) -> Ends | None:
    """Converts ends over a block's iterators to ends over the dimensions of its result; None where
    it leaves out elements of that.
    """
    dims = [e.position for e in op.out_maps[0].results if isinstance(e, AffineDimExpr)]
    if found is None or [op.extents[i] for i in dims] != [*shape_of(op.outs[0].type)] or op.bases:
        return None
    others = tuple(i for i in range(len(op.extents)) if i not in dims)
    low = np.transpose(found.low.min(others, keepdims=True), [*dims, *others])
    high = np.transpose(found.high.max(others, keepdims=True), [*dims, *others])
    shape = low.shape[: len(dims)], high.shape[: len(dims)]
    return Ends(low.reshape(shape[0]), high.reshape(shape[1]))


def _beside(old: Ends | None, found: Ends | None) -> Ends | None:
    """Bounds an array some of whose elements are set to others."""
    if old is None or found is None:
        return None
    (low, high), (least, most) = old.interval, found.interval
    return Ends.of(Interval(min(low, least), max(high, most)), old.low.ndim)


class BodyEnds(dict[SSAValue, Ends]):
    """Maps integers of a block's body to their ends, over so many iterators."""

    def __init__(self, rank: int, known: Mapping[SSAValue, Ends] | None = None) -> None:
        super().__init__(known or {})
        self.rank = rank
        self._exact = dict[Operation, Ends | None]()

    def exact(self, op: Operation) -> Ends | None:
        """Bounds what an op computes as if its type had no limits, once its operands are bounded;
        None for an operation that is not known.
        """
        if op not in self._exact:
            self._exact[op] = self._found(op)
        return self._exact[op]

    def unwrapped(self, op: Operation) -> Ends | None:
        """Bounds what an op computes where that never leaves its type; else None."""
        exact = self.exact(op)
        stays = exact is not None and exact.within(integer_range(op.results[0].type))
        return exact if stays else None

    def _found(self, op: Operation) -> Ends | None:
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return Ends.of(Interval.at(int(number(op.value))), self.rank)
        operands = [self.get(value) for value in op.operands]
        given = [each for each in operands if each is not None]
        if len(given) < len(operands):
            return None
        if isinstance(op, arith.ExtSIOp | arith.TruncIOp):
            return given[0]
        if isinstance(op, arith.ExtUIOp):
            return given[0] if given[0].interval.low >= 0 else None
        if isinstance(op, arith.ShLIOp | arith.ShRSIOp) and not given[1].within(Interval(0, 63)):
            return None
        apply = EXACT.get(type(op))
        return given[0].corners(given[1], apply) if apply is not None else None


def scalar_ends(op: BlockOp, given: Known = NOTHING) -> BodyEnds:
    """Bounds all integers of a block's body, over its iterators; one that may wrap may be any
    number of its type.
    """
    found = _argument_ends(op, given, through=True)
    _put_ends(op, found)
    return found


def _argument_ends(op: BlockOp, given: Known, *, through: bool) -> BodyEnds:
    """Bounds the integers that a block's body is given, over its iterators."""
    rank, values = len(op.extents), [*op.ins, *op.outs]
    found = BodyEnds(rank)
    pads = [*op.pad_values, *[None] * len(op.outs)]
    for value, attr, arg, pad in zip(values, op.maps, op.body.block.args, pads, strict=True):
        if not is_integer(arg.type):
            continue
        empty = isinstance(value.owner, EmptyOp)
        ends = None if empty else _ends_of(value, given, through=through)
        if ends is not None:
            if pad is not None:
                ends = ends.with_other(Interval.at(int(number(pad))))
            found[arg] = _over_iterators(ends, attr.data, op.extents)
        else:
            found[arg] = Ends.of(integer_range(arg.type), rank)
    return found


def _put_ends(op: BlockOp, found: BodyEnds, *, before: Operation | None = None) -> None:
    """Bounds what the ops of a block's body compute, or those before one of them."""
    for inner in op.body.block.ops:
        if inner is before:
            return
        result = inner.results[0] if len(inner.results) == 1 else None
        if result is not None and result not in found and is_integer(result.type):
            ends = found.unwrapped(inner)
            found[result] = ends or Ends.of(integer_range(result.type), found.rank)


def _over_iterators(given: Ends, map_: AffineMap, extents: Sequence[int]) -> Ends:
    """Converts ends over an array's dimensions to ends over a block's iterators."""
    used: list[int | None] = []
    for expr, size in zip(map_.results, given.low.shape, strict=True):
        position = iterator_of(expr)
        plain = position is not None and extents[position] == size and position not in used
        used.append(position if plain and size > 1 else None)
    lost = tuple(axis for axis, i in enumerate(used) if i is None)
    kept = [i for i in used if i is not None]
    order = sorted(range(len(kept)), key=kept.__getitem__)
    shape = [extent if i in kept else 1 for i, extent in enumerate(extents)]
    if not lost and given.low is given.high:  # weights, which are large
        numbers = given.low.transpose(order).reshape(shape)
        return Ends(numbers, numbers)
    sides = given.low.min(lost), given.high.max(lost)
    return Ends(*(np.asarray(side).transpose(order).reshape(shape) for side in sides))

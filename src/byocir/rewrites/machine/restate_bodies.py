"""Restates what elementwise blocks compute in one type of integers, as vector units need it.

A requantise multiplies in i64 and clamps to i8. Where the ends of all numbers on the way fit i32,
the same steps in i32 give the same results, and conversions between are nothing. Where they do not
fit, and the result is clamped, what is multiplied can be clamped before: as large as that, it gives
the least or the greatest result. There are several ways to do so, and a machine's costs choose:

```
clamp((x + b) * m >> 8, 0, 127)
  →  (clamp(x, low, high) + b) * m >> 8                       between numbers for each channel
  →  clamp((clamp(x, -9, 70) + b) * m >> 8, 0, 127)           between numbers for all
  →  min(max(x + b, 0), high) * m >> 8                        behind the first step
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.emitting import emit, emitting_to
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir import BlockOp, ConstantOp, YieldOp
from byocir.dialects.tir.scalar import BINARY_INT, Emitted, number_op
from byocir.dialects.types import dtype_of, is_unsigned, width_of
from byocir.evaluate.scalar import number
from byocir.patterns.scalars import constant_number
from byocir.rewrites.block_ends import (
    EXACT,
    BodyEnds,
    Ends,
    Operator,
    scalar_ends,
    type_for,
)
from byocir.rewrites.machine.clamp_chains import ANY, CLAMPS, CONVERSIONS, clamped
from byocir.rewrites.machine.round_to_even import (
    emit_half_even,
    even_rounding,
    half_even,
    has_ties,
    values_of,
)

Integer = IntegerType[Any, Any]
NAMES: Mapping[type[Operation], str] = {op: n for n, op in BINARY_INT.items() if op in EXACT}
SHIFTS = (arith.ShLIOp, arith.ShRSIOp)


@dataclass(frozen=True)
class Clamping:
    """Says where numbers are clamped that would not fit: behind so many of the steps that lead to
    a clamp, and whether from below and from above by a number of each channel, or by one for all.
    `late` says that what is added before a product is added behind it, where another number is.
    """

    after: int
    low: bool
    high: bool
    late: bool = False


def restated(
    op: BlockOp, type_: Integer, ends: BodyEnds | None = None, held: Interval = ANY
) -> list[Sequence[Operation]] | str:
    """Makes blocks that compute the same in integers of a type, one for each way to clamp that may
    be the best, as no other has fewer steps and as few arrays: detached, behind the constants that
    they read. Says which number does not fit where there are none. `ends` bound the integers of the
    body, if they are known. Another number than instructions hold is added between two shifts, as
    one that they do, if that gives the same.
    """
    facts = _Facts(op, scalar_ends(op) if ends is None else ends, held)
    found: dict[tuple[int, int], _Restating] = {}
    reasons = list[str]()
    for restating in _each_way(op, type_, facts):
        try:
            restating.emit_body()
            found.setdefault(restating.size, restating)
        except _Unfit as unfit:
            reasons.append(unfit.reason)
    best = (size for size in found if not any(_less(other, size) for other in found))
    return [found[size].made() for size in best] or reasons[0]


def why_not_restated(op: BlockOp, type_: Integer, ends: BodyEnds) -> str:
    """Says which number does not fit a type in any way to restate a body; empty if one fits."""
    reasons = list[str]()
    for restating in _each_way(op, type_, _Facts(op, ends, ANY)):
        try:
            restating.emit_body()
        except _Unfit as unfit:
            reasons.append(unfit.reason)
        else:
            return ""
    return reasons[0]


def _each_way(op: BlockOp, type_: Integer, facts: _Facts) -> Iterator[_Restating]:
    """Yields the ways to restate a body, each to be emitted before the next one is asked for."""
    for late in (False, True):
        after = latest = 0
        while after <= latest and (facts.has_late or not late):
            first = _Restating(op, type_, facts, Clamping(after, True, True, late))
            yield first
            latest = max(latest, first.latest)
            sides = [(True, False) if n in first.clamped else (True,) for n in range(2)]
            for low, high in [*product(*sides)][1:]:
                restating = _Restating(op, type_, facts, Clamping(after, low, high, late))
                yield restating
                latest = max(latest, restating.latest)
            after += 1


def _less(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def is_signed(type_: Attribute | None) -> TypeGuard[Integer]:
    """Tells whether elements are integers of several bits that arithmetic takes as signed."""
    if type_ is None or not isinstance(type_, IntegerType):
        return False
    return not is_unsigned(cast("Integer", type_)) and width_of(cast("Integer", type_)) > 1


class _Unfit(Exception):
    """Says that a number has no form in the type."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Step(NamedTuple):
    """Describes an operation with known numbers, which is monotone and never falls; without a kind
    it shifts and rounds half to even.
    """

    kind: type[Operation] | None
    number: Ends
    result: SSAValue
    operand: SSAValue | None = None
    """The value of the body that the numbers are, if it has one."""

    @property
    def exact(self) -> Operator:
        """Gives the function that it computes, without wrapping."""
        return half_even if self.kind is None else EXACT[self.kind]

    @property
    def values(self) -> np.ndarray:
        """Gives the numbers, as objects, which do not wrap."""
        return self.number.low.astype(object)

    @property
    def changes_nothing(self) -> bool:
        """Tells whether it gives what it is given."""
        neutral = 1 if self.kind is arith.MuliOp else 0
        return self.kind is not None and self.number.interval == (neutral, neutral)

    def joined(self, other: _Step) -> _Step:
        """Makes one step of two of a kind that add or multiply."""
        return other.with_(np.asarray(self.exact(self.values, other.values)))

    def with_(self, values: np.ndarray) -> _Step:
        """Makes the step with other numbers."""
        first = values.flat[0]
        values = np.full((1,) * values.ndim, first, object) if np.all(values == first) else values
        return _Step(self.kind, Ends(values, values), self.result)


class _Facts:
    """Holds what is known of a body in whatever way it is restated."""

    def __init__(self, op: BlockOp, ends: BodyEnds, held: Interval) -> None:
        self.ends, self.rounded = ends, dict[SSAValue, tuple[SSAValue, SSAValue]]()
        """The second maps values that are rounded half to even to what they round, and the bits of
        the shift."""
        for value in (value for inner in op.body.block.ops for value in inner.results):
            if (found := even_rounding(value, ends)) is not None:
                self.rounded[value] = found
        self._roundings = {x: value for value, (x, _) in self.rounded.items()}
        self.bounds = dict[tuple[SSAValue, int, bool], Ends]()
        """Maps a value, and how many of the steps that lead to it come before its clamp, with
        numbers added late or not, to the bounds of that clamp."""
        self.ties = dict[SSAValue, bool]()
        """Tells of a value that is rounded half to even if numbers may lie half-way."""
        self.has_late = False
        """Tells if what is added before a product may be added behind it, with another number."""
        self._steps = dict[SSAValue, tuple[Sequence[_Step], SSAValue]]()
        self.held, self._values = held, dict[SSAValue, np.ndarray | None]()

    def leads_only_to(self, value: SSAValue, result: SSAValue) -> bool:
        """Tells whether nothing but what leads to a result reads a value. Rounding half to even
        reads it twice.
        """
        while value is not result:
            rounding = self._roundings.get(value)
            if rounding is not None and len([*value.uses]) == 2:
                value = rounding
            elif value.has_one_use():
                value = next(iter(value.uses)).operation.results[0]
            else:
                return False
        return True

    def in_parts(self, steps: Sequence[_Step], root: SSAValue) -> Sequence[_Step] | None:
        """Makes three steps of the last two, which add a number and shift: it is added between two
        shifts, without its lowest bits, where these make no difference. None where instructions
        hold the number as it is, or do not hold the other one.
        """
        added, shift = steps[-2:]
        if added.number.low.size > 1 or shift.number.low.size > 1:
            return None
        number, bits = added.number.interval.low, shift.number.interval.low
        if self.held.holds(number):
            return None
        least, most = self._rests(steps[:-1], root, bits)
        for first in range(bits - 1, 0, -1):
            above, below = divmod(number, 1 << first)
            if below > least:
                if (1 << first) - below >= (1 << bits) - most:
                    continue
                above += 1
            if self.held.holds(above):
                numbers = (first, above, bits - first)
                made = zip((shift, added, shift), numbers, strict=True)
                return [*steps[:-2], *(s.with_(np.full_like(s.values, n)) for s, n in made)]
        return None

    def _rests(self, steps: Sequence[_Step], root: SSAValue, bits: int) -> tuple[int, int]:
        """Bounds what the last bits of a number may be to which steps lead."""
        if root not in self._values:
            self._values[root] = values_of(root, self.ends)
        found = self._values[root]
        if found is None or any(step.number.low.size > 1 for step in steps):
            return 0, (1 << bits) - 1
        ends = np.array([found.min(), found.max()], object)
        for step in steps:
            number = step.number.low.astype(object).reshape(())
            ends = step.exact(ends, number)
            reached = [*ends, number.item()]
            kind = type_for(Interval(min(reached), max(reached)))
            found = step.exact(found.astype(kind), number.astype(kind))
        rests = found % (1 << bits)
        return int(rests.min()), int(rests.max())

    def steps(self, value: SSAValue) -> tuple[Sequence[_Step], SSAValue]:
        """Lists the monotone steps that lead to a number, first to last, and gives the number that
        they start from.
        """
        if value not in self._steps:
            step, before = self._last_step(value)
            found, root = (list[_Step](), value) if before is None else self.steps(before)
            self._steps[value] = ([*found, step] if step else found), root
        return self._steps[value]

    def _last_step(self, value: SSAValue) -> tuple[_Step | None, SSAValue | None]:
        """Gives the step that makes a number, unless it is none that changes it, and the number
        before it; None where it is no step.
        """
        owner = value.owner
        if not isinstance(owner, Operation) or self.ends.unwrapped(owner) is None:
            return None, None
        if isinstance(owner, CONVERSIONS):
            return None, owner.operands[0]
        if value in self.rounded:
            before, shift = self.rounded[value]
            return _Step(None, self.ends[shift], value, shift), before
        operands = list(owner.operands)
        if isinstance(owner, arith.MuliOp | arith.AddiOp) and not self._is_known(operands[1]):
            operands.reverse()
        if len(operands) != 2 or not self._rises(owner, operands[1]):
            return None, None
        return _Step(type(owner), self.ends[operands[1]], value, operands[1]), operands[0]

    def _is_known(self, value: SSAValue) -> bool:
        ends = self.ends.get(value)
        return ends is not None and ends.are_known

    def _rises(self, op: Operation, operand: SSAValue) -> bool:
        if not self._is_known(operand):
            return False
        if isinstance(op, arith.MuliOp):
            return self.ends[operand].interval.low >= 0
        return isinstance(op, arith.AddiOp | arith.ShRSIOp)


class _Restating:
    def __init__(self, op: BlockOp, type_: Integer, facts: _Facts, clamping: Clamping) -> None:
        self._op, self._type, self._range = op, type_, integer_range(type_)
        self._block = Block(arg_types=[arg.type for arg in op.body.block.args])
        self._rank, self._ends, self._rounded = len(op.extents), facts.ends, facts.rounded
        self._clamping, self._facts = clamping, facts
        self._bounds, self._ties = facts.bounds, facts.ties
        self._made: dict[SSAValue, Emitted] = {}
        self._added: list[tuple[ConstantOp, AffineMap]] = []
        """Constants that the block reads behind its inputs, each with its index."""
        self.clamped = set[int]()
        """Lists the sides, 0 below and 1 above, on which numbers were clamped before steps, each to
        another one for each channel."""
        self.latest = 0
        """The most steps of one clamp behind which numbers may be clamped."""

    def emit_body(self) -> None:
        """Emits the body of the block. Raises _Unfit."""
        result = self._op.yielded[0]
        with emitting_to(self._block):
            value = self.emit(result).to(result.type)
            emit(YieldOp.create(operands=[value.value], location=self._op.location))

    @property
    def size(self) -> tuple[int, int]:
        """Counts the steps of the body, and the arrays that it reads behind its inputs, with those
        of numbers that instructions do not hold.
        """
        numbers = (op.value for op in self._block.ops if isinstance(op, arith.ConstantOp))
        arrays = sum(not self._facts.held.holds(int(number(each))) for each in numbers)
        steps = sum(type(op) in NAMES for op in self._block.ops)
        return steps, arrays + len(self._added)

    def made(self) -> Sequence[Operation]:
        """Makes the block of the body, behind the constants that it reads."""
        op = self._op
        constants = [constant.result for constant, _ in self._added]
        maps = [*op.in_maps, *(map_ for _, map_ in self._added), *op.out_maps]
        pads = [*op.pad_values, *[None] * len(constants)]
        body = Region(self._block)
        made = op.like(ins=[*op.ins, *constants], maps=maps, pads=pads, body=body)
        return [*(constant for constant, _ in self._added), made]

    def emit(self, value: SSAValue) -> Emitted:
        """Emits a number of the body in the type. Raises _Unfit."""
        if value not in self._made:
            self._made[value] = self._emit(value)
        return self._made[value]

    def _emit(self, value: SSAValue) -> Emitted:
        owner = value.owner
        if isinstance(value, BlockArgument):
            return self._argument(value)
        assert isinstance(owner, Operation)
        if isinstance(owner, arith.ConstantOp):
            return self._number(owner)
        if isinstance(owner, CLAMPS) and (found := clamped(value, self._ends)):
            if not self._ends[value].within(self._range):
                raise self._unfit(owner)
            self._look_for_ties(value, *found)
            return self._clamp(*found)
        if value in self._rounded:
            x, shift = self._rounded[value]
            step = _Step(None, self._ends[shift], value, shift)
            return self._stepped(self.emit(x), self._ends[x], step)[0]
        return self._computed(value, owner)

    def _computed(self, value: SSAValue, owner: Operation) -> Emitted:
        """Emits the value of an operation, or of fewer steps where some that lead to it are one."""
        exact = self._ends.exact(owner)
        if exact is None:
            raise self._unfit(owner)
        inside = exact.within(integer_range(value.type))
        if isinstance(owner, CONVERSIONS):
            if not inside:
                raise self._unfit(owner)
            return self.emit(owner.operands[0])
        if not (exact.within(self._range) if inside else value.type == self._type):
            raise self._unfit(owner)
        steps, root = self._facts.steps(value)
        gathered = self._gathered(steps, root, value)
        if gathered is steps:
            return self._applied(type(owner), self.emit(owner.operands[0]), owner.operands[1])
        y, ends = self.emit(root), self._ends[root]
        for step in gathered:
            y, ends = self._stepped(y, ends, step)
        return y

    def _gathered(self, steps: Sequence[_Step], root: SSAValue, value: SSAValue) -> Sequence[_Step]:
        """Merges the steps that lead from a root to a value where nothing else reads what is
        between.
        """
        made, is_other = list[_Step](), any(step.kind is None for step in steps)
        if not all(self._facts.leads_only_to(step.result, value) for step in steps[:-1]):
            return steps
        for step in (part for whole in steps for part in self._without_ties(whole)):
            made.append(step)
            while (merged := self._merged(made, root)) is not None:
                made, is_other = [*merged], True
        return made if is_other else steps

    def _without_ties(self, step: _Step) -> Sequence[_Step]:
        """Makes two steps of one that rounds half to even, where no number is half-way."""
        if step.kind is not None or self._ties.get(step.result, True):
            return [step]
        half = step.with_(np.asarray(1 << step.values - 1, object))
        return [half._replace(kind=arith.AddiOp), step._replace(kind=arith.ShRSIOp, operand=None)]

    def _merged(self, steps: list[_Step], root: SSAValue) -> Sequence[_Step] | None:
        """Merges the last of some steps with those before; None where they stay as they are."""
        kinds = [step.kind for step in steps[-3:]]
        if steps and steps[-1].changes_nothing:
            return steps[:-1]
        if kinds[-2:] in ([arith.AddiOp] * 2, [arith.MuliOp] * 2):
            return [*steps[:-2], steps[-2].joined(steps[-1])]
        if kinds[-2:] == [arith.AddiOp, arith.ShRSIOp]:
            return self._facts.in_parts(steps, root)
        if kinds == [arith.AddiOp, arith.ShRSIOp, arith.AddiOp]:
            first, shift, last = steps[-3:]
            if last.number.low.size > 1:  # too large, maybe, for products that would add them
                return None
            return [*steps[:-3], first.with_(first.values + (last.values << shift.values)), shift]
        if kinds != [arith.AddiOp, arith.MuliOp, arith.AddiOp]:
            return None
        first, factor, last = steps[-3:]
        if np.all(factor.values) and not np.any(last.values % factor.values):
            return [*steps[:-3], first.with_(first.values + last.values // factor.values), factor]
        self._facts.has_late = True
        if self._clamping.late:
            return [*steps[:-3], factor, last.with_(first.values * factor.values + last.values)]
        return None

    def _applied(self, kind: type[Operation], x: Emitted, operand: SSAValue) -> Emitted:
        """Emits an operation on a number. Shifting by the type's width or more is not allowed, but
        leaves no bits: to the right, shifting by one less gives the same.
        """
        widest = width_of(self._type) - 1
        if kind in SHIFTS and not self._ends[operand].within(Interval(0, widest)):
            if kind is not arith.ShRSIOp:
                raise self._unfit_step(kind, self._ends[operand])
            number = constant_number(operand)
            by = self.emit(operand).min(widest) if number is None else min(int(number), widest)
            return x.binary(NAMES[kind], by)
        return x.binary(NAMES[kind], self.emit(operand))

    def _number(self, op: arith.ConstantOp) -> Emitted:
        number = constant_number(op.result)
        if not isinstance(number, int) or not self._range.holds(number):
            raise self._unfit(op)
        return Emitted(emit(number_op(number, self._type)).result)

    def _argument(self, value: BlockArgument) -> Emitted:
        if not is_signed(value.type) or width_of(value.type) > width_of(self._type):
            raise _Unfit(f"expected elements that fit {self._type}, found {value.type}")
        return Emitted(self._block.args[value.index]).to(self._type)

    def _unfit(self, op: Operation) -> _Unfit:
        exact = self._ends.exact(op)
        if exact is not None and type(op) in NAMES:
            return self._unfit_step(type(op), exact)
        found = f"{op.name} of {op.results[0].type}"
        return _Unfit(f"expected arithmetic that fits {self._type}, found {found}")

    def _clamp(self, value: SSAValue, bounds: Interval) -> Emitted:
        """Emits a number clamped between two others, without clamps that cannot act."""
        try:
            return _within(self.emit(value), self._ends[value], bounds)
        except _Unfit:
            return self._clamp_before(value, bounds)

    def _clamp_before(self, value: SSAValue, bounds: Interval) -> Emitted:
        """Clamps a number on the way to a value, so that all monotone steps that follow fit the
        type, and the value itself where that does not suffice.
        """
        steps, root = self._facts.steps(value)
        self.latest = max(self.latest, len(steps) - 1)
        steps = self._gathered(steps, root, value)
        after = max(min(self._clamping.after, len(steps) - 1), 0)
        y, ends = self.emit(root), self._ends[root]
        for step in steps[:after]:
            y, ends = self._stepped(y, ends, step)
        key = value, after, self._clamping.late
        if key not in self._bounds:
            function = self._function(steps[after:], ends.interval)
            self._bounds[key] = _preimage(function, ends.interval, bounds)
        low, high = self._bounds[key]
        one = Ends.of(Interval(int(low.min()), int(high.max())), self._rank)
        low = low if self._clamping.low else one.low
        high = high if self._clamping.high else one.high
        y, ends = self._between(y, ends, Ends(low, high)), ends.clamped(Ends(low, high))
        for step in steps[after:]:
            y, ends = self._stepped(y, ends, step)
        return _within(y, ends, bounds)

    def _stepped(self, x: Emitted, ends: Ends, step: _Step) -> tuple[Emitted, Ends]:
        """Emits a step on a number that has these ends; gives its result with its ends."""
        kind, number, result, operand = step
        found = ends.corners(number, step.exact)
        if kind is not None:
            if not found.within(self._range):
                raise self._unfit_step(kind, found)
            if operand is not None:
                return self._applied(kind, x, operand), found
            if not number.within(self._range):
                raise self._unfit_step(kind, number)
            return x.binary(NAMES[kind], self._bound(number.low)), found
        width, shift = width_of(self._type), number.interval.low
        half = Ends.of(Interval.at(1 << shift - 1), self._rank)
        raised = ends.corners(half, np.add)
        if shift > width - 2 or not raised.within(self._range) or not ends.within(self._range):
            raise self._unfit_step(arith.AddiOp, raised)
        if result not in self._ties:
            rounded = self._rounded[result][0]
            self._note_ties(result, self._ends[rounded])
        return emit_half_even(x, shift, width, ties=self._ties[result]), found

    def _look_for_ties(self, clamp: SSAValue, value: SSAValue, bounds: Interval) -> None:
        """Notes whether numbers that lead to a value are half-way where they are rounded half to
        even. Those beyond the bounds of its clamp do not matter, if that is all that reads them.
        """
        steps = self._facts.steps(value)[0] if self._rounded else ()
        for at, step in enumerate(steps):
            if step.kind is None and self._facts.leads_only_to(step.result, clamp):
                x = self._rounded[step.result][0]
                given = self._ends[x].interval
                within = _preimage(self._function(steps[at:], given), given, bounds)
                self._note_ties(step.result, within)

    def _note_ties(self, value: SSAValue, within: Ends) -> None:
        x, bits = self._rounded[value]
        shift = self._ends[bits].interval.low
        if value not in self._ties:
            self._ties[value] = has_ties(x, shift, within, self._ends)

    def _between(self, value: Emitted, ends: Ends, bounds: Ends) -> Emitted:
        """Emits a number clamped between two numbers, or arrays of them, without clamps that cannot
        act.
        """
        acts = bool((ends.low < bounds.low).any()), bool((ends.high > bounds.high).any())
        pairs = enumerate(zip(acts, bounds, strict=True))
        self.clamped.update(side for side, (clamps, end) in pairs if clamps and end.size > 1)
        value = value.max(self._bound(bounds.low)) if acts[0] else value
        return value.min(self._bound(bounds.high)) if acts[1] else value

    def _bound(self, values: np.ndarray) -> Emitted | int:
        return self._array(values) if values.size > 1 else int(values.item())

    def _array(self, values: np.ndarray) -> Emitted:
        """Makes numbers of the type, one for each channel, another input of the block."""
        dims = [i for i, size in enumerate(values.shape) if size > 1]
        shape = [values.shape[i] for i in dims]
        map_ = AffineMap(self._rank, 0, tuple(map(AffineExpr.dimension, dims)))
        array = np.clip(values, *self._range).astype(dtype_of(self._type)).reshape(shape)
        self._added.append((ConstantOp.of(Array.of(array)), map_))
        return Emitted(self._block.insert_arg(self._type, len(self._block.args) - 1))

    def _unfit_step(self, kind: type[Operation], ends: Ends) -> _Unfit:
        low, high = ends.interval
        told = f"{kind.name} with values from {low} to {high}"
        return _Unfit(f"expected arithmetic that fits {self._type}, found {told}")

    def _function(
        self, steps: Sequence[_Step], given: Interval
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Makes the function that computes exactly, for each channel, what steps do to numbers of
        an interval, or one beyond.
        """
        reached = Ends.of(Interval(given.low - 1, given.high + 1))
        types = [reached.low.dtype]
        for step in steps:
            reached = reached.corners(step.number, step.exact)
            types += [reached.low.dtype, reached.high.dtype]
        type_ = np.dtype(object) if np.dtype(object) in types else np.dtype(np.int64)
        operands = [(step.exact, step.values.astype(type_)) for step in steps]

        def apply(numbers: np.ndarray) -> np.ndarray:
            found = np.asarray(numbers, type_)  # numpy gives integers where there is no dimension
            found = found.reshape((1,) * (self._rank - found.ndim) + found.shape)
            for exact, values in operands:
                found = np.asarray(exact(found, values))
            return found

        return apply


def _within(value: Emitted, ends: Ends, bounds: Interval) -> Emitted:
    low, high = ends.interval
    if low < bounds.low:
        value = value.max(bounds.low)
    return value.min(bounds.high) if high > bounds.high else value


def _preimage(
    function: Callable[[np.ndarray], np.ndarray], given: Interval, bounds: Interval
) -> Ends:
    """Finds, for each channel, the numbers between which a function that never falls stays within
    these bounds: numbers outside of them give no other results once these are clamped.
    """
    least = _first(lambda n: function(n) >= bounds.low, given, function)
    least = np.where(function(least) == bounds.low, least, least - 1)
    if given.holds(0) and np.all(function(np.zeros_like(least)) == bounds.low):
        least = np.zeros_like(least)  # one number for all
    most = _first(lambda n: function(n) > bounds.high, given, function) - 1
    most = np.where(function(most) == bounds.high, most, most + 1)
    return Ends(least, most)


def _first(
    holds: Callable[[np.ndarray], np.ndarray],
    given: Interval,
    function: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Finds the first number of an interval for which a condition holds, which then holds for all
    that follow; one past the interval where there is none.
    """
    found = function(np.array(given.low, object))
    low, high = (np.full(found.shape, end, found.dtype) for end in (given.low, given.high + 1))
    while bool((low < high).any()):
        middle = (low + high) // 2
        found = holds(middle)
        low, high = np.where(found | (low >= high), low, middle + 1), np.where(found, middle, high)
    return low

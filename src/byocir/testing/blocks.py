"""Makes random blocks that a block pattern might match, from its iterators, indices and body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.emitting import emit, emitting_to
from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp, EmptyOp, FillOp, IteratorAttr, IteratorKind, YieldOp
from byocir.dialects.tir.affine import beyond, bounds, divided
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.scalar import Emitted, number_attr
from byocir.dialects.types import (
    Shape,
    element_type_of,
    f32,
    i8,
    i32,
    shape_of,
    tensor,
)
from byocir.patterns import Pattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.index import Affine, Group, Index
from byocir.patterns.nodes import Access
from byocir.patterns.scalars import emit_pattern
from byocir.testing.choose import Choose, pick
from byocir.testing.draft import NARROW, Breadth, Slot, Unfit

NUMBERS = (0, 1, 8, 64)
"""Numbers in bodies that a pattern leaves open."""


class Guarded(BlockPattern):
    """Describes a pattern that matches the blocks of another one if they also have a guard; the
    guard lets every point pass.
    """

    def __init__(self, pattern: BlockPattern) -> None:
        vars(self).update(vars(pattern))


@dataclass
class Plan:
    """Describes a block to be made: the types of its inputs (and, last, of the pattern that it
    starts from), and how it is built on their values.
    """

    pattern: BlockPattern
    types: list[TensorType]
    iterators: list[IteratorAttr]
    maps: list[AffineMap]
    pads: list[Attribute | None]
    body: Region
    result: TensorType

    def build(self, values: Sequence[SSAValue], location: LocationAttr) -> list[Operation]:
        """Builds the ops, the block last; raises Unfit where they do not fit each other."""
        ops: list[Operation] = []
        if isinstance(self.pattern.init, Pattern):
            *values, start = values
        else:
            ops.append(self._start())
            start = ops[0].results[0]
        block = BlockOp(
            self.iterators,
            values,
            [start],
            self.maps,
            self.body,
            pads=self.pads,
            where=self._where(),
            location=location,
        )
        try:
            block.verify()
        except VerifyException as error:
            raise Unfit from error
        return [*ops, block]

    def _where(self) -> AffineMap | None:
        count = len(self.iterators)
        if not isinstance(self.pattern, Guarded) or not count:
            return None
        return AffineMap(count, 0, (AffineExpr.dimension(0),))

    def _start(self) -> Operation:
        init = self.pattern.init
        if init is None or isinstance(init, Pattern):
            return EmptyOp.of(self.result)
        return FillOp.of(_number(init, element_type_of(self.result)), self.result)


def _number(value: float, element: Attribute) -> Attribute:
    """Makes a number of this type; raises Unfit for one that the type cannot hold."""
    try:
        return number_attr(value, element)
    except VerifyException as error:
        raise Unfit from error


def _pad(choose: Choose, pad: float | str, element: Attribute) -> Attribute:
    """Makes the pad of a block: the number that a pattern fixes, or any where it only names one."""
    return _number(choose(-3, 3) if isinstance(pad, str) else pad, element)


def plan_block(
    choose: Choose,
    pattern: BlockPattern,
    slots: Sequence[Slot],
    element: Attribute,
    wants: Mapping[Any, Any],
    breadth: Breadth = NARROW,
    like: Shape | None = None,
) -> Plan:
    """Plans a block for these inputs; raises Unfit where a draw failed. A block that runs over
    whole arrays of any shape mostly takes the shape of what was made before, which is `like`, so
    that both can meet in a sum; inputs that nothing tells mostly have the element type of one that
    is known.
    """
    space = _Space(choose, pattern, wants, breadth.extents)
    reads = slots[: len(pattern.reads)]
    for index, slot, read in zip(pattern.indices, reads, pattern.reads, strict=True):
        space.learn(index, slot, read)
    if like is not None and not space.groups and space.is_any_shape and choose(0, 3):
        space.learn_shape(pattern.out, like)
    space.settle()
    known = [slot.type for slot in reads if slot.type is not None]
    element = element_type_of(known[0]) if known and choose(0, 7) else element
    indices = [space.expressions(index) for index in pattern.indices]
    for exprs, slot, read in zip(indices, reads, pattern.reads, strict=True):
        if slot.type is not None and read.pad is None:
            space.shrink(exprs, shape_of(slot.type))
    types = [
        slot.type or tensor(slot.element or element, _shape(choose, space, exprs, read))
        for slot, exprs, read in zip(reads, indices, pattern.reads, strict=True)
    ]
    elements = [
        type_ if read.whole else element_type_of(type_)
        for type_, read in zip(types, pattern.reads, strict=True)
    ]
    body, made = _body(choose, pattern, elements)
    out = space.expressions(pattern.out)
    pads = [
        _pad(choose, read.pad, kind) if read.pad is not None and space.reads_outside(e, t) else None
        for read, kind, e, t in zip(pattern.reads, elements, indices, types, strict=True)
    ]
    result = tensor(made, space.shape(out))
    if len(slots) > len(reads):
        types.append(slots[-1].type or result)
    maps = [AffineMap(len(space.order), 0, tuple(exprs)) for exprs in (*indices, out)]
    return Plan(pattern, types, space.iterators(), maps, pads, body, result)


TABLES = ((256,), (256, 256))
"""Shapes of arrays in which bodies look elements up at computed indices: what 8 bits can tell."""


def _shape(choose: Choose, space: _Space, exprs: Sequence[AffineExpr], read: Access) -> Shape:
    return pick(choose, TABLES) if read.whole else space.shape(exprs, read.pad is not None)


class _Space:
    """Holds the iterators of a planned block, their extents, and the numbers that indices leave
    open.
    """

    def __init__(
        self,
        choose: Choose,
        pattern: BlockPattern,
        wants: Mapping[Any, Any],
        options: Sequence[int],
    ) -> None:
        self.choose = choose
        self.pattern = pattern
        self.wants = wants
        self.options = options
        self.extents: dict[str, int] = {}
        self.open: list[str] = []
        self.order: list[str] = []
        self.groups: dict[str, list[str]] = {}
        self.unknowns: dict[str, int] = {}

    @property
    def is_any_shape(self) -> bool:
        """Tells if the block runs over all dimensions of its result, however many."""
        return len(self.pattern.out) == 1 and isinstance(self.pattern.out[0], Group)

    def learn(self, index: Index, slot: Slot, read: Access) -> None:
        """Takes extents from the shape of an input that is known or wanted. What is known and has
        no pad is read from its first element on.
        """
        if slot.type is not None:
            self.learn_shape(index, shape_of(slot.type))
            if read.pad is None:
                offsets = [part.unknown for part in index if isinstance(part, Affine)]
                self.unknowns.update({offset[1]: 0 for offset in offsets if offset is not None})
        elif slot.label is not None and not any(isinstance(part, Group) for part in index):
            for axis, part in enumerate(index):
                if _is_plain(part) and (slot.label, axis) in self.wants:
                    self.extents.setdefault(part.terms[0][0], self.wants[slot.label, axis])

    def learn_shape(self, index: Index, shape: Shape) -> None:
        """Takes extents from a shape that an index reads or writes; raises Unfit where they have
        not as many dimensions."""
        if any(isinstance(part, Group) for part in index):
            if all(isinstance(part, Group) or _is_plain(part) for part in index):
                self._learn_groups(index, shape)
            return
        if len(index) != len(shape):
            raise Unfit
        for part, size in zip(index, shape, strict=True):
            if _is_plain(part):
                self.extents.setdefault(part.terms[0][0], size)

    def _learn_groups(self, index: Index, shape: Shape) -> None:
        """Takes extents from a shape, a dimension for each part; raises Unfit where there are more
        parts or fewer."""
        groups = [part for part in index if isinstance(part, Group)]
        if any(group.broadcast for group in groups):
            return
        open_ = [group.name for group in groups if group.name not in self.groups]
        known = sum(len(self.groups.get(group.name, ())) for group in groups)
        left = len(shape) - (len(index) - len(groups)) - known
        if left < 0 or (left and not open_):
            raise Unfit
        for name in open_:
            count = left if name == open_[-1] else self.choose(0, left)
            self._group(name, count)
            left -= count
        sizes = iter(shape)
        for part in index:
            affine = isinstance(part, Affine)
            names = [part.terms[0][0]] if affine else self.groups[part.name]
            for name in names:
                self.extents.setdefault(name, next(sizes))

    def _group(self, name: str, count: int) -> None:
        self.groups[name] = [f"{name}_{i}" for i in range(count)]

    def settle(self) -> None:
        """Chooses all extents and numbers that are still open."""
        iterators = self.pattern.iterators
        for name in iterators.groups:
            if name not in self.groups:
                self._group(name, self.choose(0, 4 if len(iterators.groups) == 1 else 3))
        in_result = [
            self.groups[p.name] if isinstance(p, Group) else [p.terms[0][0]] for p in self._out()
        ]
        self.order = [name for names in in_result for name in names]
        missing = [name for name in iterators.parallel if name not in self.order]
        self.order += [*missing, *self._reduced()]
        self.open = [name for name in self.order if name not in self.extents]
        for name in self.open:
            self.extents[name] = pick(self.choose, self.options)

    def shrink(self, exprs: Sequence[AffineExpr], shape: Shape) -> None:
        """Shortens iterators that nothing fixes until indices stay inside of an array."""
        for expr, size in zip(exprs, shape, strict=False):
            used = expr.used_dims()
            for name in [n for n in self.open if self.order.index(n) in used]:
                while self.extents[name] > 1 and self._bounds([expr])[0][1] >= size:
                    self.extents[name] -= 1

    def _reduced(self) -> list[str]:
        iterators = self.pattern.iterators
        grouped = [name for group in iterators.reduction_groups for name in self.groups[group]]
        return [*iterators.reduction, *grouped]

    def _out(self) -> list[Affine | Group]:
        return [part for part in self.pattern.out if isinstance(part, Group) or part.terms]

    def iterators(self) -> list[IteratorAttr]:
        reduced = self._reduced()
        kinds = (IteratorKind.PARALLEL, IteratorKind.REDUCTION)
        return [IteratorAttr.of(n, kinds[n in reduced], self.extents[n]) for n in self.order]

    def expressions(self, index: Index) -> list[AffineExpr]:
        """Writes an index as expressions of the iterators, one for each dimension."""
        exprs: list[AffineExpr] = []
        for part in index:
            if isinstance(part, Affine):
                exprs.append(self._affine(part))
            else:
                group = self.groups[part.name]
                members = self._members(group) if part.broadcast else group
                exprs += [self._dim(name) if name else AffineExpr.constant(0) for name in members]
        return exprs

    def _members(self, group: list[str]) -> list[str]:
        """Chooses the iterators of a group that is broadcast; "" stands for a dimension of size
        one.
        """
        kinds = [
            [],
            [""],
            group,
            ["" if i != 1 else name for i, name in enumerate(group)],
            group[-1:],
            group[2:],
        ]
        return pick(self.choose, kinds)

    def _dim(self, name: str) -> AffineExpr:
        return AffineExpr.dimension(self.order.index(name))

    def _affine(self, part: Affine) -> AffineExpr:
        constant = part.constant
        if part.unknown is not None:
            sign, name = part.unknown
            constant += sign * self._open(name, (0, 0, 1))
        expr = AffineExpr.constant(constant)
        for name, coefficient in part.terms:
            is_open = isinstance(coefficient, str)
            scale = self._open(coefficient, self._scales(part)) if is_open else int(coefficient)
            expr = expr + self._dim(name) * scale
        by = part.divisor
        divisor = self._open(by, (1, 2, 2, 3)) if isinstance(by, str) else by
        return divided(expr, divisor) if divisor > 1 else expr

    def _scales(self, part: Affine) -> tuple[int, ...]:
        """Lists choices for an open coefficient. Beside an iterator that counts by one they are
        mostly its extent, as for the channels of a group beside the number of the group.
        """
        beside = [self.extents[name] for name, coefficient in part.terms if coefficient == 1]
        return (*beside, *beside, 1, 1, 2)

    def _open(self, name: str, options: Sequence[int]) -> int:
        return self.unknowns.setdefault(name, pick(self.choose, options))

    def _bounds(self, exprs: Sequence[AffineExpr]) -> list[Interval]:
        known = spans([self.extents[name] for name in self.order])
        return [bounds(expr, known) for expr in exprs]

    def shape(self, exprs: Sequence[AffineExpr], padded: bool = False) -> Shape:
        """Computes the smallest shape in which these indices stay or, with a pad, from which they
        reach out a little.
        """
        found = self._bounds(exprs)
        if not padded and any(low < 0 for low, _ in found):
            raise Unfit
        return tuple(max(1, high + 1 + min(low, 0)) for low, high in found)

    def reads_outside(self, exprs: Sequence[AffineExpr], type_: TensorType) -> bool:
        """Tells if a read reaches outside of an array. Raises Unfit for an array of another rank,
        which another op may have given it.
        """
        if len(exprs) != len(shape_of(type_)):
            raise Unfit
        known = spans([self.extents[name] for name in self.order])
        return any(map(any, beyond(exprs, shape_of(type_), known)))


def _is_plain(part: Affine | Group) -> TypeGuard[Affine]:
    if not isinstance(part, Affine) or part.divisor != 1:
        return False
    return [c for _, c in part.terms] == [1] and part.unknown is None


def _body(
    choose: Choose, pattern: BlockPattern, elements: Sequence[Attribute]
) -> tuple[Region, Attribute]:
    """Makes the body on inputs of these element types, and the element type of its result: the type
    that the body gives when it takes that type for the result so far.
    """
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, pick(choose, NUMBERS))

    for element in dict.fromkeys((*elements, i32, i8, f32)):
        block = Block(arg_types=[*elements, element])
        try:
            with emitting_to(block):
                made = emit_pattern(pattern.body, list(map(Emitted, block.args)), number)
                emit(YieldOp.create(operands=[made.value]))
            for op in block.ops:
                op.verify()
        except (TypeError, KeyError, VerifyException, AssertionError):
            continue
        if made.type == element:
            return Region(block), element
    raise Unfit

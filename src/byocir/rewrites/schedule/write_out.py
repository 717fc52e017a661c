"""write_out: writes loops out as what they do, one iteration after the other, with numbers as
bases.

```
tir.for %i = 0 to 2 serial {                          tir.block [m: 16] ins(%x[m] …
  tir.block [m: 16] at(%i * 16)                    →  tir.block [m: 4] ins(%x[m + 16] …
      ins(%x[m] …) where(-m + 19 >= 0) …
}
```

Where a guard leaves points out, the block runs over the others; what is read outside an array is
part of a block that has the pad in its place. Iterators of one point are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.intervals import Interval
from byocir.dialects.new_ops import clone_region
from byocir.dialects.tir import BlockOp, ForOp, IntrinsicOp, IteratorAttr, maps_attribute
from byocir.dialects.tir.affine import expression, linear
from byocir.dialects.tir.linear import Linear
from byocir.dialects.traits import is_terminator
from byocir.dialects.types import Shape, shape_of
from byocir.dialects.uses import replace_uses
from byocir.rewrites.schedule.index import INDEX_ARITHMETIC, is_index_arithmetic
from byocir.rewrites.schedule.requests import check_loop, refused


def write_out(body: Block, keeps_pads: Callable[[BlockOp], bool] | None = None) -> None:
    """Writes out all loops of a body, and the guards and pads of its blocks, but for pads of blocks
    that `keeps_pads` marks. Raises ByocirError B251 for a loop that carries values, B262 for a pad
    that several iterators decide about.
    """
    _Written(body, keeps_pads).put()


class _Written:
    def __init__(self, body: Block, keeps_pads: Callable[[BlockOp], bool] | None) -> None:
        self.body, self.keeps_pads = body, keeps_pads
        self.made: list[Operation] = []
        self.numbers: dict[SSAValue, int] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.boxes: dict[BlockOp, PaddedBox] = {}

    def put(self) -> None:
        """Replaces the content of the body."""
        self._all(self.body)
        last = self.body.last_op
        for op in reversed(list(self.body.ops)):
            if op is not last or not is_terminator(op):
                op.detach()
                op.erase(safe_erase=False)
        if last is not None and last.parent is not None:
            self.body.insert_ops_before(self.made, last)
        else:
            self.body.add_ops(self.made)

    def _all(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, ForOp):
                check_loop(op)
                for i in range(op.extent.value.data):
                    self.numbers[op.index] = i
                    self._all(op.body.block)
            elif is_index_arithmetic(op):
                self.numbers[op.results[0]] = _computed(op, self.numbers)
            elif isinstance(op, BlockOp):
                self.made += self._blocks(op)
            elif isinstance(op, IntrinsicOp):
                inner = [b for each in op.body.block.ops for b in self._inside(each)]
                self.made.append(IntrinsicOp.of(op.callee.data, inner, op.fields, op.location))
            elif not is_terminator(op):
                self._copy(op)

    def _inside(self, op: Operation) -> Sequence[Operation]:
        assert isinstance(op, BlockOp)
        return self._blocks(op)

    def _copy(self, op: Operation) -> None:
        """Copies an op that is no block or loop, with numbers for its index operands."""
        operands = list[SSAValue]()
        for value in op.operands:
            if value.type == IndexType() and value in self.numbers:
                constant = arith.ConstantOp(IntegerAttr.from_index_int_value(self.numbers[value]))
                constant.location = op.location
                self.made.append(constant)
                operands.append(constant.result)
            else:
                operands.append(self.values.get(value, value))
        made = op.clone(clone_operands=False)
        made.operands = operands
        made.location = op.location
        self.values.update(zip(op.results, made.results, strict=True))
        for old, new in zip(op.results, made.results, strict=True):
            new.name_hint = old.name_hint
        self.made.append(made)

    def _blocks(self, op: BlockOp) -> list[Operation]:
        if op not in self.boxes:
            self.boxes[op] = PaddedBox.of(op)
        bases = [self.numbers[base] for base in op.bases]
        start = self.boxes[op].at(bases)
        keeps = self.keeps_pads
        pieces = [piece for box in start.guarded() for piece in box.unpadded(keeps)]
        values = [self.values.get(v, v) for v in [*op.ins, *op.outs]]
        return [piece.made(values) for piece in pieces]


def _computed(op: Operation, numbers: Mapping[SSAValue, int]) -> int:
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        return op.value.value.data
    left, right = (numbers[value] for value in op.operands)
    return INDEX_ARITHMETIC[type(op)](left, right)


@dataclass(frozen=True)
class PaddedBox:
    """Describes a block over intervals of its iterators, with linear indices; an input of which
    only the pad is read has none.
    """

    op: BlockOp
    sides: tuple[tuple[int, int], ...]
    forms: tuple[tuple[Linear[int], ...], ...]
    guards: tuple[Linear[int], ...]
    pads: tuple[Attribute | None, ...]
    outside: frozenset[int] = frozenset()
    """The inputs of which only the pad is read."""
    templates: dict[tuple[Shape, frozenset[int]], _Template] = field(
        default_factory=dict[tuple[Shape, frozenset[int]], "_Template"], compare=False, repr=False
    )
    """The parts that blocks of boxes of the op share, by the sizes of the boxes and the inputs of
    which only the pad is read."""

    @staticmethod
    def of(op: BlockOp) -> PaddedBox:
        forms = tuple(tuple(_linear(e, op) for e in attr.data.results) for attr in op.maps)
        guards = () if op.where is None else op.where.data.results
        sides = tuple((0, extent) for extent in op.extents)
        return PaddedBox(
            op, sides, forms, tuple(_linear(e, op) for e in guards), tuple(op.pad_values)
        )

    def at(self, bases: Sequence[int]) -> PaddedBox:
        """Moves the box to these bases."""
        if not bases:
            return self
        sides = tuple(
            (base + lo, base + hi) for base, (lo, hi) in zip(bases, self.sides, strict=True)
        )
        return replace(self, sides=sides)

    def _bounds(self, form: Linear[int]) -> Interval:
        return form.interval(lambda i: Interval(self.sides[i][0], self.sides[i][1] - 1))

    def _within(self, form: Linear[int], low: int, high: int) -> tuple[int, tuple[int, int]]:
        """Finds the iterator that decides whether a form lies between `low` and `high`, and the
        interval of it in which it does.
        """
        live = [(i, c) for i, c in form.terms if self.sides[i][1] - self.sides[i][0] > 1]
        if len(live) > 1:
            raise refused(
                "B262", "expected one iterator to lead out of an array, found several", self.op
            )
        i, _ = live[0] if live else form.terms[0] if form.terms else (0, 0)
        first, end = self.sides[i]
        inside = [v for v in range(first, end) if low <= self._value(form, i, v) <= high]
        return i, (inside[0], inside[-1] + 1) if inside else (first, first)

    def _value(self, form: Linear[int], i: int, value: int) -> int:
        return form.value(lambda j: value if j == i else self.sides[j][0])

    def over(self, i: int, side: tuple[int, int]) -> PaddedBox:
        """Restricts the box to these points of iterator i."""
        return replace(self, sides=(*self.sides[:i], side, *self.sides[i + 1 :]))

    def guarded(self, apart: Sequence[int] | None = None) -> list[PaddedBox]:
        """Splits the box into boxes without guards, of the points that the guards admit. Where
        several iterators decide about one guard, those of `apart`, the parallel ones by default,
        are taken point by point first.
        """
        if not self.guards:
            return [self]
        form, rest = self.guards[0], replace(self, guards=self.guards[1:])
        low, high = self._bounds(form)
        if high < 0:
            return []
        if low >= 0:
            return rest.guarded(apart)
        live = [i for i, _ in form.terms if self.sides[i][1] - self.sides[i][0] > 1]
        if len(live) > 1:
            first = self.op.parallels if apart is None else apart
            chosen = next((i for i in live if i in first), live[0])
            return [box for part in self._by_point(form, chosen) for box in part.guarded(apart)]
        return rest.over(*self._within(form, 0, high)).guarded(apart)

    def _by_point(self, form: Linear[int], i: int) -> list[PaddedBox]:
        """Splits the box along iterator i into runs of points that a guard leaves whole, and other
        points one by one; points of which it leaves nothing are dropped.
        """
        found: list[PaddedBox] = []
        for point in range(*self.sides[i]):
            box = self.over(i, (point, point + 1))
            low, high = box._bounds(form)
            if low >= 0 and found and found[-1].sides[i][1] == point and found[-1]._holds(form):
                found[-1] = found[-1].over(i, (found[-1].sides[i][0], point + 1))
            elif high >= 0:
                found.append(box)
        return found

    def _holds(self, form: Linear[int]) -> bool:
        return self._bounds(form).low >= 0

    def unpadded(self, keeps: Callable[[BlockOp], bool] | None = None) -> list[PaddedBox]:
        """Splits the box into boxes, each of which reads inside its arrays, or nothing but a pad,
        or is that of a block that `keeps` its pads.
        """
        first = next(self._beyond(), None)
        if first is None or (keeps is not None and keeps(self.made(self.op.operands))):
            return [self]
        return self._parted(*first, keeps)

    def _beyond(self) -> Iterator[tuple[int, Linear[int], int]]:
        """Yields the indices that lead out of arrays: input, index, and the array's size."""
        for operand, pad in enumerate(self.pads):
            if pad is None or operand in self.outside:
                continue
            sizes = shape_of(self.op.ins[operand].type)
            for form, size in zip(self.forms[operand], sizes, strict=True):
                low, high = self._bounds(form)
                if low < 0 or high >= size:
                    yield operand, form, size

    def _parted(
        self,
        operand: int,
        form: Linear[int],
        size: int,
        keeps: Callable[[BlockOp], bool] | None,
    ) -> list[PaddedBox]:
        i, (first, end) = self._within(form, 0, size - 1)
        low, high = self.sides[i]
        found: list[PaddedBox] = []
        for side in ((low, first), (first, end), (end, high)) if first < end else ((low, high),):
            if side[0] < side[1]:
                part = self.over(i, side)
                is_outside = side != (first, end)
                gone = self.outside | {operand} if is_outside else self.outside
                found += replace(part, outside=gone).unpadded(keeps)
        return found

    @property
    def kept(self) -> list[int]:
        """Lists the iterators that the box's block will have: those with several points, or one
        if there is any."""
        several = [i for i, (low, high) in enumerate(self.sides) if high - low > 1]
        return several or [*range(len(self.sides))][:1]

    def made(self, values: Sequence[SSAValue]) -> BlockOp:
        """Makes the block, on these arrays."""
        sizes = tuple([high - low for low, high in self.sides])
        beyond = frozenset(operand for operand, _, _ in self._beyond())
        key = sizes, self.outside
        template = self.templates.get(key)
        if template is None:
            template = self.templates[key] = _Template.of(self)
        count, forms = len(self.op.ins), self.forms
        starts = tuple([self._starts(forms[i]) for i in template.read])
        return BlockOp(
            template.iterators,
            [values[i] for i in template.read if i < count],
            [values[i] for i in template.read if i >= count],
            template.maps(starts),
            clone_region(template.body),
            pads=[self.pads[i] if i in beyond else None for i in template.read if i < count],
            location=self.op.location,
        )

    def _starts(self, forms: Sequence[Linear[int]]) -> Shape:
        """Gives the indices where the box begins."""
        sides = self.sides
        return tuple([f.constant + sum([c * sides[i][0] for i, c in f.terms]) for f in forms])

    def body(self) -> Region:
        """Makes the body of the block, with numbers in place of what is read outside."""
        region = clone_region(self.op.body)
        block = region.block
        for i in sorted(self.outside, reverse=True):
            pad = self.pads[i]
            assert pad is not None
            number = arith.ConstantOp.create(
                properties={"value": pad}, result_types=[block.args[i].type]
            )
            number.location = self.op.location
            assert block.first_op is not None
            block.insert_op_before(number, block.first_op)
            replace_uses(block.args[i], number.result)
            block.erase_arg(block.args[i])
        return region


_Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Template:
    """Holds what blocks have in common that differ only in their arrays and in where their boxes
    begin: the operands that they read, iterators, the body and, for each operand, the terms of its
    indices.
    """

    read: Sequence[int]
    iterators: ArrayAttr[IteratorAttr]
    body: Region
    terms: tuple[tuple[_Terms, ...], ...]

    @staticmethod
    def of(box: PaddedBox) -> _Template:
        kept, op = box.kept, box.op
        sizes = tuple([high - low for low, high in box.sides])
        iterators = tuple([(op.iterators.data[i], sizes[i]) for i in kept])
        read = [i for i in range(len(box.forms)) if i not in box.outside]
        places = {i: n for n, i in enumerate(kept)}
        terms = tuple(
            tuple(tuple((places[i], c) for i, c in f.terms if i in places) for f in box.forms[at])
            for at in read
        )
        body = box.body() if box.outside else op.body
        return _Template(read, _resized(iterators), body, terms)

    def maps(self, starts: tuple[Shape, ...]) -> ArrayAttr[AffineMapAttr]:
        """Gives the index maps of boxes that begin at these indices."""
        return _maps(len(self.iterators.data), self.terms, starts)


# Programs have thousands of blocks, and few that differ in their iterators and indices: they share
# attributes, so that these are told apart by identity.


@lru_cache(maxsize=1024)
def _resized(iterators: tuple[tuple[IteratorAttr, int], ...]) -> ArrayAttr[IteratorAttr]:
    return ArrayAttr([each.resized(extent) for each, extent in iterators])


@lru_cache(maxsize=1 << 14)
def _maps(
    iterators: int, terms: tuple[tuple[_Terms, ...], ...], starts: tuple[Shape, ...]
) -> ArrayAttr[AffineMapAttr]:
    pairs = (zip(*each, strict=True) for each in zip(terms, starts, strict=True))
    exprs = (tuple(expression(Linear(t, start)) for t, start in own) for own in pairs)
    return maps_attribute([AffineMap(iterators, 0, own) for own in exprs])


def _linear(expr: AffineExpr, op: BlockOp) -> Linear[int]:
    form = linear(expr)
    if form is None:
        raise refused("B262", f"expected linear indices and guards, found {expr}", op)
    return form

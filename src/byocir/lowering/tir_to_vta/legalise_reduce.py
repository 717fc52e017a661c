"""Brings contractions and window reductions into the form in which VTA computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp, FillOp
from byocir.dialects.tir.affine import iterator_of, iterators_in, linear
from byocir.dialects.types import element_type_of, i8, i32, shape_of, tensor
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.composites import number_around, unsupported
from byocir.lowering.tir_to_vta.layout import weights_of
from byocir.lowering.tir_to_vta.legalise_groups import GroupedChannel, counting_channels
from byocir.lowering.tir_to_vta.legalise_lanes import (
    I8_RANGE,
    Lane,
    Pooled,
    Reduced,
)
from byocir.patterns.scalars import ScalarPattern, match_body
from byocir.rewrites.block_ends import Ends, Known, ends_of
from byocir.rewrites.machine.windows import Window
from byocir.rewrites.window_guards import guards_of, leaves_elements

HAND_OVER = "let the target's patterns decline this op, so that another target takes it"


def reduced(blocks: Sequence[BlockOp], ranges: dict[SSAValue, Interval]) -> Reduced:
    """Makes the lane of a block with reductions, or of several, each of which begins with the sums
    of the one before; `ranges` has the values that i8 tensors may have.

    Raises ByocirError B322 for a reduction that is neither a contraction of i8 with constant i8
    weights nor a window sum or maximum of i8.
    """
    first, *others = blocks
    lane = _reduced(first, _initial(first), ranges)
    for block in others:
        lane = _behind(lane, _reduced(block, lane.initial, ranges))
    return lane


def _behind(first: Reduced, second: Reduced) -> Reduced:
    """Makes the lane of sums that begin with those of another lane."""

    def make(start: SSAValue) -> list[BlockOp]:
        made = first.make(start)
        return [*made, *second.make(made[-1].results[0])]

    return replace(second, make=make)


def _reduced(block: BlockOp, initial: int, ranges: dict[SSAValue, Interval]) -> Reduced:
    _check_space(block)
    if forms.CONTRACTION.fits(block):
        # The product is commutative; the weights are the constant factor, if there is one.
        w = weights_of(block)
        return _Contraction(block, 1 - w, w).lane(ranges, initial)
    if forms.WINDOW_SUM.fits(block):
        return _Window(block, forms.WINDOW_SUM).lane(ranges, initial)
    if takes_maxima(block) and element_type_of(block.ins[0].type) == i8:
        return _Window(block, forms.WINDOW_MAXIMUM).lane(ranges, initial)
    raise unsupported(
        "B322",
        "expected a contraction acc + x * w, a window sum acc + x or a window maximum of i8, found "
        f"{', '.join(op.name for op in block.body.block.ops)}",
        block,
        help=HAND_OVER,
    )


def _of_sums(
    block: BlockOp,
    ranges: dict[SSAValue, Interval],
    initial: int,
    make: Callable[[SSAValue], list[BlockOp]],
) -> Reduced:
    """Makes the lane of sums. Arrays that are copied to VTA have zeros in lanes without a
    channel.
    """
    found = [(value, ranges[value]) for value in block.ins if value in ranges]
    given = {value: Interval(min(low, 0), max(high, 0)) for value, (low, high) in found}
    ends = ends_of(block.results[0], given)
    assert ends is not None
    return Reduced(ends.interval, block.location, initial, make, ends)


def pooled(block: BlockOp, lane: Lane) -> Lane:
    """Makes the maxima of a lane over windows. Raises ByocirError B322 for other reductions of what
    a composite computes.
    """
    _check_space(block)
    initial, window = _initial(block), _Window(block, forms.WINDOW_MAXIMUM)
    if not takes_maxima(block) or not window.keeps_channels or initial > lane.range.low:
        raise unsupported(
            "B322", "expected a reduction of the composite's input, or a max pool", block
        )
    window.check_pad(initial)
    shape = shape_of(block.ins[0].type)
    if window.leaves_elements:
        return Pooled(lane.range, block.location, lane, shape, window.of_sums)
    found = Interval(initial, lane.range.high)
    return Pooled(found, block.location, lane, shape, window.of_sums)


def sums_of(window: Window, source: SSAValue, given: Known) -> list[Operation]:
    """Makes the block that takes the maxima of windows of sums, behind the fill of what they begin
    with.
    """
    ends = ends_of(source, given)
    assert ends is not None
    least = IntegerAttr(ends.interval.low, i32)
    fill = FillOp.of(least, tensor(i32, shape_of(window.op.results[0].type)))
    body = window.body(i32)
    made = window.op.like(ins=[source], outs=[fill.results[0]], body=body, pads=[None])
    return [fill, made]


def takes_maxima(block: BlockOp) -> bool:
    """Tells if a block takes maxima of its one input."""
    return len(block.ins) == 1 and next(match_body(block, (0,), _maximum), None) is not None


def _maximum(acc: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
    return acc.max(x)


def _initial(block: BlockOp) -> int:
    """Gives the number that a reduction starts from."""
    owner = block.outs[0].owner
    number = owner.value if isinstance(owner, FillOp) else None
    if len(block.outs) != 1 or not isinstance(number, IntegerAttr):
        raise unsupported("B322", "expected a reduction that starts from one number", block)
    return number.value.data


def _check_space(block: BlockOp) -> None:
    """Raises ByocirError B322 unless the result is [N, C, …], indexed by the parallel iterators in
    order, and the block has no guard and no bases.
    """
    plain = [AffineExpr.dimension(i) for i in block.parallels]
    if list(block.out_maps[0].results) != plain or len(plain) < 2:
        raise unsupported(
            "B322", "expected a result [N, C, …] with one parallel iterator per dimension", block
        )
    if block.where is not None or block.bases:
        raise unsupported("B322", "expected a whole reduction, found a part of one", block)


def _summed(x_map: AffineMap) -> int | None:
    """Finds the iterator over input channels."""
    grouped = GroupedChannel.of(x_map.results[1])
    return counting_channels(x_map.results[1]) if grouped is None else grouped.summed


@dataclass(frozen=True)
class _Contraction:
    """Describes a convolution or a matrix product; `x` and `w` are operand numbers."""

    block: BlockOp
    x: int
    w: int

    def lane(self, ranges: dict[SSAValue, Interval], initial: int) -> Reduced:
        x_map, w_map = self.block.in_maps[self.x], self.block.in_maps[self.w]
        batch, channel = self.block.parallels[:2]
        self._check_input(x_map, batch)
        used = {iterator_of(expr) for expr in w_map.results if linear(expr) != linear(_ZERO)}
        of_x = iterators_in(x_map.results)
        shared = {i for i in used if i in of_x and i in self.block.parallels}
        wanted = {channel, *self.block.reductions, *shared}
        needed = {i for i in wanted if self.block.extents[i] > 1}
        if None in used or not needed <= used <= wanted or _summed(x_map) not in used:
            raise self._not_dense(f"weights at {w_map}")
        return _of_sums(self.block, ranges, initial, lambda v: [self._make(v)])

    def _check_input(self, x_map: AffineMap, batch: int) -> None:
        spatial = [linear(expr) for expr in x_map.results[2:]]
        summed = _summed(x_map)
        if (
            iterator_of(x_map.results[0]) != batch
            or summed not in self.block.reductions
            or None in spatial
        ):
            raise self._not_dense(f"input at {x_map}")

    def _not_dense(self, found: str) -> Exception:
        return unsupported(
            "B322",
            "expected a convolution of [N, C, …] whose groups fill blocks of "
            f"channels, or a product of [N, K] with [K, M], found {found}",
            self.block,
            help=HAND_OVER,
        )

    def _make(self, start: SSAValue) -> BlockOp:
        block, order = self.block, (self.x, self.w)
        return block.like(
            ins=[block.ins[i] for i in order],
            outs=[start],
            maps=[*(block.in_maps[i] for i in order), block.out_maps[0]],
            body=forms.CONTRACTION.region(),
            pads=[block.pad_values[i] for i in order],
        )


_ZERO = AffineExpr.constant(0)


@dataclass(frozen=True)
class _Window:
    """Describes a sum or maximum over windows."""

    block: BlockOp
    form: forms.Form

    @property
    def keeps_channels(self) -> bool:
        """Tells if the windows slide over the spatial dimensions of [N, C, …] alone, and read no
        batch or channel that does not exist.
        """
        index = self.block.in_maps[0].results
        sizes = shape_of(self.block.ins[0].type)
        plain = [iterator_of(expr) for expr in index[:2]] == self.block.parallels[:2]
        inside = all(
            self.block.extents[i] <= size
            for i, size in zip(self.block.parallels[:2], sizes, strict=False)
        )
        return plain and inside and all(linear(expr) is not None for expr in index)

    def of_sums(self, source: SSAValue, start: SSAValue) -> BlockOp:
        """Makes the block that takes maxima of sums over those points of windows that are
        inside.
        """
        return self._made(forms.alu("max"), source, start, None, guards_of(self.block))

    def lane(self, ranges: dict[SSAValue, Interval], initial: int) -> Reduced:
        block = self.block
        if not self.keeps_channels:
            raise unsupported(
                "B322",
                "expected a window over the spatial dimensions of [N, C, …], found input at "
                f"{block.in_maps[0]}",
                block,
                help=HAND_OVER,
            )
        if self.form is forms.WINDOW_MAXIMUM:
            return self._maximum(ranges.get(block.ins[0], I8_RANGE), initial)
        pad = number_around(block, 0)
        return _of_sums(block, ranges, initial, lambda v: self._of_bytes(v, pad, None))

    def _maximum(self, x: Interval, initial: int) -> Reduced:
        """Makes the block of a maximum. VTA pads with 0, which is harmless for inputs that are
        never negative; otherwise the points outside are left out, or `vta-border` puts the least
        number there.
        """
        self.check_pad(initial)
        guards, leaves_elements = guards_of(self.block), self.leaves_elements
        harmless = x.low >= 0 and initial <= 0 and leaves_elements
        found = Interval(x.low if leaves_elements else initial, max(x.high, initial))
        outside = _PAD_ZERO if harmless else IntegerAttr(initial, i8)
        padded = outside if guards and initial >= I8_RANGE.low else None
        guard = None if harmless else guards
        location, ends = self.block.location, Ends.of(found)
        return Reduced(found, location, initial, lambda v: self._of_bytes(v, padded, guard), ends)

    def check_pad(self, initial: int) -> None:
        """Raises ByocirError B322 if the points around the input hold another number than that
        which the reduction starts from."""
        pad = self.block.pad_values[0]
        if isinstance(pad, IntegerAttr) and pad.value.data != initial:
            raise unsupported("B322", f"expected pad {initial}, found {pad.value.data}", self.block)

    @property
    def leaves_elements(self) -> bool:
        """Tells if every window covers at least one element of the input."""
        return leaves_elements(self.block, guards_of(self.block))

    def _of_bytes(
        self, start: SSAValue, pad: IntegerAttr | None, where: AffineMap | None
    ) -> list[BlockOp]:
        pad = None if self.block.pad_values[0] is None else pad
        return [self._made(self.form, self.block.ins[0], start, pad, where)]

    def _made(
        self,
        form: forms.Form,
        source: SSAValue,
        start: SSAValue,
        pad: IntegerAttr | None,
        where: AffineMap | None,
    ) -> BlockOp:
        block, body = self.block, form.region()
        maps = [*block.in_maps, *block.out_maps]
        return BlockOp(
            list(block.iterators),
            [source],
            [start],
            maps,
            body,
            pads=[pad],
            where=where,
            location=block.location,
        )


_PAD_ZERO = IntegerAttr(0, i8)

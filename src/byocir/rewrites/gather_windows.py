"""Lets convolutions of few channels read their windows as channels, which the host gathers.

Units that multiply blocks of channels at once idle where there are few: a convolution of 3 channels
with a 7x7 window takes a unit of 16 lanes 49 steps for each block of results, 13 lanes idle. Where
the host hands over what such a convolution reads, it gathers the windows on the way into the call,
and these become channels, in the order in which the weights have them:

    x [n, 3, 224, 224], w [o, 3, 7, 7]  →  x' [n, 147, 112, 112], w' [o, 147]
    x'[n, k, h, w] = x[n, k floordiv 49, 2 h + (k floordiv 7) mod 7 - 3, 2 w + k mod 7 - 3]

    x [n, 230, 230, 3], w [7, 7, 3, o]  →  x' [n, 112, 112, 147], w' [147, o]
    x'[n, h, w, k] = x[n, 2 h + k floordiv 21, 2 w + (k floordiv 3) mod 7, k mod 3]

147 channels are 10 blocks, and so 10 steps. What is read outside of an array is gathered with it.
Where tiles want whole blocks, windows have zeros behind them, or anything that weights of 0 follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from byocir.dialects.array import Array
from byocir.dialects.byoc import CallOp, CompositeOp, calls_in, composites_in
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.moves import axes, moved
from byocir.dialects.tir.reductions import is_unordered
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import Shape, element_type_of, nbytes, shape_of, tensor
from byocir.dialects.uses import erase, replace_op, set_operand
from byocir.rewrites.host.contraction import is_contraction

Chooser = Callable[["NarrowRead"], "NarrowRead | None"]
"""Chooses a form in which a device gains by windows that the host gathers; None for none."""


@dataclass(frozen=True)
class NarrowRead:
    """Describes a contraction with constant weights that alone reads an image, an argument of its
    composite, by windows.
    """

    composite: CompositeOp
    op: BlockOp
    channels: int | None = None
    """The number of channels to gather: those behind them have weights of 0."""
    multiple: int = 1
    """The depth of gathered windows is a multiple of it."""

    @property
    def image(self) -> SSAValue:
        return self.op.ins[0]

    @property
    def weights(self) -> SSAValue:
        return self.op.ins[1]

    @property
    def out(self) -> int:
        """Gives the iterator over output channels."""
        return next(i for i in self._of_weights if i not in self.op.reductions)

    @property
    def summed(self) -> list[int]:
        """Lists the iterators that are summed over, in the order in which weights become
        one row."""
        return [i for i in self._of_weights if i != self.out]

    @property
    def elements(self) -> int:
        """Counts the elements of a window, all channels together."""
        return prod(self._extent(i) for i in self.summed)

    @property
    def depth(self) -> int:
        """Counts the channels of gathered windows."""
        return -(-self.elements // self.multiple) * self.multiple

    @property
    def pad(self) -> Attribute | None:
        """Gives the number that is gathered outside of the image."""
        pad = self.op.pad_values[0]
        if pad is None and self.depth > self.elements:
            return number_attr(0, element_type_of(self.image.type))
        return pad

    @property
    def shape(self) -> Shape:
        """Gives the shape of the gathered windows."""
        return tuple(self.depth if i is None else self.op.extents[i] for i in self._walked)

    @property
    def channel(self) -> int:
        """Gives the dimension of the image, and of the windows, that has channels."""
        return self._walked.index(None)

    @property
    def _of_weights(self) -> list[int]:
        exprs = self.op.in_maps[1].results
        return [expr.position for expr in exprs if isinstance(expr, AffineDimExpr)]

    @property
    def _walked(self) -> list[int | None]:
        """Gives the parallel iterator by which each dimension of the image is read; None for
        channels."""
        found: list[int | None] = []
        for expr in self.op.in_maps[0].results:
            is_channel = isinstance(expr, AffineDimExpr) and expr.position in self.op.reductions
            own = [i for i in sorted(expr.used_dims()) if i in self.op.parallels]
            found.append(None if is_channel else own[0] if len(own) == 1 else -1)
        return found

    def _extent(self, i: int) -> int:
        """Counts what an iterator of sums runs over in gathered windows."""
        channels = self.channels if i == self._of_channels else None
        return self.op.extents[i] if channels is None else channels

    @property
    def used_channels(self) -> int:
        """Counts the channels that are gathered."""
        return self._extent(self._of_channels)

    def channels_with(self, weights: ConstantOp) -> int:
        """Counts the channels up to the last one that has weights other than 0, but at least 1."""
        at = self._of_weights.index(self._of_channels)
        used = np.moveaxis(weights.value.data.values(), at, 0) != 0
        found = np.flatnonzero(used.reshape(len(used), -1).any(axis=1))
        return int(found[-1]) + 1 if len(found) else 1

    @property
    def is_narrow(self) -> bool:
        """Tells if it sums products over windows, in any order, all outputs over the same ones."""
        op, weights = self.op, self._of_weights
        others = [i for i in op.parallels if i not in weights]
        return (
            is_contraction(op)
            and is_unordered(op)
            and len(op.reductions) > 1
            and self._is_in_order
            and op.pad_values[1] is None
            and len(op.in_maps[1].results) == len({*weights}) == len(op.reductions) + 1
            and {*op.reductions} < {*weights}
            and sorted(self._walked, key=lambda i: -2 if i is None else i) == [None, *others]
        )

    @property
    def may_add_zeros(self) -> bool:
        """Tells if products with weights of 0 add nothing: those of floats may be no number."""
        return isinstance(element_type_of(self.image.type), IntegerType)

    @property
    def _is_in_order(self) -> bool:
        """Tells if the parallel iterators come first, as the dimensions of the result do."""
        count = len(self.op.parallels)
        result = list(self.op.out_maps[0].results)
        return (
            list(self.op.parallels) == [*range(count)]
            and result == axes(len(self.op.extents))[:count]
        )

    @property
    def index(self) -> list[AffineExpr]:
        """Gives the element of the image, by the dimensions of the windows."""
        sources: list[AffineExpr] = [AffineExpr.constant(0)] * len(self.op.extents)
        for at, i in enumerate(self._walked):
            if i is not None:
                sources[i] = AffineExpr.dimension(at)
        k, inner = AffineExpr.dimension(self.channel), 1
        for i in reversed(self.summed):
            whole = k // inner if inner > 1 else k
            inner *= self._extent(i)
            sources[i] = whole % self._extent(i) if inner < self.elements else whole
        return [e.replace_dims_and_symbols(sources, []) for e in self.op.in_maps[0].results]

    def restate(self) -> None:
        """Makes the contraction read windows as channels: image and weights of its composite get
        other shapes.
        """
        op, last = self.op, len(self.op.parallels)
        shape, index = self.shape, [last if i is None else i for i in self._walked]
        image = _retyped(self.image, shape)
        if isinstance(self.weights.owner, ConstantOp):
            constant = self.weights.owner
            made = ConstantOp.of(self.rows_of(constant), location=constant.location)
            replace_op(constant, [made])
            weights = made.result
        else:
            weights = _retyped(self.weights, self.shape_of_rows)
        iterators = list(op.iterators)
        name = iterators[self._of_channels].iterator_name.data
        depth = IteratorAttr.of(name, IteratorKind.REDUCTION, self.depth)
        rows = [self.out, last] if self._is_out_first else [last, self.out]
        maps = [index, rows, [*range(last)]]
        restated = BlockOp(
            [*iterators[:last], depth],
            [image, weights],
            list(op.outs),
            [AffineMap(last + 1, 0, tuple(map(AffineExpr.dimension, each))) for each in maps],
            op.body.clone(),
            location=op.location,
        )
        Rewriter.replace_op(op, restated)

    @property
    def _of_channels(self) -> int:
        """Gives the iterator over the image's channels."""
        expr = self.op.in_maps[0].results[self.channel]
        assert isinstance(expr, AffineDimExpr)
        return expr.position

    @property
    def _is_out_first(self) -> bool:
        return self._of_weights[0] == self.out

    @property
    def shape_of_rows(self) -> Shape:
        """Gives the shape of the weights of all windows: [outputs, depth], or the other way
        round."""
        shape = (self.op.extents[self.out], self.depth)
        return shape if self._is_out_first else shape[::-1]

    def rows_of(self, weights: ConstantOp) -> Array:
        """Gives weights with a row, or a column, for each output channel."""
        values, order = weights.value.data.values(), self._of_weights
        if self.channels is not None:
            values = values.take(range(self.channels), order.index(self._of_channels))
        rows = np.moveaxis(values, order.index(self.out), 0)
        rows = rows.reshape(len(rows), -1)
        rows = np.pad(rows, [(0, 0), (0, self.depth - self.elements)])
        return Array.of(rows if self._is_out_first else rows.T.copy())


def _retyped(value: SSAValue, shape: Shape) -> SSAValue:
    type_ = tensor(element_type_of(value.type), shape)
    return Rewriter.replace_value_with_new_type(value, type_)


def narrow_reads(composite: CompositeOp) -> Iterator[NarrowRead]:
    """Yields the contractions of a composite that alone read an argument of it, by windows."""
    for op in list(composite.body.block.ops):
        if isinstance(op, BlockOp) and len(op.ins) == 2:
            image, weights = op.ins
            is_read = isinstance(image, BlockArgument) and len(list(image.uses)) == 1
            is_constant = isinstance(weights.owner, ConstantOp) or isinstance(
                weights, BlockArgument
            )
            read = NarrowRead(composite, op)
            if is_read and is_constant and len(list(weights.uses)) == 1 and read.is_narrow:
                yield read


def gather_windows(module: ModuleOp, choosers: Iterable[tuple[FuncOp, Chooser]]) -> None:
    """Lets the host gather the windows of convolutions in functions where a device gains by it."""
    calls = calls_in(module)
    for function, choose in choosers:
        own = calls.get(function.sym_name.data, [])
        for composite in composites_in(function):
            for read in narrow_reads(composite):
                crossing = _Crossing.of(function, read)
                if crossing and own and all(map(crossing.is_from_host, own)):
                    crossing.move(choose(crossing.of_used_channels(read, own)), own)


@dataclass(frozen=True)
class _Crossing:
    """Tells how a function gets what a contraction reads: the numbers of the arguments that are its
    image and, unless they are constants of the composite, its weights.
    """

    function: FuncOp
    image: int
    weights: int | None

    @staticmethod
    def of(function: FuncOp, read: NarrowRead) -> _Crossing | None:
        """Gives None where others read the arguments, too, or something else computes them."""
        found: list[int] = []
        for value in (read.image, read.weights):
            if not isinstance(value, BlockArgument):
                continue
            outer = read.composite.inputs[value.index]
            if not isinstance(outer, BlockArgument) or len(list(outer.uses)) > 1:
                return None
            found.append(outer.index)
        return _Crossing(function, found[0], found[1] if len(found) > 1 else None)

    def is_from_host(self, call: CallOp) -> bool:
        """Tells if a call gets an image that no device has just computed, and constant weights."""
        if self.weights is not None and not isinstance(call.inputs[self.weights].owner, ConstantOp):
            return False
        source = call.inputs[self.image].owner
        while isinstance(source, BlockOp) and source.moves:
            source = source.ins[0].owner
        return not isinstance(source, CallOp)

    def of_used_channels(self, read: NarrowRead, calls: Sequence[CallOp]) -> NarrowRead:
        """Restricts a read to channels that have weights other than 0 in some call."""
        if not read.may_add_zeros:
            return read
        owners = [read.weights.owner]
        if self.weights is not None:
            owners = [call.inputs[self.weights].owner for call in calls]
        used = [read.channels_with(each) for each in owners if isinstance(each, ConstantOp)]
        return replace(read, channels=max(used)) if used else read

    def move(self, read: NarrowRead | None, calls: Sequence[CallOp]) -> None:
        """Gathers windows of this form in front of the calls, and makes the contraction read
        them.
        """
        if read is None:
            return
        for call in calls:
            image, before = shape_of(call.inputs[self.image].type), _bytes_into(call)
            # what the host does is part of the contraction's node, not of all nodes of the region
            where = read.op.location
            ops = moved(call.inputs[self.image], read.shape, read.index, where, pad=read.pad)
            _pass_in(call, self.image, ops)
            if self.weights is not None:
                self._put_rows(read, call, self.weights)
            call.add_note(self._note(image, read.shape, _bytes_into(call) - before))
        shapes = {self.image: read.shape}
        if self.weights is not None:
            shapes[self.weights] = read.shape_of_rows
        read.restate()
        for number, shape in shapes.items():
            _retyped(self.function.body.block.args[number], shape)
        self.function.update_function_type()

    def _note(self, image: Shape, windows: Shape, more: int) -> str:
        """Tells what is gathered of an image, and how many more bytes cross."""
        before, after = ("x".join(map(str, shape)) for shape in (image, windows))
        gathered = f"the host gathers the windows of input {self.image} as channels"
        change = f"{abs(more):,} bytes {'more' if more >= 0 else 'fewer'} cross"
        return f"{gathered}: {before} becomes {after}, {change}"

    def _put_rows(self, read: NarrowRead, call: CallOp, number: int) -> None:
        """Passes in the weights of all windows in the place of those of a window."""
        constant = call.inputs[number].owner
        assert isinstance(constant, ConstantOp)
        rows = ConstantOp.of(read.rows_of(constant), location=constant.location)
        _pass_in(call, number, [rows])
        if not list(constant.result.uses):
            erase(constant)


def _bytes_into(call: CallOp) -> int:
    return sum(nbytes(value.type) for value in call.inputs)


def _pass_in(call: CallOp, number: int, ops: Sequence[Operation]) -> None:
    """Passes the result of new ops, the last one's, to a call."""
    block = call.parent
    assert block is not None
    block.insert_ops_before(ops, call)
    value = ops[-1].results[0]
    set_operand(call, number, value)
    if call.handed_off is not None:
        call.handed_off = call.handed_off.with_input(number, value.type)

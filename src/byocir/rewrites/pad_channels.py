"""pad-channels: gives convolutions and matrix products whole blocks of channels.

Does: with `multiple=16`, constant weights whose channels are no multiple of 16 get weights of 0
behind them, and biases 0. Inputs get as many channels of any numbers, results are cut off:

    conv(x [1, 3, 8, 8], w [24, 3, 3, 3])
    → slice(conv(pad(x) [1, 16, 8, 8], pad(w) [32, 16, 3, 3]) [1, 32, 8, 8]) [1, 24, 8, 8]

The cut moves down behind ops that treat channels apart (requantize, clip, relu, cast, sums and
products of arrays, pools, pads around images, depthwise convolutions), so that the next convolution
reads the whole array and its weights of 0 meet the channels that nobody wanted. Arrays are padded
where such a chain begins, and cut where it ends. In a product of two computed arrays, as in
attention, the second one takes the part of weights: zeros are put around it. A depthwise
convolution has no sums over channels, so it is padded where it has less than one block of them.

Requires: weights of convolutions that are constants, as after `fold-constants`. A target asks for
it (`Target.channel_multiple`), and it runs before the match. Convolutions in groups of several
channels and contractions of floats stay as they are: a channel of weights 0 is 0 whatever it reads,
unless that is infinite or no number. Raises ByocirError B291 for a multiple below 1.

Guarantees: the same results, bit for bit. Locations are kept, and slices of the model itself. The
module's attribute `byoc.padded` records each layer that got channels, for reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import known_values
from byocir.dialects.byoc import PADDED, PaddedAttr
from byocir.dialects.decisions import Padded
from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    CastOp,
    ClipOp,
    ConvOp,
    FlattenOp,
    GlobalAveragePoolOp,
    GlobalMaxPoolOp,
    GraphOp,
    MatmulOp,
    MaxOp,
    MaxPoolOp,
    MinOp,
    MulOp,
    PadOp,
    ReluOp,
    RequantizeOp,
    ReshapeOp,
    SliceOp,
    SubOp,
    SumPoolOp,
)
from byocir.dialects.graph.base import int_tuple, macs
from byocir.dialects.locations import names
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module

POOLS = (MaxPoolOp, AveragePoolOp, SumPoolOp, GlobalAveragePoolOp, GlobalMaxPoolOp)
BINARY = (AddOp, SubOp, MulOp, MaxOp, MinOp)
BY_CHANNEL: tuple[type[GraphOp], ...] = (
    *(RequantizeOp, ClipOp, ReluOp, CastOp, PadOp),
    *BINARY,
    *POOLS,
)
"""Ops whose results in a channel depend on that channel of their operands alone."""


@dataclass(frozen=True)
class PadChannelsPass(ModulePass):
    """Pads the channels of convolutions and matrix products to a multiple of a number."""

    name = "pad-channels"

    multiple: int
    """The number of channels in a block."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.multiple < 1:
            told = f"expected a multiple above 0, found {self.multiple}"
            raise ByocirError("B291", told, where="pass pad-channels")
        cuts = Cuts()
        patterns = [each(self.multiple, cuts) for each in (PadConv, PadDepthwise, PadProduct)]
        rewrite_module(op, [*patterns, MoveCutDown(cuts)])
        if cuts.padded:
            op.attributes[PADDED] = ArrayAttr(cuts.padded)


class Cuts:
    """Makes slices that take the first channels of a padded array, and tells them from slices of
    the model itself, which stay where they are. `padded` records the layers that got channels.
    """

    def __init__(self) -> None:
        self._made = set[SSAValue]()
        self.padded: list[PaddedAttr] = []

    def note(self, layer: ConvOp | MatmulOp, made: SSAValue) -> None:
        """Records that a layer got the channels that `made` gives."""
        after, axis = made.owner, 1 if isinstance(layer, ConvOp) else -1
        assert isinstance(after, ConvOp | MatmulOp)
        ends = ([op.operands[0], op.results[0]] for op in (layer, after))
        read, given = zip(*([shape_of(v.type)[axis] for v in each] for each in ends), strict=True)
        found = Padded([*read], [*given], [macs(layer), macs(after)])
        self.padded.append(PaddedAttr.of(names(layer.location), found))

    def to(self, value: SSAValue, shape: Shape, new: NewOps) -> SSAValue:
        """Slices a value to a shape; gives the value itself if it has that."""
        if shape_of(value.type) == shape:
            return value
        rank = len(shape)
        made = SliceOp.make(value, starts=(0,) * rank, sizes=shape, steps=(1,) * rank)
        self._made.add(made.results[0])
        return new.add(made).result

    def of(self, value: SSAValue) -> Cut | None:
        """Describes a value that such a slice gives; None for any other."""
        op = value.owner
        if value not in self._made or not isinstance(op, SliceOp):
            return None
        shapes = [shape_of(each.type) for each in (value, op.input)]
        sizes = enumerate(zip(*shapes, strict=True))
        ((axis, channels, whole),) = [(i, size, most) for i, (size, most) in sizes if size != most]
        return Cut(op.input, axis - len(shapes[0]), channels, whole)


@dataclass(frozen=True)
class Cut:
    """Describes a slice that takes the first `channels` of an axis of `whole` elements. The axis
    counts from the last one, -1, as operands that broadcast are aligned.
    """

    source: SSAValue
    axis: int
    channels: int
    whole: int

    @property
    def rank(self) -> int:
        """Counts the dimensions."""
        return len(shape_of(self.source.type))

    @property
    def is_second(self) -> bool:
        """Tells if the axis is the one that channels of images have."""
        return self.rank + self.axis == 1


@dataclass(frozen=True)
class PadConv(Pattern):
    """Replaces `conv(x, w, b)` by `slice(conv(pad(x), pad(w), pad(b)))`."""

    multiple: int
    cuts: Cuts
    roots = (ConvOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ConvOp)
        biases = [op.bias] if op.bias is not None else []
        known = all(known_values(value) is not None for value in (op.weight, *biases))
        if not known or op.group.value.data != 1 or not _is_integer(op.input):
            return None
        outputs, inputs = (_rounded_up(n, self.multiple) for n in shape_of(op.weight.type)[:2])
        if (outputs, inputs) == shape_of(op.weight.type)[:2]:
            return None
        x = _with_channels(op.input, 1, inputs, self.cuts, new)
        w = _with_zeros(op.weight, {0: outputs, 1: inputs}, new)
        padded = [_with_zeros(bias, {0: outputs}, new) for bias in biases]
        made = new.again(op, x, w, *padded, location=op.location)
        self.cuts.note(op, made)
        return [self.cuts.to(made, shape_of(op.result.type), new)]


@dataclass(frozen=True)
class PadDepthwise(Pattern):
    """Replaces `conv(x, w, b)` of few channels, each by itself, by `slice(conv(pad(x), pad(w),
    pad(b)))`.
    """

    multiple: int
    cuts: Cuts
    roots = (ConvOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ConvOp)
        if shape_of(op.input.type)[1] >= self.multiple or not _is_integer(op.input):
            return None
        x = _with_channels(op.input, 1, self.multiple, self.cuts, new)
        made = _depthwise(op, x, new)
        if made is None:
            return None
        self.cuts.note(op, made)
        return [self.cuts.to(made, shape_of(op.result.type), new)]


@dataclass(frozen=True)
class PadProduct(Pattern):
    """Replaces `matmul(x, w)` of matrices by `slice(matmul(pad(x), pad(w)))`."""

    multiple: int
    cuts: Cuts
    roots = (MatmulOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, MatmulOp)
        shape, last = shape_of(op.rhs.type), len(shape_of(op.lhs.type)) - 1
        if len(shape) < 2 or last < 1 or not _is_integer(op.lhs):
            return None
        depth, outputs = (_rounded_up(n, self.multiple) for n in shape[-2:])
        if (depth, outputs) == shape[-2:]:
            return None
        x = _with_channels(op.lhs, last, depth, self.cuts, new)
        w = _with_zeros(op.rhs, {len(shape) - 2: depth, len(shape) - 1: outputs}, new)
        made = new.again(op, x, w, location=op.location)
        self.cuts.note(op, made)
        return [self.cuts.to(made, shape_of(op.result.type), new)]


@dataclass(frozen=True)
class MoveCutDown(Pattern):
    """Replaces `f(slice(x))` by `slice(f(x))`, where the slice takes the channels that were there
    before they were padded, and `f` treats channels apart.
    """

    cuts: Cuts
    roots = (*BY_CHANNEL, ConvOp, FlattenOp, ReshapeOp)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        found = {value: cut for value in op.operands if (cut := self.cuts.of(value)) is not None}
        if len({(cut.axis, cut.channels, cut.whole) for cut in found.values()}) != 1:
            return None
        (cut, *_), shape = found.values(), shape_of(op.results[0].type)
        if isinstance(op, ConvOp):
            made = _depthwise(op, cut.source, new) if cut.is_second else None
            if made is not None:
                self.cuts.note(op, made)
        elif isinstance(op, FlattenOp | ReshapeOp):
            made = _flat(op, cut, shape, new)
        else:
            made = _by_channel(op, cut, found, new)
        return None if made is None else [self.cuts.to(made, shape, new)]


def _by_channel(
    op: GraphOp, cut: Cut, cuts: Mapping[SSAValue, Cut], new: NewOps
) -> SSAValue | None:
    """Makes an op that treats channels apart on all channels; None where it does not, or where an
    operand is computed and was not cut.
    """
    if shape_of(op.results[0].type)[cut.axis] != cut.channels:
        return None
    if isinstance(op, POOLS) and not cut.is_second:
        return None
    if isinstance(op, PadOp) and any(int_tuple(op.pads)[cut.rank + cut.axis :: cut.rank]):
        return None
    operands: list[SSAValue] = []
    for value in op.operands:
        if value in cuts:
            operands.append(cuts[value].source)
        elif known_values(value) is not None:
            operands.append(_on_whole_channels(value, cut, new))
        else:
            return None
    return new.again(op, *operands, location=op.location)


def _depthwise(op: ConvOp, x: SSAValue, new: NewOps) -> SSAValue | None:
    """Makes a convolution of each channel by itself on an input with more channels."""
    biases = [op.bias] if op.bias is not None else []
    inputs, outputs = shape_of(op.input.type)[1], shape_of(op.result.type)[1]
    if not op.group.value.data == inputs == outputs > 1:
        return None
    if any(known_values(value) is None for value in (op.weight, *biases)):
        return None
    whole = shape_of(x.type)[1]
    operands = [_with_zeros(value, {0: whole}, new) for value in (op.weight, *biases)]
    properties: dict[str, Any] = {**op.properties, "group": whole}
    made = ConvOp.make(x, *operands, location=op.location, **properties)
    return new.add(made).result


def _flat(op: GraphOp, cut: Cut, shape: Shape, new: NewOps) -> SSAValue | None:
    """Makes an op that leaves channels as the last dimension, since all others but the first are
    1 wide, on all channels.
    """
    before = shape_of(op.operands[0].type)
    if not cut.is_second or shape != before[:2] or any(size != 1 for size in before[2:]):
        return None
    return new.add(FlattenOp.make(cut.source, axis=1, location=op.location)).result


def _rounded_up(channels: int, multiple: int) -> int:
    return -(-channels // multiple) * multiple


def _is_integer(value: SSAValue) -> bool:
    return isinstance(element_type_of(value.type), IntegerType)


def _padded(
    value: SSAValue, sizes: Mapping[int, int], mode: Literal["constant", "edge"], new: NewOps
) -> SSAValue:
    """Pads a constant behind its last elements to sizes of some axes."""
    values = known_values(value)
    assert values is not None
    pads = [(0, sizes.get(axis, size) - size) for axis, size in enumerate(values.shape)]
    return new.constant(np.pad(values, pads, mode=mode))


def _with_channels(value: SSAValue, axis: int, whole: int, cuts: Cuts, new: NewOps) -> SSAValue:
    """Gives a value with channels behind its last ones: those that were cut off, or zeros."""
    shape = shape_of(value.type)
    if shape[axis] == whole:
        return value
    cut = cuts.of(value)
    if cut is not None and (cut.rank + cut.axis, cut.whole) == (axis, whole):
        return cut.source
    return _with_zeros(value, {axis: whole}, new)


def _with_zeros(value: SSAValue, sizes: Mapping[int, int], new: NewOps) -> SSAValue:
    """Gives a value with zeros behind its last elements, up to sizes of some axes."""
    if known_values(value) is not None:
        return _padded(value, sizes, "constant", new)
    shape = shape_of(value.type)
    ends = [sizes.get(axis, size) - size for axis, size in enumerate(shape)]
    if not any(ends):
        return value
    return new.add(PadOp.make(value, pads=[*[0] * len(shape), *ends], mode="constant")).result


def _on_whole_channels(value: SSAValue, cut: Cut, new: NewOps) -> SSAValue:
    """Gives a constant operand with a number for each channel, if it has one for each."""
    shape = shape_of(value.type)
    axis = len(shape) + cut.axis
    if axis < 0 or shape[axis] == 1:
        return value
    # Scales of 0 would divide by 0.
    return _padded(value, {axis: cut.whole}, "edge", new)

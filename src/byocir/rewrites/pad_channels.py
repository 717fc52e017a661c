"""pad-channels: gives convolutions and matrix products whole blocks of channels.

Does: with `multiple=16`, constant weights whose channels are no multiple of 16 get weights of 0
behind them, and biases 0. Inputs get as many channels of any numbers, results are cut off:

    conv(x [1, 3, 8, 8], w [24, 3, 3, 3])
    → slice(conv(pad(x) [1, 16, 8, 8], pad(w) [32, 16, 3, 3]) [1, 32, 8, 8]) [1, 24, 8, 8]

The cut moves down behind ops that treat channels apart (requantize, clip, relu, add, pools, pads
around images, depthwise convolutions), so that the next convolution reads the whole array and its
weights of 0 meet the channels that nobody wanted. Arrays are padded where such a chain begins, and
cut where it ends.

Requires: nothing. A target asks for it (`Target.channel_multiple`), and it runs before the match.

Guarantees: the same results, bit for bit. Locations are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ClipOp,
    ConvOp,
    FlattenOp,
    GlobalAveragePoolOp,
    GlobalMaxPoolOp,
    GraphOp,
    MatmulOp,
    MaxPoolOp,
    PadOp,
    ReluOp,
    RequantizeOp,
    ReshapeOp,
    SliceOp,
    SumPoolOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import constant_array

POOLS = (MaxPoolOp, AveragePoolOp, SumPoolOp, GlobalAveragePoolOp, GlobalMaxPoolOp)
BY_CHANNEL: tuple[type[GraphOp], ...] = (RequantizeOp, ClipOp, ReluOp, AddOp, PadOp, *POOLS)
"""Ops whose results in a channel depend on that channel of their operands alone."""


@dataclass(frozen=True)
class PadChannelsPass(ModulePass):
    """Pads the channels of convolutions and matrix products to a multiple of a number."""

    name = "pad-channels"

    multiple: int
    """The number of channels in a block."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kinds = (PadConv, PadProduct, MoveCutDown)
        rewrite_module(op, [kind(self.multiple) for kind in kinds])


@dataclass(frozen=True)
class PadConv(Pattern):
    """Replaces `conv(x, w, b)` by `slice(conv(pad(x), pad(w), pad(b)))`."""

    multiple: int
    roots = (ConvOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ConvOp)
        weight, bias = constant_array(op.weight), op.bias
        known = bias is None or _is_known(bias)
        if weight is None or not weight.present or not known or op.group.value.data != 1:
            return None
        if not _is_integer(op.input):
            return None
        outputs, inputs = (_whole(n, self.multiple) for n in weight.shape[:2])
        if (outputs, inputs) == weight.shape[:2]:
            return None
        x = _with_channels(op.input, 1, inputs, new)
        w = _padded(op.weight, {0: outputs, 1: inputs}, new)
        biases = [] if bias is None else [_padded(bias, {0: outputs}, new)]
        made = new.again(op, x, w, *biases, location=op.location)
        return [_cut(made, shape_of(op.result.type), new)]


@dataclass(frozen=True)
class PadProduct(Pattern):
    """Replaces `matmul(x, w)` with constant weights [k, n] by `slice(matmul(pad(x), pad(w)))`."""

    multiple: int
    roots = (MatmulOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, MatmulOp)
        weight, rank = constant_array(op.rhs), len(shape_of(op.lhs.type))
        if weight is None or not weight.present or len(weight.shape) != 2 or rank < 2:
            return None
        if not _is_integer(op.lhs):
            return None
        depth, outputs = (_whole(n, self.multiple) for n in weight.shape)
        if (depth, outputs) == weight.shape:
            return None
        x = _with_channels(op.lhs, rank - 1, depth, new)
        made = new.again(op, x, _padded(op.rhs, {0: depth, 1: outputs}, new), location=op.location)
        return [_cut(made, shape_of(op.result.type), new)]


@dataclass(frozen=True)
class MoveCutDown(Pattern):
    """Replaces `f(slice(x))` by `slice(f(x))` where the slice leaves channels over of a block."""

    multiple: int
    roots = (*BY_CHANNEL, ConvOp, FlattenOp, ReshapeOp)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        cuts = {value: cut for value in op.operands if (cut := _Cut.of(value)) is not None}
        if len({(cut.axis, cut.channels, cut.whole) for cut in cuts.values()}) != 1:
            return None
        (cut, *_), shape = cuts.values(), shape_of(op.results[0].type)
        if cut.whole != _whole(cut.channels, self.multiple):
            return None
        if isinstance(op, ConvOp):
            return _depthwise(op, cut, new)
        if isinstance(op, FlattenOp | ReshapeOp):
            return _flat(op, cut, shape, new)
        in_place = len(shape) == cut.rank and shape[cut.axis] == cut.channels
        if not in_place or (cut.axis != 1 and isinstance(op, POOLS)):
            return None
        if isinstance(op, PadOp) and any(int_tuple(op.pads)[cut.axis :: cut.rank]):
            return None
        operands = [_whole_operand(value, cut, cuts, new) for value in op.operands]
        if not all(operands):
            return None
        made = new.again(op, *[each for each in operands if each], location=op.location)
        return [_cut(made, shape, new)]


def _depthwise(op: ConvOp, cut: _Cut, new: NewOps) -> Sequence[SSAValue] | None:
    """Moves a cut behind a convolution of each channel by itself."""
    biases = [op.bias] if op.bias is not None else []
    shape, groups = shape_of(op.result.type), op.group.value.data
    if cut.axis != 1 or not groups == cut.channels == shape[1] > 1:
        return None
    if not all(map(_is_known, [op.weight, *biases])):
        return None
    operands = [_padded(value, {0: cut.whole}, new) for value in (op.weight, *biases)]
    properties: dict[str, Any] = {**op.properties, "group": cut.whole}
    made = new.add(ConvOp.make(cut.source, *operands, location=op.location, **properties))
    return [_cut(made.result, shape, new)]


def _flat(op: GraphOp, cut: _Cut, shape: Shape, new: NewOps) -> Sequence[SSAValue] | None:
    """Moves a cut behind an op that leaves channels as the last dimension: all others are 1 wide
    but the first.
    """
    before = shape_of(op.operands[0].type)
    if cut.axis != 1 or shape != before[:2] or any(size != 1 for size in before[2:]):
        return None
    made = FlattenOp.make(cut.source, axis=1, location=op.location)
    return [_cut(new.add(made).result, shape, new)]


@dataclass(frozen=True)
class _Cut:
    """Describes a slice that takes the first `channels` of an axis of `whole` elements, and all of
    others."""

    source: SSAValue
    axis: int
    channels: int
    whole: int

    @property
    def rank(self) -> int:
        return len(shape_of(self.source.type))

    @staticmethod
    def of(value: SSAValue) -> _Cut | None:
        op = value.owner
        if not isinstance(op, SliceOp) or any(int_tuple(op.starts)):
            return None
        if any(step != 1 for step in int_tuple(op.steps)):
            return None
        sizes = enumerate(zip(shape_of(value.type), shape_of(op.input.type), strict=True))
        cut = [(axis, size, whole) for axis, (size, whole) in sizes if size != whole]
        return _Cut(op.input, *cut[0]) if len(cut) == 1 else None


def _cut(value: SSAValue, shape: Shape, new: NewOps) -> SSAValue:
    """Cuts a value off to a shape."""
    if shape_of(value.type) == shape:
        return value
    rank = len(shape)
    made = SliceOp.make(value, starts=(0,) * rank, sizes=shape, steps=(1,) * rank)
    return new.add(made).result


def _whole(channels: int, multiple: int) -> int:
    return -(-channels // multiple) * multiple


def _is_integer(value: SSAValue) -> bool:
    """Tells if zeros stay zeros in products: infinities would not."""
    return isinstance(element_type_of(value.type), IntegerType)


def _is_known(value: SSAValue) -> bool:
    array = constant_array(value)
    return array is not None and array.present


def _padded(
    value: SSAValue, sizes: Mapping[int, int], new: NewOps, mode: Any = "constant"
) -> SSAValue:
    """Pads a constant behind its last elements to sizes of some axes."""
    array = constant_array(value)
    assert array is not None
    pads = [(0, sizes.get(axis, size) - size) for axis, size in enumerate(array.shape)]
    return new.constant(np.pad(array.values(), pads, mode=mode))


def _with_channels(value: SSAValue, axis: int, whole: int, new: NewOps) -> SSAValue:
    """Gives a value with channels behind its last ones: those that were cut off, or zeros."""
    shape = shape_of(value.type)
    if shape[axis] == whole:
        return value
    cut = _Cut.of(value)
    if cut is not None and (cut.axis, cut.whole) == (axis, whole):
        return cut.source
    pads = [0] * (2 * len(shape))
    pads[len(shape) + axis] = whole - shape[axis]
    return new.add(PadOp.make(value, pads=pads, mode="constant")).result


def _whole_operand(
    value: SSAValue, cut: _Cut, cuts: Mapping[SSAValue, _Cut], new: NewOps
) -> SSAValue | None:
    """Gives an operand with all channels; None where it is computed and was not cut."""
    if value in cuts:
        return cuts[value].source
    if not _is_known(value):
        return None
    shape = shape_of(value.type)
    axis = cut.axis - cut.rank + len(shape)
    if axis < 0 or shape[axis] == 1:
        return value
    # Scales of 0 would divide by 0.
    return _padded(value, {axis: cut.whole}, new, "edge")

"""split-groups: makes convolutions without groups of those with groups.

Does: with `channels=16`, a convolution in groups becomes several of parts of its channels, whose
results are put behind each other. Each has as many groups as have 16 channels together, with
weights of 0 between these:

    conv(x [1, 32, 8, 8], w [32, 4, 3, 3], group=8)
    → concat(conv(slice(x) [1, 16, 8, 8], w0 [16, 16, 3, 3]), conv(slice(x), w1 [16, 16, 3, 3]))

Ops behind that treat channels apart and have one computed operand (requantize, clip, relu, cast)
follow into the parts.

Requires: constants, as after `fold-constants`. A target asks for it (`Target.split_groups`), and it
runs before the match. Depthwise convolutions stay as they are: a machine has instructions for them,
or takes 16 times as long. Groups of floats are not joined: a weight of 0 is of no effect but on
numbers that are finite. With `floats=false` they stay as they are, too. Raises
ByocirError B291 for a number of channels below 1.

Guarantees: the same results, bit for bit. Locations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import known_values
from byocir.dialects.graph import (
    CastOp,
    ClipOp,
    ConcatOp,
    ConvOp,
    GraphOp,
    ReluOp,
    RequantizeOp,
    SliceOp,
)
from byocir.dialects.types import element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module


@dataclass(frozen=True)
class SplitGroupsPass(ModulePass):
    """Makes convolutions without groups of those with groups."""

    name = "split-groups"

    channels: int
    """The number of channels up to which groups are joined."""
    floats: bool = True
    """Tells whether convolutions of floats are split, too."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.channels < 1:
            told = f"expected a number of channels above 0, found {self.channels}"
            raise ByocirError("B291", told, where="pass split-groups")
        made: Concats = {}
        rewrite_module(op, [SplitConv(self.channels, self.floats, made), MoveConcatDown(made)])


Concats = dict[SSAValue, Sequence[SSAValue]]
"""The values that put parts behind each other, with these parts."""


@dataclass(frozen=True)
class SplitConv(Pattern):
    """Replaces `conv(x, w, b)` in groups by a concat of convolutions of slices without groups."""

    channels: int
    floats: bool
    made: Concats = field(compare=False)
    roots = (ConvOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ConvOp)
        weight, bias = known_values(op.weight), None if op.bias is None else known_values(op.bias)
        groups = op.group.value.data
        if groups == 1 or weight is None or (op.bias is not None and bias is None):
            return None
        inputs, outputs = weight.shape[1], weight.shape[0] // groups
        is_integer = isinstance(element_type_of(op.input.type), IntegerType)
        if inputs == outputs == 1 or not (is_integer or self.floats):
            return None
        joined = max(1, self.channels // max(inputs, outputs)) if is_integer else 1
        properties: dict[str, Any] = {**op.properties, "group": 1}
        parts = list[SSAValue]()
        for first in range(0, groups, joined):
            count = min(joined, groups - first)
            places = slice(first * outputs, (first + count) * outputs)
            x = _channels(op.input, first * inputs, count * inputs, new)
            operands = [x, new.constant(_apart(weight[places], count))]
            operands += [] if bias is None else [new.constant(bias[places])]
            conv = ConvOp.make(*operands, location=op.location, **properties)
            parts.append(new.add(conv).result)
        return [_joined(parts, self.made, new)]


@dataclass(frozen=True)
class MoveConcatDown(Pattern):
    """Replaces `f(concat(x, y))` by `concat(f(x), f(y))` for the concats of such parts, where `f`
    treats channels apart.
    """

    made: Concats = field(compare=False)
    roots = (RequantizeOp, ClipOp, ReluOp, CastOp)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        concat, *others = op.operands
        parts = self.made.get(concat)
        if parts is None or any(known_values(value) is None for value in others):
            return None
        rank, first, moved = len(shape_of(concat.type)), 0, list[SSAValue]()
        for part in parts:
            channels = slice(first, first := first + shape_of(part.type)[1])
            own = [_of_channels(value, rank, channels, new) for value in others]
            moved.append(new.again(op, part, *own, location=op.location))
        return [_joined(moved, self.made, new)]


def _joined(parts: Sequence[SSAValue], made: Concats, new: NewOps) -> SSAValue:
    """Puts parts behind each other."""
    if len(parts) == 1:
        return parts[0]
    concat = new.add(ConcatOp.make(*parts, axis=1)).results[0]
    made[concat] = parts
    return concat


def _channels(value: SSAValue, first: int, count: int, new: NewOps) -> SSAValue:
    """Slices the channels of an image."""
    batch, channels, *sizes = shape_of(value.type)
    if count == channels:
        return value
    starts, sizes = [0, first, *[0] * len(sizes)], [batch, count, *sizes]
    return new.add(SliceOp.make(value, starts=starts, sizes=sizes, steps=[1] * len(sizes))).result


def _of_channels(value: SSAValue, rank: int, channels: slice, new: NewOps) -> SSAValue:
    """Gives a constant operand's numbers for some channels, if it has one for each."""
    values, axis = known_values(value), len(shape_of(value.type)) - rank + 1
    assert values is not None
    if axis < 0 or values.shape[axis] == 1:
        return value
    return new.constant(values[(slice(None),) * axis + (channels,)])


def _apart(weight: np.ndarray, groups: int) -> np.ndarray:
    """Gives weights [groups * o, c, kernel…] to all input channels, [groups * o, groups * c,
    kernel…]: 0 to those of other groups.
    """
    outputs, inputs, *kernel = weight.shape
    split = np.zeros((groups, outputs // groups, groups, inputs, *kernel), weight.dtype)
    each = np.arange(groups)
    split[each, :, each] = weight.reshape(groups, outputs // groups, inputs, *kernel)
    return split.reshape(outputs, groups * inputs, *kernel)

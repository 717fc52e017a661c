"""Turns transposed convolutions of bytes into convolutions: a part of fix-point.

With strides of s, the results at the places p, s + p, 2 s + p, … of a dimension meet each s-th
position of the kernel alone, and all of them the same ones: they are a convolution. So each of
these phases is one, whose products are those that count and no others. Its kernel is what the phase
meets, the other way around. The phases' bytes are then put side by side. Where all read the same
elements, as with kernels of s by s, they are one convolution with more outputs, and so are those
with few outputs.

A convolution of the input with zeros between its elements would be one as well, of s by s times the
products. In float the op stays as it is, for the host knows which products count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import column, constant_array
from byocir.dialects.graph import (
    ConcatOp,
    ConvOp,
    ConvTransposeOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import Shape, shape_of
from byocir.patterns import Bound, Match, op, optional_operand, wildcard
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import dequantize, grid_at, known_grid, shown
from byocir.rewrites.integers import (
    FEWER_PRODUCTS,
    ONE,
    ONE_SCALE,
    Integers,
    one_scale,
    output_axis,
    requantized,
    shifted_weight,
    surrounded,
    to_integers,
)
from byocir.rewrites.qdq_to_integer import (
    BIAS,
    DATA,
    SCALED_BIAS,
    SIGNED_WEIGHT,
    bias_is_on_the_grid_of_the_sums,
    scale_of_sums,
    sums_fit,
)


@to_integers(
    op("graph.conv_transpose", DATA, dequantize(wildcard("w"), "weight"), optional_operand(BIAS))
    @ "conv"
)
def transposed_conv_to_convs(m: Match, quantize: Bound, new: NewOps) -> SSAValue:
    """`quantize(conv_transpose(dequantize(x), dequantize(w), dequantize(b)))` becomes convolutions
    of integers, one for each phase of the strides, whose results alternate."""
    made = _Transposed(m)
    parts = made.phases
    groups = [parts] if made.phases_are_one(parts) else [[part] for part in parts]
    results = [made.computed(group, quantize, new) for group in groups]
    return made.side_by_side(results, new)


transposed_conv_to_convs.where(fix=ONE_SCALE)(one_scale("data", "The input"))
transposed_conv_to_convs.where(fix=SCALED_BIAS)(bias_is_on_the_grid_of_the_sums)
transposed_conv_to_convs.where(fix=FEWER_PRODUCTS)(sums_fit)


@transposed_conv_to_convs.where(fix=SIGNED_WEIGHT)
def weight_is_known(m: Match, weight: Bound) -> tuple[bool, object]:
    """The weight is a constant of 8 bits with one scale or one for each output channel."""
    grid, array = grid_at(weight), constant_array(m["w"].value)
    if grid is None or array is None or not array.present:
        return False, shown(grid) if array is not None else "a weight that is computed"
    return grid.is_8_bit and grid.axis in (None, output_axis(m)), shown(grid)


FEW_OUTPUTS = 16
"""The number of outputs that machines compute side by side. Where the phases have no more together,
one convolution that also multiplies by zeros takes less time than several that each leave most of
them idle."""


@dataclass(frozen=True)
class _Window:
    """Describes the window along a dimension for results of one phase: positions of the kernel, in
    the order of the elements that they read, which are `apart`. The first result reads element
    `first` first, and the last one reads `last` last.
    """

    kernel: tuple[int, ...]
    first: int
    last: int
    apart: int

    @property
    def reads(self) -> tuple[int, int, int]:
        return self.first, self.last, self.apart


NOTHING = -1
"""A position beside the kernel, whose weights are 0."""


def _widened(windows: list[_Window]) -> list[_Window]:
    """Widens windows so that all read the same elements, with positions of no weight; they stay as
    they are where what they read is not dense.
    """
    if any(window.apart > 1 for window in windows):
        return windows
    first, last = min(w.first for w in windows), max(w.last for w in windows)
    return [
        _Window(
            (NOTHING,) * (window.first - first)
            + (window.kernel or (NOTHING,))
            + (NOTHING,) * (last - window.last),
            first,
            last,
            1,
        )
        for window in windows
    ]


class _Transposed:
    """Describes a transposed convolution whose integers are known but for those of its input."""

    def __init__(self, m: Match) -> None:
        conv = m["conv"].op
        assert isinstance(conv, ConvTransposeOp)
        self.m, self.x = m, m["x"].value
        self.sizes = shape_of(self.x.type)[2:]
        self.result = shape_of(conv.result.type)
        self.strides, self.dilations = int_tuple(conv.strides), int_tuple(conv.dilations)
        self.groups = conv.group.value.data
        self.begins = int_tuple(conv.pads)
        self.counts = tuple(
            -(-size // n) for size, n in zip(self.result[2:], self.strides, strict=True)
        )
        shifted = shifted_weight(m)
        assert shifted is not None
        inputs, outputs, *kernel = shifted.shape
        split = shifted.reshape(self.groups, inputs // self.groups, outputs, *kernel)
        self.weight = np.swapaxes(split, 1, 2)
        """[groups, outputs, inputs, kernel…]"""

    def _window(self, axis: int, phase: int) -> _Window:
        stride, dilation, count = self.strides[axis], self.dilations[axis], self.counts[axis]
        met: dict[int, int] = {}
        for k in range(self.weight.shape[3 + axis]):
            read, rest = divmod(phase + self.begins[axis] - k * dilation, stride)
            if rest == 0 and -count < read < self.sizes[axis]:
                met[read] = k
        reads = sorted(met) or [0]
        kernel = tuple(met[read] for read in sorted(met))
        apart = dilation // gcd(dilation, stride) if len(reads) > 1 else 1
        return _Window(kernel, reads[0], reads[-1] + count - 1, apart)

    @property
    def phases(self) -> list[tuple[_Window, ...]]:
        """Lists the windows of each phase, the last dimension's innermost."""
        windows = [
            [self._window(axis, phase) for phase in range(n)] for axis, n in enumerate(self.strides)
        ]
        outputs = self.weight.shape[1] * prod(self.strides)
        if self.groups == 1 and outputs <= FEW_OUTPUTS:
            windows = [_widened(each) for each in windows]
        return list(product(*windows))

    def phases_are_one(self, phases: Sequence[tuple[_Window, ...]]) -> bool:
        """Tells whether one convolution can compute all phases, as they read the same elements.
        Phases of groups stay apart, for machines that need as many outputs as inputs in a group, as
        in depthwise convolutions.
        """
        return self.groups == 1 and len({tuple(w.reads for w in phase) for phase in phases}) == 1

    def computed(
        self, phases: Sequence[tuple[_Window, ...]], quantize: Bound, new: NewOps
    ) -> SSAValue:
        """Computes the bytes of phases that read alike, [N, groups, phases, outputs, …]."""
        zero = known_grid(self.m["data"]).zero_point
        weight = np.stack([self._met(phase) for phase in phases], axis=1)
        image, pads = self._image(phases[0], new)
        if zero.any() and any(pads):
            image, pads = surrounded(image, pads, zero, new), [0] * len(pads)
        flat = weight.reshape(-1, *weight.shape[3:])
        bias = self._bias(weight, int(zero), new)
        ones = [1] * len(self.strides)
        apart = [window.apart for window in phases[0]]
        conv = ConvOp.make(
            image,
            new.constant(flat),
            bias,
            strides=ones,
            pads=pads,
            dilations=apart,
            group=self.groups,
        )
        sums = Integers(new.add(conv).result, self._scale(weight.shape[:3]), ONE)
        made = requantized(quantize, sums, new)
        shape = [self.result[0], *weight.shape[:3], *self.counts]
        return new.add(ReshapeOp.make(made, shape=shape)).result

    def _met(self, phase: tuple[_Window, ...]) -> np.ndarray:
        """Selects the weights that a phase meets; a single zero where it meets none."""
        part = self.weight
        for axis, window in enumerate(phase):
            positions = np.array(window.kernel or (NOTHING,))
            part = np.take(part, positions, axis=3 + axis)
            part[(slice(None),) * (3 + axis) + (positions == NOTHING,)] = 0
        return part

    def _image(self, phase: tuple[_Window, ...], new: NewOps) -> tuple[SSAValue, list[int]]:
        """Finds the part of the input that a phase reads, and the pads around it."""
        ends = [
            (window.first, window.last + 1, size)
            for window, size in zip(phase, self.sizes, strict=True)
        ]
        starts = [max(first, 0) for first, _, _ in ends]
        sizes = [min(end, size) - max(first, 0) for first, end, size in ends]
        pads = [max(-first, 0) for first, _, _ in ends]
        pads += [max(end - size, 0) for _, end, size in ends]
        if tuple(sizes) == tuple(self.sizes):
            return self.x, pads
        return _part(self.x, (0, 0, *starts), (*shape_of(self.x.type)[:2], *sizes), new), pads

    def _bias(self, weight: np.ndarray, zero: int, new: NewOps) -> SSAValue | None:
        """Computes the bias less what the input's zero point brings into the sums; None for
        zeros.
        """
        if not zero and "b" not in self.m:
            return None
        own = self.m["b"].numbers.astype(np.int64) if "b" in self.m else np.zeros(1, np.int64)
        if own.size > 1:
            own = own.reshape(self.groups, 1, -1)
        excess = zero * weight.astype(np.int64).sum(axis=tuple(range(3, weight.ndim)))
        return new.constant((own - excess).astype(np.int32).reshape(-1))

    def _scale(self, outputs: Sequence[int]) -> np.ndarray:
        """Gives the scale of the sums, one number or [outputs, 1, …]."""
        scale = scale_of_sums(self.m)
        assert scale is not None
        if not scale.ndim:
            return scale
        spread = np.broadcast_to(scale.reshape(self.groups, 1, -1), outputs)
        return column(spread.reshape(-1), 1 + len(self.strides))

    def side_by_side(self, parts: Sequence[SSAValue], new: NewOps) -> SSAValue:
        """Interleaves the results of all phases, [N, groups, phases, outputs, …], to the result."""
        rank = len(self.strides)
        value = new.add(ConcatOp.make(*parts, axis=2)).result if len(parts) > 1 else parts[0]
        batch, groups, _, outputs, *counts = shape_of(value.type)
        split = [batch, groups, *self.strides, outputs, *counts]
        value = new.add(ReshapeOp.make(value, shape=split)).result
        places = [at for axis in range(rank) for at in (3 + rank + axis, 2 + axis)]
        value = new.add(TransposeOp.make(value, perm=[0, 1, 2 + rank, *places])).result
        wide = [n * stride for n, stride in zip(counts, self.strides, strict=True)]
        value = new.add(ReshapeOp.make(value, shape=[batch, groups * outputs, *wide])).result
        return _part(value, (0,) * (2 + rank), self.result, new)


def _part(value: SSAValue, starts: Shape, sizes: Shape, new: NewOps) -> SSAValue:
    if shape_of(value.type) == tuple(sizes):
        return value
    return new.add(SliceOp.make(value, starts=starts, sizes=sizes, steps=[1] * len(sizes))).result

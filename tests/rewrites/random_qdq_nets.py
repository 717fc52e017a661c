"""Random nets of 8-bit layers as quantisers write them, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from rewrite_nets import Net
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ConcatOp,
    ExpandOp,
    FlattenOp,
    GatherOp,
    GlobalAveragePoolOp,
    MaxPoolOp,
    PadOp,
    ReduceMeanOp,
    ReluOp,
    ReshapeOp,
    ResizeOp,
    SliceOp,
    SplitOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from byocir.dialects.types import shape_of

SCALES = (0.25, 0.5, 0.037, 0.011)
ZERO_POINTS = (0, 0, 0, 3, -128)

Draw = st.DrawFn


def float_values(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Values of both signs, all negative, or so large that they saturate."""
    mean, spread = draw(st.sampled_from([(0, 1), (0, 10), (-5, 1), (5, 1), (0, 1e4)]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random.normal(mean, spread, shape).astype(np.float32)


class RandomNet:
    """A module and inputs for it. No dataclass: Hypothesis would print all fields of all ops."""

    def __init__(self, module: ModuleOp, inputs: list[np.ndarray]) -> None:
        self.module, self.inputs = module, inputs

    def __repr__(self) -> str:
        return f"{self.module}\n{self.inputs}"


@st.composite
def nets(draw: Draw) -> RandomNet:
    """A net of up to eight layers with quantize-dequantize pairs in between, and its inputs."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), 4, draw(st.integers(3, 5)))
    x = float_values(draw, shape)
    net = Net(x)
    value = net.requantized(net.arguments[0], *grid(draw))
    for _ in range(draw(st.integers(1, 8))):
        value = draw(st.sampled_from(LAYERS))(draw, net, value)
    if draw(st.booleans()):
        value = net.quantize(value, *grid(draw))
    outputs = [value]
    if draw(st.booleans()):
        outputs.append(draw(st.sampled_from(results(net))))
    return RandomNet(net.returning(*outputs), [x])


def results(net: Net) -> list[SSAValue]:
    """The results of the net's layers so far."""
    return [value for op in net.block.ops if op.name != "graph.constant" for value in op.results]


def grid(draw: Draw) -> tuple[float, int]:
    return draw(st.sampled_from(SCALES)), draw(st.sampled_from(ZERO_POINTS))


def requantized(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    return net.requantized(value, *grid(draw))


def between_pairs(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    """A layer as quantisers write it: on one grid, or from one to another."""
    first = grid(draw)
    value = draw(st.sampled_from(LAYERS[2:]))(draw, net, net.requantized(value, *first))
    return net.requantized(value, *draw(st.sampled_from([first, grid(draw)])))


def relu(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    return net.add(ReluOp.make(value))


def clip(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    low, high = st.sampled_from([None, -1.0, 0.0, 0.3]), st.sampled_from([None, 6.0, np.inf, -2.0])
    return net.clip(value, draw(low), draw(high))


def reshape(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    shape = shape_of(value.type)
    return net.add(ReshapeOp.make(value, shape=draw(st.permutations(shape))))


def transpose(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    perm = draw(st.permutations(range(len(shape_of(value.type)))))
    return net.add(TransposeOp.make(value, perm=perm))


def flatten(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    return net.add(FlattenOp.make(value, axis=draw(st.integers(0, len(shape_of(value.type))))))


def unsqueeze(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    axis = draw(st.integers(0, len(shape_of(value.type))))
    return net.add(UnsqueezeOp.make(value, axes=[axis]))


def squeeze(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    ones = [axis for axis, size in enumerate(shape_of(value.type)) if size == 1]
    return net.add(SqueezeOp.make(value, axes=ones[:1])) if ones else value


def concat(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    if not shape_of(value.type):
        return value
    other = requantized(draw, net, value) if draw(st.booleans()) else value
    return net.add(ConcatOp.make(value, other, axis=0))


def resize(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    """To the nearest element, larger or smaller."""
    shape = shape_of(value.type)
    sizes = [size + draw(st.sampled_from([0, 0, 1, -1])) for size in shape]
    if min(sizes, default=0) < 1:
        return value
    names = {
        "mode": "nearest",
        "nearest_mode": draw(st.sampled_from(["floor", "ceil", "round_prefer_floor"])),
        "coordinate_transformation_mode": draw(st.sampled_from(["asymmetric", "half_pixel"])),
    }
    numbers = {"cubic_coeff_a": -0.75, "extrapolation_value": 0.0}
    flags = {"exclude_outside": 0, "antialias": 0}
    return net.add(ResizeOp.make(value, sizes=sizes, **names, **numbers, **flags))


def pad(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    """With a number, on the grid or not, or what is there; some are cut off."""
    rank = len(shape_of(value.type))
    pads = [draw(st.sampled_from([0, 0, 1, 2, -1])) for _ in range(2 * rank)]
    if any(s + pads[i] + pads[i + rank] < 1 for i, s in enumerate(shape_of(value.type))):
        return value
    if draw(st.booleans()) and all(
        p <= 0 or s > 1 for s, p in zip(shape_of(value.type) * 2, pads, strict=True)
    ):
        return net.add(PadOp.make(value, pads=[min(p, 1) for p in pads], mode="edge"))
    number = np.float32(draw(st.sampled_from([0.0, 0.5, 0.3, -np.inf])))
    return net.add(PadOp.make(value, pads=pads, mode="constant", value=ArrayAttr.of(number)))


def slice_(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    sizes = [draw(st.integers(1, size)) for size in shape_of(value.type)]
    starts = [size - 1 for size in sizes]
    return net.add(SliceOp.make(value, starts=starts, sizes=sizes, steps=[-1] * len(sizes)))


def gather(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    if not shape_of(value.type):
        return value
    indices = net.constant(np.zeros(draw(st.sampled_from([(1,), (3,)])), np.int64))
    return net.add(GatherOp.make(value, indices, axis=0))


def split(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    shape = shape_of(value.type)
    if not shape or shape[-1] < 2:
        return value
    op = SplitOp.make(value, axis=len(shape) - 1, split=[1, shape[-1] - 1])
    net.add(op)
    return draw(st.sampled_from(list(op.results)))


def expand(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    return net.add(ExpandOp.make(value, shape=[draw(st.integers(1, 2)), *shape_of(value.type)]))


def add(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    same = [other for other in results(net) if other.type == value.type]
    return net.add(AddOp.make(value, draw(st.sampled_from(same))))


def mean(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    rank = len(shape_of(value.type))
    if rank < 3:
        return value
    axes = list(range(2, rank))
    return net.add(ReduceMeanOp.make(value, axes=axes, keepdims=draw(st.integers(0, 1))))


def pool(draw: Draw, net: Net, value: SSAValue) -> SSAValue:
    window = draw_window(draw, shape_of(value.type)[2:])
    if window is None:
        return value
    kind = draw(st.sampled_from([MaxPoolOp, AveragePoolOp, GlobalAveragePoolOp]))
    if kind is GlobalAveragePoolOp:
        return net.add(GlobalAveragePoolOp.make(value))
    if kind is AveragePoolOp:
        window["count_include_pad"] = draw(st.integers(0, 1))
    return net.add(kind.make(value, **window))


def draw_window(draw: Draw, sizes: tuple[int, ...]) -> dict | None:
    """The properties of a pool, with pads, strides, dilations and ceil_mode."""
    rank = len(sizes)
    if rank == 0:
        return None
    kernel = [draw(st.integers(1, 3)) for _ in sizes]
    dilations = [draw(st.sampled_from([1, 1, 2])) for _ in sizes]
    pads = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padded = [size + pads[i] + pads[i + rank] for i, size in enumerate(sizes)]
    if any(extent > size for extent, size in zip(extents, padded, strict=True)):
        return None
    return {
        "kernel_shape": kernel,
        "strides": [draw(st.integers(1, 2)) for _ in sizes],
        "pads": pads,
        "dilations": dilations,
        "ceil_mode": draw(st.integers(0, 1)),
    }


LAYERS = (
    requantized,
    between_pairs,
    relu,
    clip,
    reshape,
    transpose,
    flatten,
    unsqueeze,
    squeeze,
    concat,
    resize,
    pad,
    slice_,
    gather,
    split,
    expand,
    add,
    mean,
    pool,
)

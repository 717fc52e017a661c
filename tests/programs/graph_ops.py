"""Random graph ops with operands, one strategy for each family."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from byocir.dialects import graph
from byocir.dialects.array import ArrayAttr
from byocir.dialects.locations import named
from byocir.dialects.types import (
    dtype_of,
    element_of,
    f16,
    f32,
    i8,
    i16,
    i32,
    i64,
    tensor,
    ui8,
    ui16,
    ui32,
    ui64,
)
from byocir.testing.by_example import example_of

NUMBERS = [f32, i8, ui8, i16, ui16, i32, ui32, i64, ui64]
BYTES = [i8, ui8]


class Case:
    """A graph op in a function of its operands, and values for them."""

    def __init__(self, kind, arrays, constants=(), **properties):
        """Operands at the positions `constants` are constants of the module; the others are its
        arguments, whose values are `arrays`."""
        self.kind, self.properties = kind, properties
        self.constants = {i: arrays[i] for i in constants}
        self.arrays = [array for i, array in enumerate(arrays) if i not in constants]

    def module(self) -> ModuleOp:
        """A module whose @main is the op on arguments; quantisation parameters are constants."""
        types = [tensor(element_of(a.dtype), a.shape) for a in self.arrays]
        block = Block(arg_types=types)
        operands = list(block.args)
        for i, value in self.constants.items():
            made = graph.ConstantOp.of(ArrayAttr.of(value).data, named("node"))
            block.add_op(made)
            operands.insert(i, made.results[0])
        op = self.kind.make(*operands, location=named("node"), **self.properties)
        block.add_ops([op, func.ReturnOp(*op.results)])
        results = [result.type for result in op.results]
        return ModuleOp([func.FuncOp("main", (types, results), Region(block))])

    def __repr__(self):
        types = [f"{a.dtype}{list(a.shape)}" for a in self.arrays]
        return f"{self.kind.name} {types} {self.properties} {self.arrays}"


def array(draw, element, shape):
    """Small numbers, extreme ones or negative ones."""
    dtype = dtype_of(element)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype.kind == "f":
        ends = draw(st.sampled_from([(-4, 4), (-9, -1)]))
        return rng.uniform(*ends, shape).astype(dtype)
    info = np.iinfo(dtype)
    ranges = [(info.min, info.max), (info.min, info.min + 3), (info.max - 3, info.max), (-3, 3)]
    ends = draw(st.sampled_from(ranges))
    return rng.integers(max(ends[0], info.min), ends[1], shape, dtype, endpoint=True)


def sizes(draw, rank, most=4, least=1):
    return [draw(st.integers(least, most)) for _ in range(rank)]


@st.composite
def binary(draw):
    element = draw(st.sampled_from(NUMBERS))
    kind = draw(st.sampled_from([graph.AddOp, graph.SubOp, graph.MulOp, graph.DivOp]))
    shape = sizes(draw, draw(st.integers(0, 4)))
    both = [_broadcasting(draw, shape) for _ in range(2)]
    lhs, rhs = (array(draw, element, s) for s in both)
    if kind is graph.DivOp and element is not f32:
        rhs = np.where(rhs == 0, 1, rhs).astype(rhs.dtype)
    return Case(kind, [lhs, rhs])


def _broadcasting(draw, shape):
    own = [draw(st.sampled_from([size, 1])) for size in shape]
    return own[draw(st.integers(0, len(own))) :]


@st.composite
def activation(draw):
    element = draw(st.sampled_from([f32, i8, i32]))
    x = array(draw, element, sizes(draw, draw(st.integers(0, 3))))
    return Case(graph.ReluOp, [x])


@st.composite
def clip(draw):
    element = draw(st.sampled_from(NUMBERS))
    x = array(draw, element, sizes(draw, draw(st.integers(0, 3))))
    bounds = {
        name: ArrayAttr.of(array(draw, element, ()))
        for name in ("min", "max")
        if draw(st.booleans())
    }
    return Case(graph.ClipOp, [x], **bounds)


@st.composite
def matmul(draw):
    lhs, rhs = draw(
        st.sampled_from([(f32, f32), (i8, i8), (ui8, i8), (ui8, ui8), (i16, i16), (i32, i32)])
    )
    m, n, k = sizes(draw, 3, 5)
    batch = sizes(draw, draw(st.integers(0, 2)), 3)
    left = draw(st.sampled_from([[k], [*_broadcasting(draw, batch), m, k]]))
    right = draw(st.sampled_from([[k], [*_broadcasting(draw, batch), k, n]]))
    return Case(graph.MatmulOp, [array(draw, lhs, left), array(draw, rhs, right)])


def windows(draw, spatial, kernel):
    """Properties of windows that fit these spatial sizes."""
    rank = len(kernel)
    dilations = [
        draw(st.integers(1, 2)) if (k - 1) * 2 + 1 <= size else 1
        for k, size in zip(kernel, spatial, strict=True)
    ]
    pads = [draw(st.integers(0, k - 1)) for k in [*kernel, *kernel]]
    return {"strides": sizes(draw, rank, 3), "pads": pads, "dilations": dilations}


@st.composite
def conv(draw):
    x_type, w_type = draw(st.sampled_from([(f32, f32), (i8, i8), (ui8, i8), (ui8, ui8)]))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    rank = draw(st.integers(1, 3))
    kernel = sizes(draw, rank, 3 if rank < 3 else 2)
    spatial = [draw(st.integers(k, k + 3)) for k in kernel]
    inputs, outputs = sizes(draw, 2, 3)
    x = array(draw, x_type, [draw(st.integers(1, 2)), inputs * group, *spatial])
    w = array(draw, w_type, [outputs * group, inputs, *kernel])
    arrays = [x, w]
    if draw(st.booleans()):
        arrays.append(array(draw, f32 if x_type is f32 else i32, [outputs * group]))
    properties = windows(draw, spatial, kernel)
    return Case(graph.ConvOp, arrays, group=group, **properties)


@st.composite
def pool(draw):
    kind = draw(st.sampled_from([graph.MaxPoolOp, graph.AveragePoolOp, graph.SumPoolOp]))
    elements = {graph.MaxPoolOp: [f32, i8, ui8], graph.AveragePoolOp: [f32, f16]}
    element = draw(st.sampled_from(elements.get(kind, BYTES)))
    rank = draw(st.integers(1, 3))
    kernel = sizes(draw, rank, 3)
    spatial = [draw(st.integers(k, k + 4)) for k in kernel]
    x = array(draw, element, [*sizes(draw, 2, 2), *spatial])
    properties = windows(draw, spatial, kernel)
    if kind is graph.AveragePoolOp:
        properties["count_include_pad"] = draw(st.integers(0, 1))
    ceil = draw(st.integers(0, 1))
    return Case(kind, [x], kernel_shape=kernel, ceil_mode=ceil, **properties)


@st.composite
def reduction(draw):
    shape = sizes(draw, draw(st.integers(1, 4)))
    x = array(draw, draw(st.sampled_from([f32, f16])), shape)
    kind = draw(st.sampled_from([graph.ReduceMeanOp, graph.SoftmaxOp]))
    if kind is graph.SoftmaxOp:
        return Case(kind, [x], axis=draw(st.integers(0, len(shape) - 1)))
    if len(shape) > 2 and draw(st.booleans()):
        return Case(graph.GlobalAveragePoolOp, [x])
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return Case(kind, [x], axes=sorted(axes), keepdims=draw(st.integers(0, 1)))


@st.composite
def movement(draw):
    element = draw(st.sampled_from([f32, i8, ui8, i64]))
    shape = sizes(draw, draw(st.integers(0, 4)), 4)
    x = array(draw, element, shape)
    choice = draw(st.integers(0, 3))
    if choice == 0 and shape:
        return Case(graph.TransposeOp, [x], perm=draw(st.permutations(range(len(shape)))))
    if choice == 1:
        return Case(graph.FlattenOp, [x], axis=draw(st.integers(0, len(shape))))
    if choice == 2:
        rank = len(shape) + draw(st.integers(1, 2))
        axes = draw(st.sets(st.integers(0, rank - 1), min_size=rank - len(shape)))
        axes = sorted(axes)[: rank - len(shape)]
        return Case(graph.UnsqueezeOp, [x], axes=axes)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if not ones:
        return Case(graph.ReshapeOp, [x], shape=_factors(draw, x.size))
    return Case(graph.SqueezeOp, [x], axes=ones[: draw(st.integers(1, len(ones)))])


def _factors(draw, size):
    """Sizes with this product, some of them 1."""
    shape = []
    while size > 1:
        factor = draw(st.sampled_from([d for d in range(2, size + 1) if size % d == 0]))
        shape.append(factor)
        size //= factor
    return draw(st.permutations([*shape, *[1] * draw(st.integers(0, 2))]))


@st.composite
def concat(draw):
    element = draw(st.sampled_from([f32, i8, ui8]))
    shape = sizes(draw, draw(st.integers(1, 3)), 3)
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.integers(1, 3))
    arrays = [
        array(draw, element, [*shape[:axis], draw(st.integers(1, 3)), *shape[axis + 1 :]])
        for _ in range(count)
    ]
    return Case(graph.ConcatOp, arrays, axis=axis)


@st.composite
def quantisation(draw):
    kind = draw(st.sampled_from([graph.QuantizeOp, graph.DequantizeOp]))
    shape = sizes(draw, draw(st.integers(1, 3)), 5)
    axis = draw(st.integers(0, len(shape) - 1))
    along = draw(st.sampled_from([[], [shape[axis]]]))
    element = draw(st.sampled_from([i8, ui8, i16, ui16]))
    zero = array(draw, element, along)
    if draw(st.booleans()):
        zero = np.zeros_like(zero)
    scale = np.abs(array(draw, f32, along)) / draw(st.sampled_from([1, 37, 1000]))
    x = array(draw, f32 if kind is graph.QuantizeOp else element, shape)
    return Case(kind, [x, scale.astype(np.float32), zero], axis=axis if along else 1)


@st.composite
def requantisation(draw):
    shape = sizes(draw, draw(st.integers(1, 4)), 4)
    x = array(draw, draw(st.sampled_from([i8, ui8, i32])), shape)
    scale_shape = _broadcasting(draw, shape)
    if draw(st.booleans()):
        scales = [np.abs(array(draw, f32, scale_shape)) for _ in range(2)]
        scales[0] = scales[0] / np.float32(draw(st.sampled_from([1, 100, 1e7])))
        to = draw(st.sampled_from([i8, ui8]))
        rounding = graph.FloatHalfEvenAttr()
        return Case(graph.RequantizeOp, [x, *scales], rounding=rounding, to=to)
    multiplier = array(draw, i32, scale_shape) & np.int32(2**31 - 1) >> draw(
        st.sampled_from([0, 9, 24])
    )
    ties = draw(st.sampled_from(["floor", "half_up", "half_even"]))
    rounding = graph.FixedAttr.of(draw(st.sampled_from([0, 1, 2, 8, 23, 40, 62])), ties)
    to = draw(st.sampled_from([i8, ui8, i32]))
    return Case(graph.RequantizeOp, [x, multiplier], rounding=rounding, to=to)


def examples_of(kinds) -> ModuleOp:
    """A module whose @main is one op of each of these classes, as their descriptions show them."""
    block, results = Block(), []
    for kind in kinds:
        example = example_of(kind.name)
        assert example is not None, kind.name
        args = [block.insert_arg(type_, len(block.args)) for type_ in example.operands]
        made = kind.make(*args, location=named("node"), **example.properties)
        block.add_op(made)
        results += made.results
    block.add_op(func.ReturnOp(*results))
    types = [arg.type for arg in block.args], [value.type for value in results]
    return ModuleOp([func.FuncOp("main", types, Region(block))])


def numbers_for(module) -> list[np.ndarray]:
    """Small numbers for the arguments of @main: integers are indices, too."""
    rng = np.random.default_rng(0)
    types = module.body.block.first_op.function_type.inputs
    return [
        rng.integers(0, 2, t.get_shape()).astype(dtype_of(t.element_type))
        if dtype_of(t.element_type).kind in "iub"
        else rng.uniform(0.1, 0.9, t.get_shape()).astype(dtype_of(t.element_type))
        for t in types
    ]

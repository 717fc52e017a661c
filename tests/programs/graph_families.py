"""Random cases of the graph ops beyond those of convolutional nets, by family."""

from __future__ import annotations

import numpy as np
from graph_moves import (
    broadcasting,
    constant_gather,
    look_up,
    nearest_resize,
    padding,
    rearrangement,
    resize,
    scatter,
    shape_up_to,
    top_k,
)
from graph_ops import (
    Case,
    activation,
    array,
    binary,
    clip,
    concat,
    conv,
    matmul,
    movement,
    pool,
    quantisation,
    reduction,
    requantisation,
    sizes,
)
from hypothesis import strategies as st

from byocir.dialects import graph as g
from byocir.dialects.types import (
    dtype_of,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    ui8,
    ui16,
    ui32,
    ui64,
)

FLOATS = [f32, f32, f16, f64]
INTEGERS = [i8, ui8, i16, ui16, i32, ui32, i64]
NUMBERS = [f32, f64, *INTEGERS]

DOMAINS = {
    **dict.fromkeys([g.LogOp, g.SqrtOp], (0.1, 9)),
    **dict.fromkeys([g.AcosOp, g.AsinOp, g.AtanhOp], (-0.9, 0.9)),
    g.AcoshOp: (1.1, 9),
    g.TanOp: (-1.2, 1.2),
}
"""Where functions are tested that are not defined, or too steep, elsewhere."""

FUNCTIONS = [
    op
    for op in g.Graph.operations
    if issubclass(op, g.UnaryOp)
    and op.check is g.UnaryOp.check
    and not op.get_irdl_definition().properties
]
"""The functions of one float without parameters."""

PARAMETERS = {
    g.CeluOp: ["alpha"],
    g.EluOp: ["alpha"],
    g.HardSigmoidOp: ["alpha", "beta"],
    g.LeakyReluOp: ["alpha"],
    g.SeluOp: ["alpha", "gamma"],
    g.ShrinkOp: ["bias", "lambd"],
    g.ThresholdedReluOp: ["alpha"],
}


def booleans(draw, shape):
    return np.random.default_rng(draw(st.integers(0, 99))).random(shape) < 0.5


@st.composite
def function(draw):
    kind = draw(st.sampled_from(FUNCTIONS))
    low, high = DOMAINS.get(kind, (-5, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.uniform(low, high, shape_up_to(draw, 3)).astype(dtype_of(draw(st.sampled_from(FLOATS))))
    return Case(kind, [np.where(x == 0, x + 1, x) if kind is g.ReciprocalOp else x])


@st.composite
def activation_with_parameters(draw):
    kind = draw(st.sampled_from([*PARAMETERS, g.GeluOp, g.PreluOp]))
    shape = shape_up_to(draw, 3)
    if kind is g.PreluOp:
        element = draw(st.sampled_from([f32, i32, ui8, i64]))
        slope = array(draw, element, broadcasting(draw, shape))
        return Case(kind, [array(draw, element, shape), slope])
    x = array(draw, draw(st.sampled_from(FLOATS)), shape)
    if kind is g.GeluOp:
        return Case(kind, [x], approximate=draw(st.sampled_from(["none", "tanh"])))
    numbers = {name: draw(st.sampled_from([0.25, 0.5, 1.75])) for name in PARAMETERS[kind]}
    return Case(kind, [x], **numbers)


@st.composite
def sign(draw):
    kind = draw(st.sampled_from([g.AbsOp, g.NegOp, g.SignOp]))
    signed = [f32, f64, i8, i16, i32, i64]
    element = draw(st.sampled_from(signed if kind is g.NegOp else NUMBERS))
    return Case(kind, [array(draw, element, shape_up_to(draw, 3))])


@st.composite
def extreme_or_remainder(draw):
    kind = draw(st.sampled_from([g.MaxOp, g.MinOp, g.ModOp, g.PowOp]))
    shape = shape_up_to(draw, 3)
    element = draw(st.sampled_from([*NUMBERS, ui64, f16] if kind is g.ModOp else [*NUMBERS, ui64]))
    lhs, rhs = (array(draw, element, broadcasting(draw, shape)) for _ in range(2))
    if kind is g.ModOp:
        rhs = np.where(rhs == 0, 1, rhs).astype(rhs.dtype)
        towards_zero = 1 if lhs.dtype.kind == "f" else draw(st.integers(0, 1))
        return Case(kind, [lhs, rhs], fmod=towards_zero)
    if kind is g.PowOp and lhs.dtype.kind != "f":
        powers = array(draw, i32, rhs.shape) % 17 - 8
        return Case(kind, [lhs, powers.astype(dtype_of(draw(st.sampled_from([i32, i64]))))])
    if kind is g.PowOp:
        powers = draw(st.sampled_from([f32, i32]))
        rhs = array(draw, f32, rhs.shape).astype(dtype_of(powers))
        if draw(st.booleans()):
            return Case(kind, [lhs, np.array(2, rhs.dtype)], constants=(1,))
        return Case(kind, [np.abs(lhs), rhs])
    return Case(kind, [lhs, rhs])


@st.composite
def comparison(draw):
    orders = [g.EqualOp, g.LessOp, g.LessOrEqualOp, g.GreaterOp, g.GreaterOrEqualOp]
    kind, shape = draw(st.sampled_from(orders)), shape_up_to(draw, 3)
    element = draw(st.sampled_from([*NUMBERS, ui64]))
    both = [array(draw, element, broadcasting(draw, shape)) for _ in range(2)]
    if element in (f32, f64):
        both = [np.where(np.abs(x) > 3, np.nan, np.rint(x)).astype(x.dtype) for x in both]
    return Case(kind, both)


@st.composite
def logic(draw):
    kind = draw(st.sampled_from([g.AndOp, g.OrOp, g.XorOp, g.NotOp]))
    shape = shape_up_to(draw, 3)
    count = 1 if kind is g.NotOp else 2
    return Case(kind, [booleans(draw, broadcasting(draw, shape)) for _ in range(count)])


@st.composite
def bits(draw):
    kind = draw(
        st.sampled_from(
            [g.BitwiseAndOp, g.BitwiseOrOp, g.BitwiseXorOp, g.BitwiseNotOp, g.BitShiftOp]
        )
    )
    shape = shape_up_to(draw, 3)
    if kind is g.BitShiftOp:
        element = draw(st.sampled_from([ui8, ui16, ui32, ui64]))
        x, by = (array(draw, element, broadcasting(draw, shape)) for _ in range(2))
        if draw(st.booleans()):
            by = (by % 9).astype(by.dtype)
        return Case(kind, [x, by], direction=draw(st.sampled_from(["LEFT", "RIGHT"])))
    element = draw(st.sampled_from([*INTEGERS, ui64]))
    count = 1 if kind is g.BitwiseNotOp else 2
    return Case(kind, [array(draw, element, broadcasting(draw, shape)) for _ in range(count)])


@st.composite
def classification(draw):
    x = array(draw, draw(st.sampled_from([f32, f64])), shape_up_to(draw, 3))
    special = np.random.default_rng(draw(st.integers(0, 99))).choice([np.nan, np.inf, -np.inf], 4)
    x = np.asarray(np.where(np.abs(x) > 2, special[0], np.where(x > 0, special[1], x)), x.dtype)
    if draw(st.booleans()):
        return Case(g.IsNanOp, [x])
    flags = {f"detect_{side}": draw(st.integers(0, 1)) for side in ("negative", "positive")}
    return Case(g.IsInfOp, [x], **flags)


@st.composite
def choice(draw):
    shape, element = shape_up_to(draw, 3), draw(st.sampled_from([*NUMBERS, i1, f16, ui64]))
    values = [
        booleans(draw, own) if element == i1 else array(draw, element, own)
        for own in (broadcasting(draw, shape) for _ in range(2))
    ]
    return Case(g.WhereOp, [booleans(draw, broadcasting(draw, shape)), *values])


@st.composite
def cast(draw):
    source, to = (draw(st.sampled_from([*NUMBERS, ui64, f16, i1])) for _ in range(2))
    shape = shape_up_to(draw, 3)
    x = booleans(draw, shape) if source == i1 else array(draw, source, shape)
    if source in (f32, f64):
        x = (x * x.dtype.type(draw(st.sampled_from([1, 100, 1e9, 1e20])))).astype(x.dtype)
        ends = np.array([np.nan, np.inf, -np.inf, 127.5, 2.0**31, 2.0**63], x.dtype)
        x = np.concatenate([x.reshape(-1), ends])
    return Case(g.CastOp, [x], to=to)


REDUCTIONS = {
    **{kind: [*NUMBERS, f16] for kind in (g.ReduceL1Op, g.ReduceSumOp, g.ReduceSumSquareOp)},
    **{kind: [*NUMBERS, f16] for kind in (g.ReduceMaxOp, g.ReduceMinOp)},
    **{kind: FLOATS for kind in (g.ReduceL2Op, g.ReduceLogSumOp, g.ReduceLogSumExpOp)},
    g.ReduceMeanOp: FLOATS,
    g.ReduceProdOp: NUMBERS,
}


@st.composite
def all_reductions(draw):
    kind = draw(st.sampled_from(list(REDUCTIONS)))
    shape = shape_up_to(draw, 4, 1)
    x = array(draw, draw(st.sampled_from(REDUCTIONS[kind])), shape)
    if kind is g.ReduceLogSumOp:
        x = np.abs(x)
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return Case(kind, [x], axes=sorted(axes), keepdims=draw(st.integers(0, 1)))


@st.composite
def along_an_axis(draw):
    kind = draw(st.sampled_from([g.LogSoftmaxOp, g.HardmaxOp, g.LpNormOp, g.CumSumOp]))
    shape = shape_up_to(draw, 3, 1)
    numbers = [f32, f64, i32, i64] if kind is g.CumSumOp else FLOATS
    x = array(draw, draw(st.sampled_from(numbers)), shape)
    properties = {
        g.LpNormOp: {"p": draw(st.integers(1, 2))},
        g.CumSumOp: {"exclusive": draw(st.integers(0, 1)), "reverse": draw(st.integers(0, 1))},
    }
    axis = draw(st.integers(0, len(shape) - 1))
    return Case(kind, [x], axis=axis, **properties.get(kind, {}))


@st.composite
def search(draw):
    if draw(st.booleans()):
        element = draw(st.sampled_from([i32, i64, ui8, ui64, f32]))
        depth, shape = draw(st.integers(1, 5)), shape_up_to(draw, 2)
        index = np.random.default_rng(draw(st.integers(0, 99))).integers(-7, 7, shape)
        index = np.abs(index) if element in (ui8, ui64) else index
        values = array(draw, draw(st.sampled_from([f32, i8])), [2])
        axis = draw(st.integers(0, len(shape)))
        return Case(g.OneHotOp, [index.astype(dtype_of(element)), values], axis=axis, depth=depth)
    shape = shape_up_to(draw, 3, 1)
    x = array(draw, draw(st.sampled_from(NUMBERS)), shape) % 3
    if x.dtype.kind == "f":
        x = np.rint(x)
    flags = {name: draw(st.integers(0, 1)) for name in ("keepdims", "select_last_index")}
    axis = draw(st.integers(0, len(shape) - 1))
    return Case(draw(st.sampled_from([g.ArgMaxOp, g.ArgMinOp])), [x], axis=axis, **flags)


@st.composite
def normalisation(draw):
    kind = draw(
        st.sampled_from(
            [g.BatchNormOp, g.InstanceNormOp, g.GroupNormOp, g.LayerNormOp, g.RmsNormOp, g.LrnOp]
        )
    )
    dtype = dtype_of(draw(st.sampled_from([f32, f64])))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    groups = draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 2)), groups * draw(st.integers(1, 2)), *sizes(draw, 2, 4, 2))

    def numbers(*own):
        return rng.uniform(0.5, 2, own).astype(dtype)

    x, channels = rng.normal(size=shape).astype(dtype), shape[1]
    if kind is g.LrnOp:
        return Case(kind, [x], alpha=0.5, beta=0.75, bias=1.5, size=draw(st.integers(1, 4)))
    if kind is g.BatchNormOp:
        return Case(kind, [x, *(numbers(channels) for _ in range(4))], epsilon=1e-3)
    if kind in (g.InstanceNormOp, g.GroupNormOp):
        extra = {"num_groups": groups} if kind is g.GroupNormOp else {}
        return Case(kind, [x, numbers(channels), numbers(channels)], epsilon=1e-3, **extra)
    axis = draw(st.integers(0, 3))
    tail = shape[axis:]
    count = draw(st.integers(1, 2)) if kind is g.LayerNormOp else 1
    return Case(kind, [x, *(numbers(*tail) for _ in range(count))], axis=axis, epsilon=1e-3)


@st.composite
def more_windows(draw):
    kind = draw(st.sampled_from([g.LpPoolOp, g.GlobalMaxPoolOp, g.GlobalAveragePoolOp]))
    rank = draw(st.integers(1, 2 if kind is g.LpPoolOp else 3))
    shape = [*sizes(draw, 2, 2), *sizes(draw, rank, 6, 3)]
    x = array(draw, draw(st.sampled_from([f32, f64])), shape)
    if kind is not g.LpPoolOp:
        return Case(kind, [x])
    pads = [draw(st.integers(0, 1)) for _ in range(2 * rank)]
    window = {"kernel_shape": sizes(draw, rank, 3), "strides": sizes(draw, rank, 2)}
    ceil, p = draw(st.integers(0, 1)), draw(st.integers(1, 3))
    return Case(kind, [x], **window, pads=pads, dilations=[1] * rank, ceil_mode=ceil, p=p)


@st.composite
def conv_transpose(draw):
    rank, group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel, spatial = sizes(draw, rank, 3), sizes(draw, rank, 4, 2)
    inputs, outputs = sizes(draw, 2, 3)
    strides = sizes(draw, rank, 3)
    arrays = [
        array(draw, f32, [draw(st.integers(1, 2)), inputs * group, *spatial]),
        array(draw, f32, [inputs * group, outputs, *kernel]),
    ]
    if draw(st.booleans()):
        arrays.append(array(draw, f32, [outputs * group]))
    properties = {
        "strides": strides,
        "dilations": sizes(draw, rank, 2),
        "pads": [0] * rank + [draw(st.integers(0, 1)) for _ in range(rank)],
        "output_padding": [draw(st.integers(0, stride - 1)) for stride in strides],
    }
    return Case(g.ConvTransposeOp, arrays, group=group, **properties)


@st.composite
def recurrent(draw):
    """Any operand may be a constant, as weights are."""
    kind = draw(st.sampled_from([g.RnnOp, g.GruOp, g.LstmOp]))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, inputs, hidden = sizes(draw, 4, 4)
    rows = kind.GATES * hidden
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dtype = dtype_of(draw(st.sampled_from([f32, f64])))

    def numbers(*shape):
        return rng.normal(size=shape).astype(dtype)

    full = draw(st.booleans())
    lengths = np.full(batch, steps) if full else rng.integers(0, steps + 1, batch)
    arrays = [numbers(steps, batch, inputs), numbers(directions, rows, inputs)]
    arrays += [numbers(directions, rows, hidden), numbers(directions, 2 * rows)]
    arrays += [lengths.astype(np.int32), numbers(directions, batch, hidden)]
    if kind is g.LstmOp:
        arrays += [numbers(directions, batch, hidden), numbers(directions, 3 * hidden)]
    extra = {"linear_before_reset": draw(st.integers(0, 1))} if kind is g.GruOp else {}
    constants = draw(st.sampled_from([(), (1, 2, 3, 4), (4,)]))
    return Case(kind, arrays, constants, direction=direction, **extra)


FAMILIES = [
    activation,
    binary,
    clip,
    concat,
    conv,
    matmul,
    movement,
    pool,
    quantisation,
    reduction,
    requantisation,
    constant_gather,
    nearest_resize,
    function,
    activation_with_parameters,
    sign,
    extreme_or_remainder,
    comparison,
    logic,
    bits,
    classification,
    choice,
    cast,
    all_reductions,
    along_an_axis,
    search,
    normalisation,
    more_windows,
    conv_transpose,
    rearrangement,
    padding,
    recurrent,
    top_k,
    scatter,
    look_up,
    resize,
]

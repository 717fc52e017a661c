"""Proposes random operand types and attributes for ops of the graph level.

A proposal need not fit, for what fits is decided by the op's own type inference; it should fit
often. Ops without a proposal of their own take what the example in their description shows
(`byocir.testing.by_example`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import FixedAttr, FloatHalfEvenAttr
from byocir.dialects.graph.base import is_number
from byocir.dialects.types import (
    Shape,
    dtype_of,
    element_type_of,
    f32,
    i8,
    i32,
    is_float,
    shape_of,
    ui8,
)
from byocir.testing.by_example import attributes_of, by_example, elements_of, is_elementwise
from byocir.testing.choose import pick
from byocir.testing.draft import Draft, Properties, Proposal, Unfit

Propose = Callable[[Draft], Proposal]


def _windows(d: Draft, count: int) -> Properties:
    c, most = d.choose, d.breadth.steps
    strides, dilations = [[1] * count, [2] * count], [[1] * count]
    if most:
        strides += [[c(1, most) for _ in range(count)]] * 2
        dilations.append([c(1, most - 1) for _ in range(count)])
    return {
        "strides": d.attribute("strides", *strides),
        "dilations": d.attribute("dilations", *dilations),
        "pads": d.attribute("pads", [0] * (2 * count), [c(0, 1) for _ in range(2 * count)]),
    }


def _conv(d: Draft) -> Proposal:
    rank = d.rank(0, 4, 3, 5) if d.known(0) else d.rank(1, 4, 3, 5)
    group = d.attribute("group", 1, 1, 2, *((3, 4) if d.breadth.steps else ()))
    element = d.kind(0, d.kind(1, d.element))
    channels, out = d.size((1, 1)), d.size((1, 0), (2, 0))
    known = d.known(0)
    if known is not None:
        channels = max(1, known[1] // group)
    out = out if d.known(1) else -(-out // group) * group
    kernel = [d.size((1, i)) if ("w", i) in d.wants else d.choose(1, 3) for i in range(2, rank)]
    space = [3 + d.choose(0, 5) for _ in kernel]
    weight = d.kind(1, element)
    bias = i32 if weight in (i8, ui8) else weight
    types = d.types(
        ((pick(d.choose, (1, 2)), channels * group, *space), element),
        ((out, channels, *kernel), weight),
        ((out,), d.kind(2, bias) if len(d.slots) > 2 else bias),
    )
    return types, {**_windows(d, rank - 2), "group": group}


def _matmul(d: Draft) -> Proposal:
    rank = d.rank(0, 2, 2, 1, 3)
    element = d.kind(0, d.kind(1, d.element))
    inner = d.size((0, rank - 1), (0, -1), (1, -2), (1, 0))
    batch = [pick(d.choose, (1, 2)) for _ in range(rank - 2)]
    rows = [d.size((0, -2))] if rank > 1 else []
    columns = pick(d.choose, ([d.size((1, -1))], [d.size((1, -1))], []))
    more = pick(d.choose, ([], [], batch))
    types = d.types(
        ((*batch, *rows, inner), element),
        ((*(more if columns else []), inner, *columns), d.kind(1, element)),
    )
    return types, {}


def _pool(**more: Sequence[Any]) -> Propose:
    def propose(d: Draft) -> Proposal:
        rank = d.rank(0, 4, 3, 5)
        count = rank - 2
        space = [3 + d.choose(0, 5) for _ in range(count)]
        x = ((pick(d.choose, (1, 2)), d.size((0, 1)), *space), d.kind(0, d.element))
        properties = _windows(d, count)
        kernel = [d.choose(1, 3) for _ in range(count)]
        properties["kernel_shape"] = d.attribute("kernel_shape", kernel)
        properties["ceil_mode"] = d.attribute("ceil_mode", 0, 0, 1)
        for name, options in more.items():
            properties[name] = d.attribute(name, *options)
        return d.types(x), properties

    return propose


def _pad(d: Draft) -> Proposal:
    shape = d.known(0)
    shape = (1, d.size((0, 1)), *[3 + d.choose(0, 5)] * d.choose(1, 2)) if shape is None else shape
    element = d.kind(0, d.element)
    if not is_number(element):
        raise Unfit
    around = [int(i >= 2 and bool(d.choose(0, 2))) for _ in range(2) for i in range(len(shape))]
    more = [d.choose(0, 1) for _ in around]
    pads, mode = d.attribute("pads", around, around, more), d.attribute("mode", "constant")
    value = ArrayAttr.of(np.array(d.choose(0, 5), dtype_of(element)))
    properties: Properties = {"pads": pads, "mode": mode, "value": value}
    return d.types((shape, element)), properties


def _shape_like(d: Draft, other: Shape) -> Shape:
    """Draws a shape that broadcasts to another, or to which that broadcasts; mostly the same in
    plain graphs.
    """
    if d.plain and d.choose(0, 7) < 7:
        return other
    kinds = [other, other, tuple(1 for _ in other), (), (), (1,)]
    if len(other) > 1:
        kinds += [(1, *other[1:]), other[1:], other[-1:], (other[1], *[1] * (len(other) - 2))]
        kinds += [tuple(s if i == 1 else 1 for i, s in enumerate(other)), other[2:]]
    return pick(d.choose, kinds)


def _shape_beside(d: Draft, i: int, other: Shape) -> Shape:
    """Draws the shape of an operand beside another one: mostly the same for what is computed."""
    if not d.slots[i].is_constant and d.choose(0, 2):
        return other
    return _shape_like(d, other)


def _any_shape(d: Draft, i: int = 0) -> Shape:
    """Draws the shape of an input drawn before, most of the time, or one that broadcasts with it,
    so that inputs can meet again.
    """
    if d.recent and (same := d.choose(0, 9)):
        return d.recent[-1] if same > 2 else _shape_like(d, d.recent[-1])
    rank = d.rank(i, 4, 2, 3, 1)
    options = [(1, 2), *[d.breadth.sizes] * (rank - 1)]
    shape = tuple(d.size((i, axis), options=each) for axis, each in enumerate(options))
    d.recent.append(shape)
    return shape


def _same(d: Draft) -> Proposal:
    """Proposes operands of one element type, each of which may broadcast."""
    first = next((i for i in range(len(d.slots)) if d.known(i) is not None), 0)
    return _broadcast(d, [d.kind(first, d.element)] * len(d.slots)), {}


def _broadcast(d: Draft, elements: Sequence[Attribute]) -> list[TensorType]:
    """Proposes operands of these element types, or of known ones, each of which may broadcast."""
    first = next((i for i in range(len(d.slots)) if d.known(i) is not None), 0)
    shape = d.known(first)
    shape = _any_shape(d) if shape is None else shape
    others = [(_shape_beside(d, i, shape), d.kind(i, each)) for i, each in enumerate(elements)]
    if d.known(first) is None and others:
        others[first] = (shape, others[first][1])
    return d.types(*others)


def _clip(d: Draft) -> Proposal:
    types, _ = _same(d)
    element = element_type_of(types[0])
    if not is_number(element):
        raise Unfit
    dtype = dtype_of(element)
    bounds = pick(d.choose, ({}, {"min": 0}, {"min": 0, "max": 6}, {"max": 6}))
    wanted = {**bounds, **{name: d.attribute(name) for name in d.fixed}}
    return types, {n: ArrayAttr.of(np.array(v, dtype)) for n, v in wanted.items() if v is not None}


def _requantize(d: Draft) -> Proposal:
    shape = d.known(0)
    shape = _any_shape(d) if shape is None else shape
    fixed = len(d.slots) == 2 and d.kind(1, i32) == i32
    shifts = (0, 0, 0, 0, 8) if d.fixed.get("to") == i32 else (0, 0, 8)  # wide ones are exact
    shift, ties = pick(d.choose, shifts), pick(d.choose, ("half_up", "half_even", "floor"))
    rounding = d.attribute("rounding", FixedAttr.of(shift, ties)) if fixed else FloatHalfEvenAttr()
    to = d.attribute("to", i8, i8, i8, ui8, i32) if fixed else d.attribute("to", i8, i8, ui8)
    wide = d.breadth.steps
    scales = [
        (
            () if d.choose(0, 1) and not (wide and d.choose(0, 1)) else _scale_shape(d, shape),
            d.kind(i, i32 if fixed else f32),
        )
        for i in range(1, len(d.slots))
    ]
    zero = d.attribute("zero_point", 0, 0, 0, 5)
    numbers: Properties = {"rounding": rounding, "to": to, "zero_point": zero}
    return d.types((shape, d.kind(0, i8)), *scales), numbers


def _scale_shape(d: Draft, x: Shape) -> Shape:
    """Draws the shape of scales for an input: one for each channel in plain graphs, (C, 1, …)."""
    if d.plain and len(x) > 1:
        return (x[1], *[1] * (len(x) - 2))
    return _shape_like(d, x)


def _quantize(element: Attribute, zero: Attribute) -> Propose:
    def propose(d: Draft) -> Proposal:
        shape = d.known(0)
        shape = _any_shape(d) if shape is None else shape
        axis = pick(d.choose, (min(1, max(0, len(shape) - 1)), 0))
        scale = pick(d.choose, ((), (), (shape[axis],))) if shape else ()
        x = d.kind(0, d.element if is_float(element) and is_float(d.element) else element)
        wide = pick(d.choose, (f32, x)) if is_float(x) else f32
        types = d.types((shape, x), (scale, wide), (scale, d.kind(2, zero if is_float(x) else x)))
        return types, {"axis": d.attribute("axis", axis)}

    return propose


def _reshaped(d: Draft) -> tuple[Shape, list[TensorType]]:
    """Proposes an input that has dimensions of size one, as shape ops need, and its type."""
    known = d.known(0)
    shapes = [(1, d.size((0, 1)), 1, 1), (2, 4), (1, 4, 1), (2, d.size((0, 1)), 3, 1), (4,)]
    shape = pick(d.choose, shapes) if known is None else known
    return shape, d.types((shape, d.kind(0, d.element)))


def _reshape(d: Draft) -> Proposal:
    shape, types = _reshaped(d)
    ones = tuple(s for i, s in enumerate(shape) if i < 2 or s != 1)
    forms = [ones, (*shape, 1), (-1,), shape[::-1], shape]
    total = 1
    for size in shape:
        total *= size
    form = pick(d.choose, forms)
    return types, {"shape": d.attribute("shape", [total if s == -1 else s for s in form])}


def _flatten(d: Draft) -> Proposal:
    shape, types = _reshaped(d)
    return types, {"axis": d.attribute("axis", *range(1, len(shape) + 1), 0)}


def _squeeze(d: Draft) -> Proposal:
    shape, types = _reshaped(d)
    ones = [i for i, size in enumerate(shape) if size == 1]
    late = [i for i in ones if i >= 2]
    return types, {"axes": d.attribute("axes", late or ones, ones, ones[:1])}


def _unsqueeze(d: Draft) -> Proposal:
    shape, types = _reshaped(d)
    return types, {"axes": d.attribute("axes", [len(shape)], [0], [1])}


def _transpose(d: Draft) -> Proposal:
    types, _ = _same(d)
    rank = len(shape_of(types[0]))
    return types, {"perm": d.attribute("perm", list(range(rank))[::-1], list(range(rank)))}


def _axis(d: Draft) -> Proposal:
    types, _ = _same(d)
    rank = len(shape_of(types[0]))
    return types, {"axis": d.attribute("axis", rank - 1, min(1, rank - 1), 0)}


def _concat(d: Draft) -> Proposal:
    shape = next((s for i in range(len(d.slots)) if (s := d.known(i)) is not None), None)
    shape = _any_shape(d) if shape is None else shape
    types = d.types(*((shape, d.kind(i, d.element)) for i in range(len(d.slots))))
    return types, {"axis": d.attribute("axis", *range(len(shape)))}


def _reduce(d: Draft) -> Proposal:
    types, _ = _same(d)
    rank = len(shape_of(types[0]))
    axes = d.attribute("axes", list(range(rank))[2:] or [rank - 1], [rank - 1], [0])
    return types, {"axes": axes, "keepdims": d.attribute("keepdims", 1, 0)}


def _norm(d: Draft) -> Proposal:
    """Proposes scale and bias with the sizes of the dimensions from `axis` on."""
    shape = d.known(0)
    shape = _any_shape(d) if shape is None else shape
    if not shape:
        raise Unfit
    axis = d.attribute("axis", len(shape) - 1, 0)
    element = d.kind(0, f32)
    types = d.types((shape, element), (shape[axis:], element), (shape[axis:], element))
    return types, {"axis": axis, "epsilon": d.attribute("epsilon", 1e-5)}


def _batch_norm(d: Draft) -> Proposal:
    """Proposes an input and four numbers for each channel."""
    shape = d.known(0)
    shape = (1, d.size((0, 1)), 4, 4) if shape is None else shape
    if len(shape) < 2:
        raise Unfit
    element = d.kind(0, f32)
    types = d.types((shape, element), *[((shape[1],), element)] * 4)
    return types, {"epsilon": d.attribute("epsilon", 1e-5)}


PROPOSALS: dict[str, Propose] = {
    "graph.average_pool": _pool(count_include_pad=(0, 1)),
    "graph.batch_norm": _batch_norm,
    "graph.clip": _clip,
    "graph.concat": _concat,
    "graph.conv": _conv,
    "graph.dequantize": _quantize(i8, i8),
    "graph.flatten": _flatten,
    "graph.global_average_pool": lambda d: (
        d.types(((1, d.size((0, 1)), 4, 4), d.kind(0, d.element))),
        {},
    ),
    "graph.layer_norm": _norm,
    "graph.log_softmax": _axis,
    "graph.matmul": _matmul,
    "graph.max_pool": _pool(),
    "graph.pad": _pad,
    "graph.quantize": _quantize(f32, i8),
    "graph.lp_pool": _pool(p=(1, 2)),
    **{
        f"graph.reduce_{kind}": _reduce
        for kind in (
            *("l1", "l2", "log_sum", "log_sum_exp", "max", "mean", "min", "prod", "sum"),
            "sum_square",
        )
    },
    "graph.requantize": _requantize,
    "graph.reshape": _reshape,
    "graph.rms_norm": _norm,
    "graph.softmax": _axis,
    "graph.squeeze": _squeeze,
    "graph.sum_pool": _pool(),
    "graph.transpose": _transpose,
    "graph.unsqueeze": _unsqueeze,
}
"""Proposals by op, where its example alone would fit too seldom."""


def propose(name: str, draft: Draft) -> Proposal:
    """Proposes the types of the operands and the attributes of an op, among them what the pattern
    fixes. Raises Unfit where nothing can be proposed.
    """
    if (name in PROPOSALS or is_elementwise(name)) == bool(draft.choose(0, 9)):
        types, properties = _own(name, draft)
    else:
        types, properties = by_example(name, draft)
    fixed = {key: value for key, value in draft.fixed.items() if not callable(value)}
    return types, {**fixed, **properties}


def _own(name: str, d: Draft) -> Proposal:
    """Proposes by the function for this op, else operands that broadcast."""
    if name in PROPOSALS:
        return PROPOSALS[name](d)
    return _broadcast(d, elements_of(name, d)), attributes_of(name, d)

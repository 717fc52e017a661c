"""Convolutions and matrix products: one contraction each, over a zero fill."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.graph import ConvOp, ConvTransposeOp, MatmulOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.affine import divided, modulo
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.emit import Emitter, Index, Read, Space, broadcast_index
from byocir.dialects.tir.scalar import signless
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.lowering.graph_to_tir.operands import accumulator_of, axis_read
from byocir.lowering.graph_to_tir.registry import lowers

_SPATIAL = {1: ("h",), 2: ("h", "w"), 3: ("d", "h", "w")}
_KERNEL = {1: ("r",), 2: ("r", "s"), 3: ("q", "r", "s")}


def spatial_names(rank: int) -> Sequence[str]:
    """The iterators over the spatial dimensions of a result."""
    return _SPATIAL.get(rank) or [f"x{i}" for i in range(rank)]


def kernel_names(rank: int) -> Sequence[str]:
    """The iterators over a kernel."""
    return _KERNEL.get(rank) or [f"k{i}" for i in range(rank)]


def window(
    space: Space, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> list[AffineExpr]:
    """The spatial index that position (kernel) of window (spatial) reads, e.g. `h * 2 + r - 1`."""
    rank = len(strides)
    return [
        space[spatial] * stride + space[kernel] * dilation + -begin
        for spatial, kernel, stride, dilation, begin in zip(
            spatial_names(rank), kernel_names(rank), strides, dilations, pads[:rank], strict=True
        )
    ]


def _contract(
    emit: Emitter,
    space: Space,
    reads: tuple[Read, Read],
    shape: Shape,
    element: Attribute,
    out: Index | None = None,
    where: Index = (),
) -> SSAValue:
    """The sum of products, in the type that `element` accumulates in."""
    wide = accumulator_of(signless(element))
    init = emit.fill(0, wide, shape)
    return emit.block(
        space, reads, init, lambda x, w, acc: multiply_accumulate(x, w, acc, to=wide), out, where
    )


def narrowed(emit: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    """A value in this element type."""
    if element_type_of(value.type) == element:
        return value
    return emit.elementwise(shape_of(value.type), element, [value], lambda x: x.to(element))


@lowers(ConvOp)
def _conv(emit: Emitter, op: ConvOp) -> SSAValue:
    total = _grouped(emit, op) if op.group.value.data > 1 else _dense(emit, op)
    return _with_bias(emit, op, total)


def _with_bias(emit: Emitter, op: ConvOp | ConvTransposeOp, total: SSAValue) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    if op.bias is None:
        return narrowed(emit, total, element)
    wide = element_type_of(total.type)
    return emit.elementwise(
        shape, element, [total, axis_read(op.bias, 1)], lambda x, b: (x + b.to(wide)).to(element)
    )


def _dense(emit: Emitter, op: ConvOp) -> SSAValue:
    shape = shape_of(op.result.type)
    spatial, kernel = spatial_names(len(shape) - 2), kernel_names(len(shape) - 2)
    space = Space(
        dict(zip(["n", "o", *spatial], shape, strict=True)),
        dict(zip(["c", *kernel], shape_of(op.weight.type)[1:], strict=True)),
    )
    x = Read(op.input, [space["n"], space["c"], *_window(space, op)], pad=0)
    w = Read(op.weight, [space[name] for name in ("o", "c", *kernel)])
    return _contract(emit, space, (x, w), shape, element_type_of(op.result.type))


def _grouped(emit: Emitter, op: ConvOp) -> SSAValue:
    """A group is a parallel iterator of its own; channel indices join it with those inside."""
    shape, weight = shape_of(op.result.type), shape_of(op.weight.type)
    spatial, kernel = spatial_names(len(shape) - 2), kernel_names(len(shape) - 2)
    group = op.group.value.data
    outputs, inputs = weight[0] // group, weight[1]
    space = Space(
        dict(zip(["n", "g", "o", *spatial], [shape[0], group, outputs, *shape[2:]], strict=True)),
        dict(zip(["c", *kernel], weight[1:], strict=True)),
    )
    o = space["g"] * outputs + space["o"]
    x = Read(op.input, [space["n"], space["g"] * inputs + space["c"], *_window(space, op)], pad=0)
    w = Read(op.weight, [o, space["c"], *(space[name] for name in kernel)])
    out = [space["n"], o, *(space[name] for name in spatial)]
    return _contract(emit, space, (x, w), shape, element_type_of(op.result.type), out)


def _window(space: Space, op: ConvOp) -> list[AffineExpr]:
    return window(space, int_tuple(op.strides), int_tuple(op.dilations), int_tuple(op.pads))


@lowers(ConvTransposeOp)
def _conv_transpose(emit: Emitter, op: ConvTransposeOp) -> SSAValue:
    """Each element gathers what the inputs add to it: those whose distance, less the place in the
    kernel, is a multiple of the stride."""
    shape, weight = shape_of(op.result.type), shape_of(op.weight.type)
    spatial, kernel = spatial_names(len(shape) - 2), kernel_names(len(shape) - 2)
    group, outputs = op.group.value.data, weight[1]
    inputs = weight[0] // group
    space = Space(
        dict(zip(["n", "g", "o", *spatial], [shape[0], group, outputs, *shape[2:]], strict=True)),
        dict(zip(["c", *kernel], [inputs, *weight[2:]], strict=True)),
    )
    c, o = space["g"] * inputs + space["c"], space["g"] * outputs + space["o"]
    strides, dilations, pads = map(int_tuple, (op.strides, op.dilations, op.pads))
    reach = [
        space[at] + space[k] * -dilation + begin
        for at, k, dilation, begin in zip(spatial, kernel, dilations, pads, strict=False)
    ]
    rows = [divided(d, stride) for d, stride in zip(reach, strides, strict=True)]
    where = [modulo(d, n) * -1 for d, n in zip(reach, strides, strict=True) if n > 1]
    x = Read(op.input, [space["n"], c, *rows], pad=0)
    w = Read(op.weight, [c, space["o"], *(space[name] for name in kernel)])
    out = [space["n"], o, *(space[name] for name in spatial)]
    total = _contract(emit, space, (x, w), shape, element_type_of(op.result.type), out, where)
    return _with_bias(emit, op, total)


@lowers(MatmulOp)
def _matmul(emit: Emitter, op: MatmulOp) -> SSAValue:
    """Batch dimensions broadcast; an operand of rank 1 has no m or no n."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    lhs, rhs = shape_of(op.lhs.type), shape_of(op.rhs.type)
    inner = [*(["m"] if len(lhs) > 1 else []), *(["n"] if len(rhs) > 1 else [])]
    batch = shape[: len(shape) - len(inner)]
    names = [*(f"b{i}" for i in range(len(batch))), *inner]
    space = Space(dict(zip(names, shape, strict=True)), {"k": rhs[max(len(rhs) - 2, 0)]})

    def read(value: SSAValue, own: Shape, last: list[str]) -> Read:
        outer = broadcast_index(own[: len(own) - len(last)], batch)
        return Read(value, [*outer, *(space[name] for name in last)])

    reads = (
        read(op.lhs, lhs, ["m", "k"] if len(lhs) > 1 else ["k"]),
        read(op.rhs, rhs, ["k", "n"] if len(rhs) > 1 else ["k"]),
    )
    return narrowed(emit, _contract(emit, space, reads, shape, element), element)

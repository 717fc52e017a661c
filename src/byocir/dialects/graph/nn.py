"""Defines contractions: conv, conv_transpose and matmul."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    INTS,
    ByBatch,
    ExactOnIntegers,
    GraphOp,
    broadcast,
    dims,
    expect_float,
    int_tuple,
    is_number,
)
from byocir.dialects.graph.open_sizes import Dims, Mask, broadcast_dims
from byocir.dialects.graph.operands import accumulator_of, axis_read, narrowed
from byocir.dialects.tir.affine import divided, modulo
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.emit import Emitter, Index, Read, Space, broadcast_index
from byocir.dialects.tir.scalar import signless
from byocir.dialects.types import (
    Shape,
    element_type_of,
    i8,
    i16,
    i32,
    is_float,
    shape_of,
    tensor,
    ui8,
)

BYTES = (i8, ui8)
"""The element types whose contractions accumulate in i32."""


def accumulator(lhs: Attribute, rhs: Attribute) -> Attribute:
    """Gives the element type in which a contraction of these two accumulates: i32 for 8-bit
    integers, signed or not, of which the second may have 16 bits (bytes without their zero point
    need up to nine), else the type of both. Raises VerifyException.
    """
    if lhs in BYTES and rhs in (*BYTES, i16):
        return i32
    expect(lhs == rhs, lambda: f"expected operands of one element type, found {lhs} and {rhs}")
    return lhs


def window_shape(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil: bool = False,
) -> Shape:
    """Counts the windows along each spatial dimension, as ONNX defines it. With `ceil` a window may
    end outside, but none may begin outside behind the last element. Raises VerifyException.
    """
    rank = len(sizes)
    for name, values, count in (
        ("kernel_shape", kernel, rank),
        ("strides", strides, rank),
        ("dilations", dilations, rank),
        ("pads", pads, 2 * rank),
    ):
        expect(len(values) == count, f"expected {count} {name}, found {len(values)}")
        least = 0 if name == "pads" else 1
        expect(min(values) >= least, f"expected {name} >= {least}, found {list(values)}")
    return tuple(
        _windows(sizes[i], (kernel[i] - 1) * dilations[i] + 1, strides[i], pads[i::rank], ceil)
        for i in range(rank)
    )


def _windows(size: int, extent: int, stride: int, pads: Sequence[int], ceil: bool) -> int:
    padded = size + sum(pads)
    expect(extent <= padded, f"expected windows of at most {padded}, found {extent}")
    free = padded - extent
    if not ceil:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


class ConvBaseOp(ByBatch, GraphOp):
    """Defines what the convolutions of `[N,C,spatial…]` share: a weight and an optional bias."""

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    dilations = prop_def(INTS)
    group = prop_def(INT)
    result = result_def(TensorType)

    def check_bias(self, element: Attribute, channels: int) -> None:
        """Raises VerifyException for a bias that is not one number for each channel."""
        if self.bias is not None:
            bias = tensor(element, [channels])
            expect(self.bias.type == bias, f"expected bias {bias}, found {self.bias.type}")


@irdl_op_definition
class ConvOp(ExactOnIntegers, ConvBaseOp):
    """Convolves `[N,C,spatial…]` with `[O,C/group,kernel…]` and an optional bias `[O]`, e.g.
    `graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations =
    array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x8x8xi8>, tensor<32x16x3x3xi8>, tensor<32xi32>)
    -> tensor<1x32x8x8xi32>`. Pads come as in ONNX: all begins, then all ends. 8-bit integers
    accumulate in i32, which the bias has too.
    """

    name = "graph.conv"

    def infer(self) -> Sequence[TensorType]:
        x, w = shape_of(self.input.type), shape_of(self.weight.type)
        expect(
            len(x) == len(w) >= 3,
            f"expected input and weight of one rank >= 3, found {dims(x)} and {dims(w)}",
        )
        self._check_channels(x[1], w)
        spatial = window_shape(
            x[2:], w[2:], int_tuple(self.strides), int_tuple(self.pads), int_tuple(self.dilations)
        )
        return [tensor(self._element(w[0]), (x[0], w[0], *spatial))]

    def macs(self) -> int:
        return math.prod(shape_of(self.result.type)) * math.prod(shape_of(self.weight.type)[1:])

    def _check_channels(self, channels: int, weight: Shape) -> None:
        group = self.group.value.data
        expect(group >= 1, f"expected group >= 1, found {group}")
        expect(
            channels == weight[1] * group,
            f"expected {weight[1]} x group {group} input channels, found {channels}",
        )
        expect(
            weight[0] % group == 0,
            f"expected output channels divisible by group {group}, found {weight[0]}",
        )

    def _element(self, channels: int) -> Attribute:
        element = accumulator(element_type_of(self.input.type), element_type_of(self.weight.type))
        expect(
            is_float(element) or element_type_of(self.input.type) in BYTES,
            lambda: f"expected floating-point or 8-bit operands, found {element}",
        )
        self.check_bias(element, channels)
        return element

    def define(self, emit: Emitter) -> SSAValue:
        total = _grouped(emit, self) if self.group.value.data > 1 else _dense(emit, self)
        return _with_bias(emit, self, total)


@irdl_op_definition
class ConvTransposeOp(ConvBaseOp):
    """Computes the transpose of a convolution: each element of `[N,C,spatial…]` adds its multiple
    of a kernel of `[C,O/group,kernel…]`, `strides` apart, and `pads` cut off what is at the
    borders; `output_padding` adds room at the ends, e.g. `graph.conv_transpose %x, %w, %b {strides
    = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 :
    i64, output_padding = array<i64: 0, 0>} : (tensor<1x16x8x8xf32>, tensor<16x32x2x2xf32>,
    tensor<32xf32>) -> tensor<1x32x16x16xf32>`.
    """

    name = "graph.conv_transpose"

    output_padding = prop_def(INTS)

    def infer(self) -> Sequence[TensorType]:
        x, w, group = shape_of(self.input.type), shape_of(self.weight.type), self.group.value.data
        element, weight = expect_float(self.input), expect_float(self.weight)
        expect(element == weight, f"expected a weight of {element}, found {weight}")
        expect(
            len(x) == len(w) >= 3,
            f"expected input and weight of one rank >= 3, found {dims(x)} and {dims(w)}",
        )
        expect(group >= 1, f"expected group >= 1, found {group}")
        expect(
            x[1] == w[0] and x[1] % group == 0,
            f"expected {w[0]} input channels, divisible by group {group}, found {x[1]}",
        )
        channels = w[1] * group
        self.check_bias(element, channels)
        return [tensor(element, (x[0], channels, *self._spatial(x[2:], w[2:])))]

    def _spatial(self, x: Shape, kernel: Shape) -> Shape:
        strides, dilations = int_tuple(self.strides), int_tuple(self.dilations)
        pads, extra, rank = int_tuple(self.pads), int_tuple(self.output_padding), len(x)
        expect(len(pads) == 2 * rank, f"expected {2 * rank} pads, found {len(pads)}")
        for name, values, least in (
            ("strides", strides, 1),
            ("dilations", dilations, 1),
            ("output_padding", extra, 0),
        ):
            expect(len(values) == rank, f"expected {rank} {name}, found {len(values)}")
            expect(min(values) >= least, f"expected {name} >= {least}, found {list(values)}")
        sizes = tuple(
            (x[i] - 1) * strides[i]
            + (kernel[i] - 1) * dilations[i]
            + 1
            + extra[i]
            - pads[i]
            - pads[rank + i]
            for i in range(rank)
        )
        expect(min(sizes) >= 1, f"expected pads that leave something, found {list(pads)}")
        return sizes

    def macs(self) -> int:
        return math.prod(shape_of(self.input.type)) * math.prod(shape_of(self.weight.type)[1:])

    def define(self, emit: Emitter) -> SSAValue:
        """Emits a contraction in which each element gathers what the inputs add to it: those whose
        distance, less the place in the kernel, is a multiple of the stride."""
        shape, weight = shape_of(self.result.type), shape_of(self.weight.type)
        spatial, kernel = spatial_names(len(shape) - 2), kernel_names(len(shape) - 2)
        group, outputs = self.group.value.data, weight[1]
        inputs = weight[0] // group
        space = Space(
            dict(
                zip(["n", "g", "o", *spatial], [shape[0], group, outputs, *shape[2:]], strict=True)
            ),
            dict(zip(["c", *kernel], [inputs, *weight[2:]], strict=True)),
        )
        c, o = space["g"] * inputs + space["c"], space["g"] * outputs + space["o"]
        strides, dilations, pads = map(int_tuple, (self.strides, self.dilations, self.pads))
        reach = [
            space[at] + space[k] * -dilation + begin
            for at, k, dilation, begin in zip(spatial, kernel, dilations, pads, strict=False)
        ]
        rows = [divided(d, stride) for d, stride in zip(reach, strides, strict=True)]
        where = [modulo(d, n) * -1 for d, n in zip(reach, strides, strict=True) if n > 1]
        x = Read(self.input, [space["n"], c, *rows], pad=0)
        w = Read(self.weight, [c, space["o"], *(space[name] for name in kernel)])
        out = [space["n"], o, *(space[name] for name in spatial)]
        total = _contract(emit, space, (x, w), shape, element_type_of(self.result.type), out, where)
        return _with_bias(emit, self, total)


@irdl_op_definition
class MatmulOp(ExactOnIntegers, GraphOp):
    """Multiplies matrices as numpy's and ONNX's MatMul do, e.g. `graph.matmul %a, %b :
    (tensor<8x16xi8>, tensor<16x4xi8>) -> tensor<8x4xi32>`. Leading dimensions broadcast; an operand
    of rank 1 is a row on the left, a column on the right. 8-bit integers accumulate in i32.
    """

    name = "graph.matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = shape_of(self.lhs.type), shape_of(self.rhs.type)
        element = accumulator(element_type_of(self.lhs.type), element_type_of(self.rhs.type))
        expect(is_number(element), f"expected operands of numbers, found {element}")
        expect(
            len(lhs) >= 1 and len(rhs) >= 1,
            f"expected operands of rank >= 1, found {dims(lhs)} and {dims(rhs)}",
        )
        expect(
            lhs[-1:] == rhs[-2:][:1],
            f"expected inner dimensions to agree, found {dims(lhs)} and {dims(rhs)}",
        )
        batch = broadcast(lhs[:-2], rhs[:-2])
        columns = rhs[-1:] if len(rhs) > 1 else ()
        return [tensor(element, (*batch, *lhs[-2:-1], *columns))]

    def macs(self) -> int:
        return math.prod(shape_of(self.result.type)) * shape_of(self.lhs.type)[-1]

    def define(self, emit: Emitter) -> SSAValue:
        """Emits one contraction: batch dimensions broadcast, and an operand of rank 1 has no m or
        no n."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        lhs, rhs = shape_of(self.lhs.type), shape_of(self.rhs.type)
        inner = [*(["m"] if len(lhs) > 1 else []), *(["n"] if len(rhs) > 1 else [])]
        batch = shape[: len(shape) - len(inner)]
        names = [*(f"b{i}" for i in range(len(batch))), *inner]
        space = Space(dict(zip(names, shape, strict=True)), {"k": rhs[max(len(rhs) - 2, 0)]})

        def read(value: SSAValue, own: Shape, last: list[str]) -> Read:
            outer = broadcast_index(own[: len(own) - len(last)], batch)
            return Read(value, [*outer, *(space[name] for name in last)])

        reads = (
            read(self.lhs, lhs, ["m", "k"] if len(lhs) > 1 else ["k"]),
            read(self.rhs, rhs, ["k", "n"] if len(rhs) > 1 else ["k"]),
        )
        return narrowed(emit, _contract(emit, space, reads, shape, element), element)

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        a, b, *bias = dims
        if bias or min(len(a), len(b)) < 2 or a[-1] != b[-2]:
            return None
        batch = broadcast_dims(a[:-2], b[:-2])
        return None if batch is None else [(*batch, a[-2], b[-1])]

    def masks(self) -> Sequence[Mask]:
        a, b = (len(shape_of(value.type)) for value in self.operands[:2])
        return [Mask(0, [a - 1]), Mask(1, [b - 2])]


_SPATIAL = {1: ("h",), 2: ("h", "w"), 3: ("d", "h", "w")}


_KERNEL = {1: ("r",), 2: ("r", "s"), 3: ("q", "r", "s")}


def spatial_names(rank: int) -> Sequence[str]:
    """Names the iterators over the spatial dimensions of a result."""
    return _SPATIAL.get(rank) or [f"x{i}" for i in range(rank)]


def kernel_names(rank: int) -> Sequence[str]:
    """Names the iterators over a kernel."""
    return _KERNEL.get(rank) or [f"k{i}" for i in range(rank)]


def window(
    space: Space, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> list[AffineExpr]:
    """Gives the index that a window reads in each spatial dimension, from the iterators over
    windows and over kernel positions, e.g. `h * 2 + r - 1`.
    """
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
    """Emits the sum of products, in the type in which `element` accumulates."""
    wide = accumulator_of(signless(element))
    init = emit.fill(0, wide, shape)
    return emit.block(
        space, reads, init, lambda x, w, acc: multiply_accumulate(x, w, acc, to=wide), out, where
    )


def _with_bias(emit: Emitter, op: ConvBaseOp, total: SSAValue) -> SSAValue:
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
    """Emits a grouped convolution, with the group as a parallel iterator of its own: the channel
    indices are `g * outputs + o` and `g * inputs + c`.
    """
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

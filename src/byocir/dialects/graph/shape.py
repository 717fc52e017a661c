"""Defines ops that move elements and change none: reshape, flatten, squeeze, transpose, concat,
…
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    prop_def,
    result_def,
    var_operand_def,
)

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    INTS,
    Exact,
    GraphOp,
    OneInputOp,
    dims,
    expect_axes,
    expect_axis,
    int_tuple,
    shapes,
)
from byocir.dialects.graph.open_sizes import Dims, is_open
from byocir.dialects.tir.affine import divided, modulo
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import ZERO, Emitter, Index, Read, Space
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor


class ShapeOp(Exact, OneInputOp):
    """Defines what shape ops with one input share; a subclass says which shape comes out."""

    def shape(self, x: Shape) -> Sequence[int]:
        """Gives the result's shape for an input of shape `x`; raises VerifyException."""
        raise NotImplementedError

    def infer(self) -> Sequence[TensorType]:
        shape = self.shape(shape_of(self.input.type))
        return [tensor(element_type_of(self.input.type), shape)]

    def copied(self, emit: Emitter, index: Index) -> SSAValue:
        """Emits a block that copies each element of the result from `index` in the input."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        return emit.elementwise(shape, element, [Read(self.input, index)], lambda x: x)


class InOrderOp(ShapeOp):
    """Defines what shape ops share that keep all elements in their order."""

    def define(self, emit: Emitter) -> SSAValue:
        return self.copied(
            emit, reshape_index(shape_of(self.input.type), shape_of(self.result.type))
        )


@irdl_op_definition
class ReshapeOp(InOrderOp):
    """Gives the same elements in another shape, e.g. `graph.reshape %x {shape = array<i64: 4, 2>} :
    (tensor<8xf32>) -> tensor<4x2xf32>`. All sizes are written out: no 0, no -1 with a meaning.
    """

    name = "graph.reshape"

    new_shape = prop_def(INTS, prop_name="shape")

    def shape(self, x: Shape) -> Sequence[int]:
        shape = int_tuple(self.new_shape)
        expect(min(shape, default=0) >= 0, f"expected sizes >= 0, found {dims(shape)}")
        expect(
            math.prod(shape) == math.prod(x),
            f"expected a shape of {math.prod(x)} elements, found {dims(shape)}",
        )
        return shape


@irdl_op_definition
class FlattenOp(InOrderOp):
    """Joins the dimensions before `axis` to one, and those from it on to another, e.g.
    `graph.flatten %x {axis = 1 : i64} : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>`.
    """

    name = "graph.flatten"

    axis = prop_def(INT)

    def shape(self, x: Shape) -> Sequence[int]:
        axis = self.axis.value.data
        expect(0 <= axis <= len(x), f"expected axis from 0 to {len(x)}, found {axis}")
        return math.prod(x[:axis]), math.prod(x[axis:])


@irdl_op_definition
class SqueezeOp(InOrderOp):
    """Drops the dimensions `axes`, each of size 1, e.g. `graph.squeeze %x {axes =
    array<i64: 2, 3>} : (tensor<1x4x1x1xf32>) -> tensor<1x4xf32>`."""

    name = "graph.squeeze"

    axes = prop_def(INTS)

    def shape(self, x: Shape) -> Sequence[int]:
        axes = int_tuple(self.axes)
        expect_axes(axes, len(x))
        found = [x[axis] for axis in axes]
        expect(set(found) == {1}, f"expected dimensions of size 1, found {dims(found)}")
        return [size for axis, size in enumerate(x) if axis not in axes]

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axes = int_tuple(self.axes)
        if is_open([dims[0][axis] for axis in axes]):
            return None
        return [tuple(dim for i, dim in enumerate(dims[0]) if i not in axes)]


@irdl_op_definition
class UnsqueezeOp(InOrderOp):
    """Adds dimensions of size 1 at `axes` of the result, e.g. `graph.unsqueeze %x {axes =
    array<i64: 0>} : (tensor<4xf32>) -> tensor<1x4xf32>`."""

    name = "graph.unsqueeze"

    axes = prop_def(INTS)

    def shape(self, x: Shape) -> Sequence[int]:
        axes = int_tuple(self.axes)
        rank = len(x) + len(axes)
        expect_axes(axes, rank)
        kept = iter(x)
        return [1 if axis in axes else next(kept) for axis in range(rank)]

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axes, rest = int_tuple(self.axes), iter(dims[0])
        return [tuple(1 if i in axes else next(rest) for i in range(len(dims[0]) + len(axes)))]


@irdl_op_definition
class TransposeOp(ShapeOp):
    """Permutes dimensions: dimension i of the result is dimension `perm[i]` of the input, e.g.
    `graph.transpose %x {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>`.
    """

    name = "graph.transpose"

    perm = prop_def(INTS)

    def shape(self, x: Shape) -> Sequence[int]:
        perm = int_tuple(self.perm)
        expect(
            sorted(perm) == list(range(len(x))),
            f"expected a permutation of {len(x)} dimensions, found {list(perm)}",
        )
        return [x[axis] for axis in perm]

    def define(self, emit: Emitter) -> SSAValue:
        perm = int_tuple(self.perm)
        return self.copied(
            emit, [AffineExpr.dimension(perm.index(axis)) for axis in range(len(perm))]
        )

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        return [tuple(dims[0][axis] for axis in int_tuple(self.perm))]


@irdl_op_definition
class ConcatOp(Exact, GraphOp):
    """Puts the inputs one after the other along `axis`, e.g. `graph.concat %a, %b {axis = 1 : i64}
    : (tensor<1x4xf32>, tensor<1x2xf32>) -> tensor<1x6xf32>`.
    """

    name = "graph.concat"

    inputs = var_operand_def(TensorType)
    axis = prop_def(INT)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        expect(len(self.inputs) > 0, "expected at least one input, found none")
        elements = {element_type_of(value.type): None for value in self.inputs}
        found = " and ".join(map(str, elements))
        expect(len(elements) == 1, f"expected inputs of one element type, found {found}")
        axis, all_shapes = self.axis.value.data, shapes(self.inputs)
        expect_axis(axis, len(all_shapes[0]))
        others = {(*shape[:axis], *shape[axis + 1 :]): None for shape in all_shapes}
        expect(
            len(others) == 1 and len({len(shape) for shape in all_shapes}) == 1,
            f"expected inputs that differ in axis {axis} only, found "
            + " and ".join(map(dims, all_shapes)),
        )
        joined = list(all_shapes[0])
        joined[axis] = sum(shape[axis] for shape in all_shapes)
        return [tensor(next(iter(elements)), joined)]

    def define(self, emit: Emitter) -> SSAValue:
        """Emits one block for each input, which writes its part of the result and hands the rest
        on.
        """
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        axis, start = self.axis.value.data, 0
        result = emit.empty(element, shape)
        for value in self.inputs:
            own = shape_of(value.type)
            space = Space.over(own)
            out = list(space.parallel)
            out[axis] = out[axis] + start
            result = emit.block(space, [Read(value, space.parallel)], result, first, out)
            start += own[axis]
        return result

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axis = self.axis.value.data
        others = {(*each[:axis], *each[axis + 1 :]) for each in dims}
        sizes = [each[axis] for each in dims]
        if len(others) > 1 or is_open(sizes):
            return None
        total = sum(size for size in sizes if isinstance(size, int))
        return [(*dims[0][:axis], total, *dims[0][axis + 1 :])]


def reshape_index(source: Shape, result: Shape) -> list[AffineExpr]:
    """Gives the index into an array of shape `source` of each element of its reshape to `result`.

    Dimensions that correspond are copied; only where some are split or joined does the index divide
    or take remainders, and within these alone.
    """
    index = [ZERO] * len(source)
    if 0 in source:  # the result is empty, too
        return index
    inner = [axis for axis, size in enumerate(source) if size != 1]
    outer = [axis for axis, size in enumerate(result) if size != 1]
    while inner:
        before, after = _corresponding(inner, source, outer, result)
        flat = _flat_index(after, result)
        for place, axis in enumerate(before):
            stride = prod(source[a] for a in before[place + 1 :])
            index[axis] = _digit(flat, stride, source[axis] if place else None)
        inner, outer = inner[len(before) :], outer[len(after) :]
    return index


def _corresponding(
    inner: Sequence[int], source: Shape, outer: Sequence[int], result: Shape
) -> tuple[Sequence[int], Sequence[int]]:
    """Gives the fewest leading axes on both sides that hold the same number of elements: [6, 4] and
    [2, 3, 4] → the first axis and the first two.
    """
    before, after = 1, 1
    while (have := prod(source[a] for a in inner[:before])) != (
        want := prod(result[a] for a in outer[:after])
    ):
        if have < want:
            before += 1
        else:
            after += 1
    return inner[:before], outer[:after]


def _flat_index(axes: Sequence[int], shape: Shape) -> AffineExpr:
    """Gives the row-major number of an element among those of these axes: [i, j, k] of axes 1 and 2
    → j * size + k.
    """
    flat = ZERO
    for axis in axes:
        flat = flat * shape[axis] + AffineExpr.dimension(axis)
    return flat


def _digit(flat: AffineExpr, stride: int, size: int | None) -> AffineExpr:
    """Gives `(flat floordiv stride) mod size`: one index of several from their row-major number.
    The first needs no mod.
    """
    digit = divided(flat, stride)
    return digit if size is None else modulo(digit, size)

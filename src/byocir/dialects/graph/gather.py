"""Defines ops that look up, write or sort by computed indices. Negative indices count from the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import operand_def, prop_def, result_def

from byocir.dialects.array import known_values
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    Exact,
    GraphOp,
    Way,
    dims,
    expect_axis,
    expect_flag,
    is_number,
    undefined,
)
from byocir.dialects.graph.lookup import counter, is_regular, selected, take
from byocir.dialects.graph.open_sizes import Dims, Mask, OpenSize, is_open
from byocir.dialects.tir.emit import ZERO, Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import (
    Shape,
    dtype_of,
    element_type_of,
    i32,
    i64,
    is_float,
    shape_of,
    tensor,
    ui64,
)

REDUCTIONS = ("none", "add", "mul", "min", "max")
"""Ways of a scatter to treat the element that is there: it replaces it, or combines both. Routines
take the place in this list."""


def _expect_indices(value: SSAValue) -> Shape:
    element = element_type_of(value.type)
    expect(element in (i32, i64), f"expected indices of i32 or i64, found {element}")
    return shape_of(value.type)


class GatherBaseOp(Exact, GraphOp):
    """Defines what the look-ups of `input` at `indices` share."""

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    result = result_def(TensorType)

    def shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        """Gives the result's shape; raises VerifyException."""
        raise NotImplementedError

    def infer(self) -> Sequence[TensorType]:
        shape = self.shape(shape_of(self.input.type), _expect_indices(self.indices))
        return [tensor(element_type_of(self.input.type), shape)]

    def masks(self) -> Sequence[Mask]:
        return [Mask(1, range(len(shape_of(self.indices.type))))]


@irdl_op_definition
class GatherOp(GatherBaseOp):
    """Takes the slices of `axis` at these indices, whose shape takes the place of the dimension,
    e.g. `graph.gather %x, %i {axis = 0 : i64} : (tensor<100x16xf32>, tensor<2x3xi64>) ->
    tensor<2x3x16xf32>`.
    """

    name = "graph.gather"

    axis = prop_def(INT)

    def shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        axis = self.axis.value.data
        expect_axis(axis, len(x))
        return *x[:axis], *indices, *x[axis + 1 :]

    def define(self, emit: Emitter) -> SSAValue:
        """Emits one block with an index map where the indices are constants with a regular step,
        else a block that looks elements up."""
        given, axis = known_values(self.indices), self.axis.value.data
        source, shape = shape_of(self.input.type), shape_of(self.result.type)
        element = element_type_of(self.input.type)
        if 0 in shape:
            return emit.empty(element, shape)
        table = (
            [] if given is None else [int(i + source[axis] * (i < 0)) for i in given.reshape(-1)]
        )
        inside = given is not None and all(0 <= i < source[axis] for i in table)
        if given is None or not inside or not is_regular(table):
            return take(emit, self.input, axis, self.indices)
        chosen = selected(emit, self.input, axis, table)
        if given.ndim == 1:
            return chosen
        # The dimensions of the indices are one in what was chosen.
        at = Space.over(shape).parallel
        flat = AffineExpr.constant(0)
        for i, size in enumerate(given.shape):
            flat = flat * size + at[axis + i]
        index = [*at[:axis], flat, *at[axis + given.ndim :]]
        return emit.elementwise(shape, element, [Read(chosen, index)], lambda x: x)

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axis, (x, indices) = self.axis.value.data, dims
        if isinstance(x[axis], OpenSize) or x[axis] == 0:
            return None
        return [(*x[:axis], *indices, *x[axis + 1 :])]


@irdl_op_definition
class GatherElementsOp(GatherBaseOp):
    """Takes, for each position of `indices`, the element at that position, but along `axis` at the
    index, e.g. `graph.gather_elements %x, %i {axis = 1 : i64} : (tensor<8x16xf32>, tensor<8x3xi64>)
    -> tensor<8x3xf32>`.
    """

    name = "graph.gather_elements"

    axis = prop_def(INT)

    def shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        _expect_within(x, indices, self.axis.value.data)
        return indices

    def define(self, emit: Emitter) -> SSAValue:
        axis, source, shape = (
            self.axis.value.data,
            shape_of(self.input.type),
            shape_of(self.result.type),
        )
        at = Space.over(shape).parallel
        reads = [
            counter(emit, size, expr) if i != axis else Read(self.indices, at)
            for i, (size, expr) in enumerate(zip(source, at, strict=True))
        ]
        return _looked_up(emit, self.input, shape, reads, [axis])

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axis, (x, indices) = self.axis.value.data, dims
        if isinstance(x[axis], OpenSize) or x[axis] == 0:
            return None
        return [indices]


def _expect_within(x: Shape, indices: Shape, axis: int) -> None:
    expect_axis(axis, len(x))
    fits = len(indices) == len(x) and all(
        found <= size for i, (found, size) in enumerate(zip(indices, x, strict=True)) if i != axis
    )
    expect(fits, f"expected indices within {dims(x)} but for axis {axis}, found {dims(indices)}")


@irdl_op_definition
class GatherNdOp(GatherBaseOp):
    """Takes the slices of the input at the positions in the last dimension of `indices`; the first
    `batch_dims` dimensions go along, e.g. `graph.gather_nd %x, %i {batch_dims = 0 : i64} :
    (tensor<8x16x4xf32>, tensor<5x2xi64>) -> tensor<5x4xf32>`.
    """

    name = "graph.gather_nd"

    batch_dims = prop_def(INT)

    def shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        batch = self.batch_dims.value.data
        expect(
            0 <= batch < min(len(x), len(indices)) and x[:batch] == indices[:batch],
            f"expected {batch} equal dimensions first, found {dims(x)} and {dims(indices)}",
        )
        depth = indices[-1]
        expect(
            1 <= depth <= len(x) - batch,
            f"expected positions of 1 to {len(x) - batch} indices, found {depth}",
        )
        return *indices[:-1], *x[batch + depth :]

    def define(self, emit: Emitter) -> SSAValue:
        source, shape = shape_of(self.input.type), shape_of(self.result.type)
        batch, own = self.batch_dims.value.data, shape_of(self.indices.type)
        depth, at = own[-1], Space.over(shape).parallel
        last = batch + depth
        reads = [counter(emit, source[i], at[i]) for i in range(batch)]
        reads += [
            Read(self.indices, [*at[: len(own) - 1], AffineExpr.constant(i)]) for i in range(depth)
        ]
        tail = zip(source[last:], at[len(own) - 1 :], strict=True)
        reads += [counter(emit, size, expr) for size, expr in tail]
        return _looked_up(emit, self.input, shape, reads, range(batch, last))

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        x, indices = dims
        depth = indices[-1]
        if is_open(x) or 0 in x or not isinstance(depth, int) or self.batch_dims.value.data:
            return None
        return [(*indices[:-1], *x[depth:])]


class ScatterBaseOp(GraphOp):
    """Defines what the writes of `updates` into `input` at `indices` share. With reduction `none`
    no place may be written twice."""

    WAY: ClassVar[Way] = Way.EXTERN

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    reduction = prop_def(StringAttr)
    result = result_def(TensorType)

    def is_exact(self) -> bool:
        return self.reduction.data in ("none", "min", "max")

    def updates_shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        """Gives the shape that the updates must have; raises VerifyException."""
        raise NotImplementedError

    def infer(self) -> Sequence[TensorType]:
        element, x = element_type_of(self.input.type), shape_of(self.input.type)
        wanted = tensor(element, self.updates_shape(x, _expect_indices(self.indices)))
        expect(self.updates.type == wanted, f"expected updates {wanted}, found {self.updates.type}")
        found = self.reduction.data
        expect(found in REDUCTIONS, f"expected reduction {', '.join(REDUCTIONS)}, found {found}")
        expect(found == "none" or is_number(element), f"expected numbers, found {element}")
        return [tensor(element, x)]


@irdl_op_definition
class ScatterElementsOp(ScatterBaseOp):
    """Writes `updates` where gather_elements would read, e.g. `graph.scatter_elements %x, %i, %u
    {axis = 1 : i64, reduction = "none"} : (tensor<8x16xf32>, tensor<8x3xi64>, tensor<8x3xf32>) ->
    tensor<8x16xf32>`.
    """

    name = "graph.scatter_elements"

    axis = prop_def(INT)

    def updates_shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        _expect_within(x, indices, self.axis.value.data)
        return indices

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        numbers = {"axis": self.axis.value.data, "how": REDUCTIONS.index(self.reduction.data)}
        return emit.extern("scatter_elements", list(self.operands), [self.result.type], **numbers)


@irdl_op_definition
class ScatterNdOp(ScatterBaseOp):
    """Writes `updates` where gather_nd would read, e.g. `graph.scatter_nd %x, %i, %u {reduction =
    "none"} : (tensor<8x16x4xf32>, tensor<5x2xi64>, tensor<5x4xf32>) -> tensor<8x16x4xf32>`.
    """

    name = "graph.scatter_nd"

    def updates_shape(self, x: Shape, indices: Shape) -> Sequence[int]:
        depth = indices[-1] if indices else 0
        expect(1 <= depth <= len(x), f"expected positions of 1 to {len(x)} indices, found {depth}")
        return *indices[:-1], *x[depth:]

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        how = REDUCTIONS.index(self.reduction.data)
        return emit.extern("scatter_nd", list(self.operands), [self.result.type], how=how)


@irdl_op_definition
class OneHotOp(Exact, GraphOp):
    """Adds a new dimension of size `depth` at `axis`: `values[1]` at the index, `values[0]`
    elsewhere; indices outside give no `values[1]`, e.g. `graph.one_hot %i, %values {axis = 1 : i64,
    depth = 10 : i64} : (tensor<8xi64>, tensor<2xf32>) -> tensor<8x10xf32>`.
    """

    name = "graph.one_hot"

    indices = operand_def(TensorType)
    values = operand_def(TensorType)
    axis = prop_def(INT)
    depth = prop_def(INT)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        x, axis, depth = shape_of(self.indices.type), self.axis.value.data, self.depth.value.data
        element = element_type_of(self.indices.type)
        expect(is_number(element), f"expected indices of numbers, found {element}")
        expect(shape_of(self.values.type) == (2,), f"expected 2 values, found {self.values.type}")
        expect_axis(axis, len(x) + 1)
        expect(depth >= 1, f"expected depth >= 1, found {depth}")
        return [tensor(element_type_of(self.values.type), (*x[:axis], depth, *x[axis:]))]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        kind, axis, depth = (
            element_type_of(self.indices.type),
            self.axis.value.data,
            self.depth.value.data,
        )
        if depth > DEEPEST:
            raise undefined(self, f"a depth of {depth} is more than memory holds")
        wide = kind if is_float(kind) or kind == ui64 else i64
        counter = emit.constant(np.arange(depth).astype(dtype_of(wide)))
        at = Space.over(shape).parallel
        reads = [
            Read(self.indices, [*at[:axis], *at[axis + 1 :]]),
            Read(counter, [at[axis]]),
            Read(self.values, [ZERO]),
            Read(self.values, [ZERO + 1]),
        ]

        def body(i: Emitted, place: Emitted, off: Emitted, on: Emitted) -> Emitted:
            index = i.to(wide)
            if kind == ui64:
                return index.compare("eq", place).select(on, off)
            from_end = index.compare("eq", place - depth)
            return index.compare("eq", place).binary("or", from_end).select(on, off)

        return emit.elementwise(shape, element, reads, body)

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axis, indices = self.axis.value.data, dims[0]
        return [(*indices[:axis], self.depth.value.data, *indices[axis:])]


@irdl_op_definition
class TopKOp(Exact, GraphOp):
    """Finds the `k` greatest elements along `axis`, or least if `largest` is 0, in order, and their
    indices; of equal ones the first, e.g. `graph.top_k %x {axis = 1 : i64, k = 3 : i64, largest = 1
    : i64, sorted = 1 : i64} : (tensor<8x10xf32>) -> (tensor<8x3xf32>, tensor<8x3xi64>)`. Without
    `sorted` the order is not defined.
    """

    name = "graph.top_k"
    WAY: ClassVar[Way] = Way.EXTERN

    input = operand_def(TensorType)
    axis = prop_def(INT)
    k = prop_def(INT)
    largest = prop_def(INT)
    sorted = prop_def(INT)
    values = result_def(TensorType)
    indices = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        x, axis, k = shape_of(self.input.type), self.axis.value.data, self.k.value.data
        element = element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        expect_axis(axis, len(x))
        expect(0 <= k <= x[axis], f"expected k from 0 to {x[axis]}, found {k}")
        expect_flag("largest", self.largest)
        expect_flag("sorted", self.sorted)
        shape = (*x[:axis], k, *x[axis + 1 :])
        return [tensor(element, shape), tensor(i64, shape)]

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        """Emits the routine `top_k`, which gives its results in order also where none is asked
        for."""
        axis, k, largest = (value.value.data for value in (self.axis, self.k, self.largest))
        types = [result.type for result in self.results]
        return emit.extern("top_k", [self.input], types, axis=axis, k=k, largest=largest)

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        axis, x = self.axis.value.data, dims[0]
        if isinstance(x[axis], OpenSize):
            return None
        return [(*x[:axis], self.k.value.data, *x[axis + 1 :])] * 2


def _looked_up(
    emit: Emitter, x: SSAValue, shape: Shape, places: Sequence[Read], indices: Iterable[int]
) -> SSAValue:
    """Looks up elements of an array at these places, one for each dimension. Places along the
    dimensions `indices` may be negative, and then count from the end.
    """
    source = shape_of(x.type)

    def body(*scalars: Emitted) -> Emitted:
        *at, table = scalars
        for i in indices:
            at[i] = at[i].to(i64).wrapped(source[i])
        return table.read(*at)

    return emit.elementwise(shape, element_type_of(x.type), [*places, Read.whole(x)], body)


DEEPEST = 2**32
"""One-hot vectors of more elements are more than memory holds."""

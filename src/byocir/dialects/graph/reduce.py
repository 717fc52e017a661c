"""Defines ops that look along whole dimensions: reductions, softmax and running sums."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    INTS,
    Exact,
    ExactOnIntegers,
    KeepsShape,
    OneInputOp,
    expect_axes,
    expect_axis,
    expect_flag,
    expect_float,
    int_tuple,
    is_number,
)
from byocir.dialects.graph.open_sizes import Dims, Mask, OpenSize, without
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.graph.reducing import Step, along, extreme, greatest, lowest, others, reduced
from byocir.dialects.graph.unary import absolute
from byocir.dialects.tir.emit import ZERO, Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted, Number
from byocir.dialects.types import (
    Shape,
    element_type_of,
    i64,
    is_float,
    is_unsigned,
    shape_of,
    tensor,
)


class FromLowest:
    """Marks ops that the least number of their input's type changes nothing of. Put before a class
    with `neutral`.
    """

    def neutral(self) -> Number:
        assert isinstance(self, OneInputOp)
        return lowest(element_type_of(self.input.type))


class ReduceOp(OneInputOp):
    """Defines what reductions along `axes` share: these axes stay with size 1 if `keepdims` is 1;
    elements are floats, unless a subclass says otherwise."""

    axes = prop_def(INTS)
    keepdims = prop_def(INT)

    def element(self) -> Attribute:
        """Gives the result's element type; raises VerifyException for an input that is not
        allowed."""
        return expect_float(self.input)

    def infer(self) -> Sequence[TensorType]:
        x, axes = shape_of(self.input.type), int_tuple(self.axes)
        expect_axes(axes, len(x))
        keep = expect_flag("keepdims", self.keepdims)
        kept = [1 if i in axes else d for i, d in enumerate(x) if keep or i not in axes]
        return [tensor(self.element(), kept)]

    def neutral(self) -> Number:
        """Gives the number that changes no result."""
        return 0

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        return [without(dims[0], int_tuple(self.axes), self.keepdims.value.data)]

    def masks(self) -> Sequence[Mask]:
        return [Mask(0, int_tuple(self.axes), self.neutral())]


class NumberReduceOp(ReduceOp):
    """Defines what the reductions share that take all numbers."""

    def element(self) -> Attribute:
        element = element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        return element


class ExtremeReduceOp(Exact, NumberReduceOp):
    """Defines what the reductions share that give one of the elements."""

    def element(self) -> Attribute:
        x, axes = shape_of(self.input.type), int_tuple(self.axes)
        expect(all(x[axis] for axis in axes), "expected elements to choose from, found none")
        return super().element()


@irdl_op_definition
class ReduceSumOp(ExactOnIntegers, NumberReduceOp):
    """Computes the sum along `axes`, e.g. `graph.reduce_sum %x {axes = array<i64: 2, 3>, keepdims =
    0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_sum"

    def define(self, emit: Emitter) -> SSAValue:
        return _reduction(emit, self)


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """Computes the mean along `axes`, e.g. `graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims
    = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_mean"

    def define(self, emit: Emitter) -> SSAValue:
        """Divides the sum, in a type that is wide enough, by the number of elements; the mean of
        nothing is 0.
        """
        element, source = element_type_of(self.result.type), shape_of(self.input.type)
        wide, count = (
            accumulator_of(element),
            prod(source[axis] for axis in int_tuple(self.axes)) or 1,
        )
        return _finished(
            emit, self, 0, wide, lambda x, acc: acc + x.to(wide), lambda x: (x / count).to(element)
        )


@irdl_op_definition
class ReduceMaxOp(FromLowest, ExtremeReduceOp):
    """Gives the greatest element along `axes`, e.g. `graph.reduce_max %x {axes = array<i64: 2, 3>,
    keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_max"

    def define(self, emit: Emitter) -> SSAValue:
        return _extreme(emit, self, "max")


@irdl_op_definition
class ReduceMinOp(ExtremeReduceOp):
    """Gives the least element along `axes`, e.g. `graph.reduce_min %x {axes = array<i64: 2, 3>,
    keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_min"

    def define(self, emit: Emitter) -> SSAValue:
        return _extreme(emit, self, "min")

    def neutral(self) -> Number:
        return greatest(element_type_of(self.input.type))


@irdl_op_definition
class ReduceProdOp(ExactOnIntegers, NumberReduceOp):
    """Computes the product along `axes`, e.g. `graph.reduce_prod %x {axes = array<i64: 2, 3>,
    keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_prod"

    def define(self, emit: Emitter) -> SSAValue:
        return _reduction(emit, self, combine="mul")

    def neutral(self) -> Number:
        return 1


@irdl_op_definition
class ReduceL1Op(ExactOnIntegers, NumberReduceOp):
    """Computes the sum of absolute values along `axes`, e.g. `graph.reduce_l1 %x {axes = array<i64:
    2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_l1"

    def define(self, emit: Emitter) -> SSAValue:
        return _reduction(emit, self, absolute)


@irdl_op_definition
class ReduceL2Op(ReduceOp):
    """Computes the square root of the sum of squares along `axes`, e.g. `graph.reduce_l2 %x {axes =
    array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_l2"

    def define(self, emit: Emitter) -> SSAValue:
        return _reduction(emit, self, lambda x: x * x, finish=lambda x: x.sqrt())


@irdl_op_definition
class ReduceSumSquareOp(ExactOnIntegers, NumberReduceOp):
    """Computes the sum of squares along `axes`, e.g. `graph.reduce_sum_square %x {axes = array<i64:
    2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_sum_square"

    def define(self, emit: Emitter) -> SSAValue:
        return _reduction(emit, self, lambda x: x * x)


@irdl_op_definition
class ReduceLogSumOp(ReduceOp):
    """Computes the logarithm of the sum along `axes`, e.g. `graph.reduce_log_sum %x {axes =
    array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_log_sum"

    def define(self, emit: Emitter) -> SSAValue:
        return _reduction(emit, self, finish=lambda x: x.log())


@irdl_op_definition
class ReduceLogSumExpOp(FromLowest, ReduceOp):
    """Computes the logarithm of the sum of `e^x` along `axes`, e.g. `graph.reduce_log_sum_exp %x
    {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`.
    """

    name = "graph.reduce_log_sum_exp"

    def define(self, emit: Emitter) -> SSAValue:
        """Makes blocks that subtract the greatest value first, which keeps exp from overflowing;
        one that is infinite is not subtracted, for `inf - inf` is NaN."""
        source, axes = shape_of(self.input.type), int_tuple(self.axes)
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        if 0 in source:
            return emit.fill(-inf, element, shape)
        wide = accumulator_of(element)
        most = _most(emit, self.input, axes, wide)
        rest = shape_of(most.type)

        def finite(m: Emitted) -> Emitted:
            infinite = m.compare("eq", inf).binary("or", m.compare("eq", -inf))
            return infinite.select(m.constant(0), m)

        shift = emit.elementwise(rest, wide, [most], finite)
        total = _sum_of_powers(emit, self.input, shift, axes, wide)
        logs = emit.elementwise(
            rest, element, [total, shift], lambda s, m: (s.log() + m).to(element)
        )
        return logs if shape == rest else _with_ones(emit, logs, shape, axes)


class ArgOp(Exact, OneInputOp):
    """Defines what searches along one axis for the index of the greatest or least element share: of
    several equal ones they give the first, or the last if `select_last_index` is 1.
    """

    axis = prop_def(INT)
    keepdims = prop_def(INT)
    select_last_index = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        x, axis = list(shape_of(self.input.type)), self.axis.value.data
        element = element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        expect_axis(axis, len(x))
        expect(x[axis] > 0, "expected elements to choose from, found none")
        expect_flag("select_last_index", self.select_last_index)
        kept = [1] if expect_flag("keepdims", self.keepdims) else []
        return [tensor(i64, [*x[:axis], *kept, *x[axis + 1 :]])]

    @abstractmethod
    def neutral(self) -> Number:
        """Gives the number that is chosen last."""

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        # The first of equal elements is never beside the array, the last may be.
        axis = self.axis.value.data
        if isinstance(dims[0][axis], OpenSize) and self.select_last_index.value.data:
            return None
        return [without(dims[0], [axis], self.keepdims.value.data)]

    def masks(self) -> Sequence[Mask]:
        # A run in which there is none to choose from ends.
        return [Mask(0, [self.axis.value.data], self.neutral(), routine="not_empty")]


@irdl_op_definition
class ArgMaxOp(FromLowest, ArgOp):
    """Gives the index of the greatest element along `axis`, e.g. `graph.arg_max %x {axis = 1 : i64,
    keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<8x10xf32>) -> tensor<8xi64>`.
    """

    name = "graph.arg_max"

    def define(self, emit: Emitter) -> SSAValue:
        return _arg(emit, self, "max")


@irdl_op_definition
class ArgMinOp(ArgOp):
    """Gives the index of the least element along `axis`, e.g. `graph.arg_min %x {axis = 1 : i64,
    keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<8x10xf32>) -> tensor<8xi64>`.
    """

    name = "graph.arg_min"

    def define(self, emit: Emitter) -> SSAValue:
        return _arg(emit, self, "min")

    def neutral(self) -> Number:
        return greatest(element_type_of(self.input.type))


class AlongOp(KeepsShape, OneInputOp):
    """Defines what ops on floats share that keep the shape and look along one axis."""

    axis = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect_axis(self.axis.value.data, len(x))
        return [tensor(expect_float(self.input), x)]

    def neutral(self) -> Number:
        """Gives the number that changes no result beside it."""
        return 0

    def masks(self) -> Sequence[Mask]:
        return [Mask(0, [self.axis.value.data], self.neutral())]


@irdl_op_definition
class SoftmaxOp(FromLowest, AlongOp):
    """Computes `exp(x) / sum(exp(x))` along one axis, e.g. `graph.softmax %x {axis = 1 : i64} :
    (tensor<8x10xf32>) -> tensor<8x10xf32>`.
    """

    name = "graph.softmax"

    def define(self, emit: Emitter) -> SSAValue:
        """Makes blocks that subtract the greatest value first, which keeps exp from overflowing."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axis = accumulator_of(element), self.axis.value.data
        most = _most(emit, self.input, [axis], wide)
        at = others(len(shape), [axis])
        powers = emit.elementwise(
            shape, wide, [self.input, Read(most, at)], lambda x, m: (x.to(wide) - m).exp()
        )
        total = reduced(emit, [powers], shape, [axis], 0, wide, lambda x, acc: acc + x)
        return emit.elementwise(
            shape, element, [powers, Read(total, at)], lambda x, s: (x / s).to(element)
        )


@irdl_op_definition
class LogSoftmaxOp(FromLowest, AlongOp):
    """Computes `log(exp(x) / sum(exp(x)))` along one axis, e.g. `graph.log_softmax %x {axis = 1 :
    i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`.
    """

    name = "graph.log_softmax"

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axis = accumulator_of(element), self.axis.value.data
        most = _most(emit, self.input, [axis], wide)
        total = _sum_of_powers(emit, self.input, most, [axis], wide)
        at = others(len(shape), [axis])

        def body(x: Emitted, m: Emitted, s: Emitted) -> Emitted:
            return ((x.to(wide) - m) - s.log()).to(element)

        return emit.elementwise(shape, element, [self.input, Read(most, at), Read(total, at)], body)


@irdl_op_definition
class HardmaxOp(FromLowest, Exact, AlongOp):
    """Gives 1 at the first greatest element, else 0, along one axis, e.g. `graph.hardmax %x {axis =
    1 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`.
    """

    name = "graph.hardmax"

    def define(self, emit: Emitter) -> SSAValue:
        shape, element, axis = (
            shape_of(self.result.type),
            element_type_of(self.input.type),
            self.axis,
        )
        axis = self.axis.value.data
        if 0 in shape:
            return emit.empty(element, shape)
        found = _index_of(emit, self.input, axis, "max", last=False)
        counter = emit.constant(np.arange(shape[axis], dtype=np.int64))
        here = Space.over(shape).parallel[axis]
        reads = [Read(found, others(len(shape), [axis])), Read(counter, [here])]
        return emit.elementwise(
            shape, element, reads, lambda place, i: place.compare("eq", i).to(element)
        )


@irdl_op_definition
class LpNormOp(AlongOp):
    """Divides the input by its norm along `axis`: the sum of absolute values with `p = 1`, the root
    of the sum of squares with `p = 2`; 0 where the norm is 0, e.g. `graph.lp_norm %x {axis = 1 :
    i64, p = 2 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`.
    """

    name = "graph.lp_norm"

    p = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        expect(self.p.value.data in (1, 2), f"expected p 1 or 2, found {self.p.value.data}")
        return super().infer()

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axis, p = accumulator_of(element), self.axis.value.data, self.p.value.data

        def add(x: Emitted, acc: Emitted) -> Emitted:
            value = x.to(wide)
            return acc + (value.abs() if p == 1 else value * value)

        total = reduced(emit, [self.input], shape, [axis], 0, wide, add)

        def body(x: Emitted, total: Emitted) -> Emitted:
            norm = total if p == 1 else total.sqrt()
            return norm.compare("eq", 0).select(norm, x.to(wide) / norm).to(element)

        return emit.elementwise(
            shape, element, [self.input, Read(total, others(len(shape), [axis]))], body
        )


@irdl_op_definition
class CumSumOp(KeepsShape, ExactOnIntegers, OneInputOp):
    """Sums the elements up to each one along `axis`, without itself if `exclusive` is 1, from the
    end if `reverse` is 1, e.g. `graph.cum_sum %x {axis = 1 : i64, exclusive = 0 : i64, reverse = 0
    : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`.
    """

    name = "graph.cum_sum"

    axis = prop_def(INT)
    exclusive = prop_def(INT)
    reverse = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        x, element = shape_of(self.input.type), element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        expect_axis(self.axis.value.data, len(x))
        expect_flag("exclusive", self.exclusive)
        expect_flag("reverse", self.reverse)
        return [tensor(element, x)]

    def define(self, emit: Emitter) -> SSAValue:
        """Makes the sum, at each place, of the elements that a guard lets through."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide = i64 if is_unsigned(element) else accumulator_of(element)
        axis = self.axis.value.data
        space = Space({f"i{i}": size for i, size in enumerate(shape)}, {"r": shape[axis]})
        index = list(space.parallel)
        at, other = index[axis], space["r"]
        index[axis] = other
        before = other + at * -1 if self.reverse.value.data else at + other * -1
        init = emit.fill(0, wide, shape)

        def add(x: Emitted, acc: Emitted) -> Emitted:
            return acc + x.to(wide)

        where = [before - self.exclusive.value.data]
        total = emit.block(space, [Read(self.input, index)], init, add, where=where)
        return emit.elementwise(shape, element, [total], lambda x: x.to(element))

    def masks(self) -> Sequence[Mask]:
        return [Mask(0, [self.axis.value.data])]


def _reduction(
    emit: Emitter,
    op: ReduceOp,
    term: Callable[[Emitted], Emitted] = lambda x: x,
    combine: str = "add",
    finish: Callable[[Emitted], Emitted] = lambda x: x,
) -> SSAValue:
    """Emits `finish` of the sum or product of `term` of all elements. Unsigned integers are
    combined in a signed type: the low bits are the same.
    """
    element = element_type_of(op.result.type)
    wide = i64 if is_unsigned(element) else accumulator_of(element)
    initial = 0 if combine == "add" else 1

    def body(x: Emitted, acc: Emitted) -> Emitted:
        return acc.binary(combine, term(x.to(wide)))

    return _finished(emit, op, initial, wide, body, lambda x: finish(x).to(element))


def _extreme(emit: Emitter, op: ReduceOp, name: str) -> SSAValue:
    element = element_type_of(op.result.type)
    initial, step = extreme(name, element)
    return _finished(emit, op, initial, element, step, None)


def _finished(
    emit: Emitter,
    op: ReduceOp,
    initial: Number,
    wide: Attribute,
    body: Step,
    finish: Callable[[Emitted], Emitted] | None,
) -> SSAValue:
    """Emits a reduction, its axes kept or dropped as the op says, and `finish` of its results."""
    source, axes = shape_of(op.input.type), int_tuple(op.axes)
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    space, index = along(source, axes)
    keeps = len(shape) == len(source)
    out = [ZERO if axis in axes else index[axis] for axis in range(len(source))]
    init = emit.fill(initial, wide, shape)
    total = emit.block(space, [Read(op.input, index)], init, body, out if keeps else None)
    if finish is None:
        return total
    return emit.elementwise(shape, element, [total], finish)


def _with_ones(emit: Emitter, value: SSAValue, shape: Shape, axes: Sequence[int]) -> SSAValue:
    read = Read(value, others(len(shape), axes))
    return emit.elementwise(shape, element_type_of(value.type), [read], lambda x: x)


def _most(emit: Emitter, value: SSAValue, axes: Sequence[int], wide: Attribute) -> SSAValue:
    """Finds the greatest value along these axes, which the result lacks."""
    return reduced(
        emit,
        [value],
        shape_of(value.type),
        axes,
        lowest(wide),
        wide,
        lambda x, acc: acc.max(x.to(wide)),
    )


def _sum_of_powers(
    emit: Emitter, value: SSAValue, shift: SSAValue, axes: Sequence[int], wide: Attribute
) -> SSAValue:
    """Sums `e^(x - shift)` along these axes, which both the result and the shift lack."""
    shape = shape_of(value.type)
    _, index = along(shape, axes)
    at = [expr for axis, expr in enumerate(index) if axis not in axes]

    def body(x: Emitted, m: Emitted, acc: Emitted) -> Emitted:
        return acc + (x.to(wide) - m).exp()

    return reduced(emit, [value, Read(shift, at)], shape, axes, 0, wide, body)


def _arg(emit: Emitter, op: ArgOp, name: str) -> SSAValue:
    axis, last = op.axis.value.data, bool(op.select_last_index.value.data)
    found = _index_of(emit, op.input, axis, name, last=last)
    shape = shape_of(op.result.type)
    if not op.keepdims.value.data:
        return found
    return emit.elementwise(
        shape, i64, [Read(found, others(len(shape), [axis]))], lambda place: place
    )


def _index_of(emit: Emitter, value: SSAValue, axis: int, name: str, *, last: bool) -> SSAValue:
    """Finds the index of the greatest or least element along an axis, which the result lacks: it
    takes the least, or with `last` the greatest, index of an element that equals the extreme. NaN
    is beyond all others.
    """
    shape, element = shape_of(value.type), element_type_of(value.type)
    initial, step = extreme(name, element)
    most = reduced(emit, [value], shape, [axis], initial, element, step)
    space, index = along(shape, [axis])
    counter = emit.constant(np.arange(shape[axis], dtype=np.int64))
    nowhere = -1 if last else shape[axis]
    at = [expr for i, expr in enumerate(index) if i != axis]

    def body(x: Emitted, m: Emitted, place: Emitted, acc: Emitted) -> Emitted:
        found = x.compare("eq", m)
        if is_float(element):
            found = found.binary("or", x.compare("ne", x))
        here = found.select(place, nowhere)
        return acc.max(here) if last else acc.min(here)

    reads = [Read(value, index), Read(most, at), Read(counter, [space[f"r{axis}"]])]
    return reduced(emit, reads, shape, [axis], nowhere, i64, body)

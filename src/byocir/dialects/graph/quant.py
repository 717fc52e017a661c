"""Defines quantize, dequantize and requantize, and how the last rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
from xdsl.dialects.builtin import IntAttr, IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.array import known_values
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    Exact,
    GraphOp,
    KeepsShape,
    broadcast,
    dims,
    expect_axis,
    expect_float,
)
from byocir.dialects.graph.fixed_point import Rounding
from byocir.dialects.graph.operands import accumulator_of, axis_read
from byocir.dialects.intervals import integer_range
from byocir.dialects.tir.bodies import saturate, scale_floor, scale_round, scale_round_even
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import (
    Shape,
    dtype_of,
    element_type_of,
    f32,
    i8,
    i16,
    i32,
    shape_of,
    tensor,
    ui8,
    ui16,
)

HALF_UP, FLOOR = "half_up", "floor"

MAX_SHIFT = 62


@irdl_attr_definition
class FloatHalfEvenAttr(ParametrizedAttribute):
    """Requantises as `#graph.float_half_even`: multiplies and divides in f32 and rounds half to
    even, exactly as ONNX's QuantizeLinear of DequantizeLinear does; with one scale, it only
    multiplies.
    """

    name = "graph.float_half_even"


@irdl_attr_definition
class FixedAttr(ParametrizedAttribute):
    """Requantises as `#graph.fixed<shift = 23, half_up>`: multiplies by an integer and divides by
    2^shift, in exact integer arithmetic, rounding half up, half to even, or down (`floor`)."""

    name = "graph.fixed"

    shift: IntAttr
    ties: StringAttr

    @staticmethod
    def of(shift: int, ties: str = HALF_UP) -> FixedAttr:
        return FixedAttr(IntAttr(shift), StringAttr(ties))

    def verify(self) -> None:
        shift, ties = self.shift.data, self.ties.data
        if not 0 <= shift <= MAX_SHIFT:
            raise VerifyException(f"expected shift from 0 to {MAX_SHIFT}, found {shift}")
        known = get_args(Rounding)
        if ties not in known:
            raise VerifyException(f"expected {', '.join(known)}, found {ties}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("shift")
            parser.parse_punctuation("=")
            shift = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            ties = parser.parse_identifier()
        return IntAttr(shift), StringAttr(ties)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"shift = {self.shift.data}, {self.ties.data}")


def _expect_scale(value: SSAValue, scale: SSAValue, zero_point: SSAValue, axis: int) -> None:
    """Raises VerifyException unless scale and zero point are scalars, or have one value for each
    index of `axis`.
    """
    x, s = shape_of(value.type), shape_of(scale.type)
    expect(
        shape_of(zero_point.type) == s,
        lambda: (
            f"expected scale and zero point of one shape, found {dims(s)} and "
            f"{dims(shape_of(zero_point.type))}"
        ),
    )
    if s:
        expect_axis(axis, len(x))
        expect(s == (x[axis],), f"expected a scale of shape {x[axis]} or scalar, found {dims(s)}")


class ScaledOp(KeepsShape, GraphOp):
    """Defines what ops share that convert with a scale and a zero point: there is one of each, or
    one for each index of an axis.
    """

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = operand_def(TensorType)
    axis = prop_def(INT)
    result = result_def(TensorType)


@irdl_op_definition
class QuantizeOp(Exact, ScaledOp):
    """Computes `saturate(round(x / scale) + zero_point)`, rounding half to even, e.g.
    `graph.quantize %x, %scale, %zero_point {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>,
    tensor<i8>) -> tensor<1x4xi8>`. With a scale of rank 1, `axis` is the dimension it goes along;
    with a scalar one it has no meaning and is 1.
    """

    name = "graph.quantize"

    def infer(self) -> Sequence[TensorType]:
        source, scale = expect_float(self.input), expect_float(self.scale)
        expect(source == scale, lambda: f"expected a scale of {source}, found {scale}")
        _expect_scale(self.input, self.scale, self.zero_point, self.axis.value.data)
        element = element_type_of(self.zero_point.type)
        expect(
            element in (i8, ui8, i16, ui16),
            lambda: f"expected a zero point of 8-bit or 16-bit integers, found {element}",
        )
        return [tensor(element, shape_of(self.input.type))]

    def define(self, emit: Emitter) -> SSAValue:
        """Emits a block that clamps rounded values before they become integers, for floats may be
        far outside. A NaN becomes the least of all, which the zero point must not wrap around."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axis = accumulator_of(element_type_of(self.input.type)), self.axis.value.data
        low, high = integer_range(element)
        reads = [self.input, axis_read(self.scale, axis)]
        if _is_zero(self.zero_point):
            return emit.elementwise(
                shape,
                element,
                reads,
                lambda x, s: saturate((x / s).roundeven().to(wide), low, high, to=element),
            )

        def body(x: Emitted, scale: Emitted, zero: Emitted) -> Emitted:
            steps = (x / scale).roundeven().to(wide).clamp(-_FAR, _FAR).to(i32).max(-_FAR)
            return saturate(steps + zero.to(i32), low, high, to=element)

        return emit.elementwise(shape, element, [*reads, axis_read(self.zero_point, axis)], body)


@irdl_op_definition
class DequantizeOp(ScaledOp):
    """Computes `(x - zero_point) * scale`, e.g. `graph.dequantize %x, %scale, %zero_point {axis = 1
    : i64} : (tensor<1x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x4xf32>`. `axis` is as in
    `graph.quantize`.
    """

    name = "graph.dequantize"

    def infer(self) -> Sequence[TensorType]:
        element = expect_float(self.scale)
        _expect_scale(self.input, self.scale, self.zero_point, self.axis.value.data)
        source, zero = element_type_of(self.input.type), element_type_of(self.zero_point.type)
        expect(source == zero, lambda: f"expected a zero point of {source}, found {zero}")
        expect(
            source in (i8, ui8, i16, ui16, i32),
            lambda: f"expected an input of 8-bit, 16-bit or 32-bit integers, found {source}",
        )
        return [tensor(element, shape_of(self.input.type))]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axis = accumulator_of(element), self.axis.value.data
        scale = axis_read(self.scale, axis)
        if _is_zero(self.zero_point):
            return emit.elementwise(
                shape,
                element,
                [self.input, scale],
                lambda x, s: (x.to(wide) * s.to(wide)).to(element),
            )

        def body(x: Emitted, scale: Emitted, zero: Emitted) -> Emitted:
            return ((x.to(wide) - zero.to(wide)) * scale.to(wide)).to(element)

        reads = [self.input, scale, axis_read(self.zero_point, axis)]
        return emit.elementwise(shape, element, reads, body)


def _expect_broadcast_scale(value: SSAValue, element: Attribute, shape: Shape) -> None:
    """Raises VerifyException unless scales are of this element type, and broadcast to this
    shape.
    """
    found, own = element_type_of(value.type), shape_of(value.type)
    expect(found == element, lambda: f"expected scales of {element}, found {found}")
    expect(
        broadcast(shape, own) == shape,
        lambda: f"expected scales that broadcast to {dims(shape)}, found {dims(own)}",
    )


@irdl_op_definition
class RequantizeOp(KeepsShape, Exact, GraphOp):
    """Brings integers on one grid to another grid, saturating, e.g. `graph.requantize %x, %m
    {rounding = #graph.fixed<shift = 23, half_up>, to = i8} : (tensor<1x4xi32>, tensor<4xi32>) ->
    tensor<1x4xi8>`. The scales broadcast to the input. With `#graph.float_half_even` they are the
    f32 scales before and after, or one alone, the factor between the two; with `#graph.fixed` there
    is one, the i32 multiplier. `zero_point` is added to what was rounded, before it saturates.
    """

    name = "graph.requantize"

    input = operand_def(TensorType)
    scales = var_operand_def(TensorType)
    rounding = prop_def(FloatHalfEvenAttr | FixedAttr)
    to = prop_def(Attribute, default_value=i8)
    zero_point = prop_def(INT, default_value=IntegerAttr(0, i64))
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        x, source = shape_of(self.input.type), element_type_of(self.input.type)
        expect(
            source in (i8, ui8, i32),
            lambda: f"expected an input of 8-bit or 32-bit, found {source}",
        )
        fixed = isinstance(self.rounding, FixedAttr)
        scale, most = (i32, 1) if fixed else (f32, 2)
        expect(
            1 <= len(self.scales) <= most,
            lambda: (
                f"expected {'1 scale' if fixed else '1 or 2 scales'} for {self.rounding}, found "
                f"{len(self.scales)}"
            ),
        )
        for value in self.scales:
            _expect_broadcast_scale(value, scale, x)
        # ONNX's QuantizeLinear, which float_half_even equals, does not write i32.
        allowed = (i8, ui8, i32) if fixed else (i8, ui8)
        expect(
            self.to in allowed,
            lambda: f"expected a result of {' or '.join(map(str, allowed))}, found {self.to}",
        )
        self._check_zero_point()
        return [tensor(self.to, x)]

    def _check_zero_point(self) -> None:
        zero, limits = self.zero_point.value.data, np.iinfo(dtype_of(self.to))
        expect(
            limits.min <= zero <= limits.max,
            lambda: f"expected a zero point of {self.to}, found {zero}",
        )

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        low, high = integer_range(element)
        rounding, zero = self.rounding, self.zero_point.value.data

        def in_float(x: Emitted, scale: Emitted, *after: Emitted) -> Emitted:
            scaled = x.to(f32) * scale
            steps = (scaled / after[0] if after else scaled).roundeven()
            if zero == 0:
                return saturate(steps, low, high, to=element)
            inside = steps.clamp(low - zero, high - zero).to(i32)
            return (inside.max(low - zero) + zero).to(element)  # NaN becomes the least integer

        def in_integers(x: Emitted, multiplier: Emitted) -> Emitted:
            return rescaled(x, multiplier, self)

        if _only_moves(self):
            return emit.elementwise(
                shape, element, [self.input], lambda x: (x.to(i32) + zero).to(element)
            )
        body = in_integers if isinstance(rounding, FixedAttr) else in_float
        return emit.elementwise(shape, element, [self.input, *self.scales], body)


def rescaled(x: Emitted, multiplier: Emitted, op: RequantizeOp) -> Emitted:
    """Computes what a requantize in fixed point makes of a number."""
    assert isinstance(op.rounding, FixedAttr)
    low, high = integer_range(op.to)
    found = _rescale(x, multiplier, op.rounding, op.zero_point.value.data)
    return saturate(found, low, high, to=op.to)


_FAR = 2**17
"""Beyond this a quantised value is saturated, whatever its zero point of 16 bits."""


def _is_zero(value: SSAValue) -> bool:
    """Tells if this is known to be a constant of zeros."""
    values = known_values(value)
    return values is not None and not np.any(values)


def _only_moves(op: RequantizeOp) -> bool:
    """Tells if all that a requantize does is to add its zero point to bytes, without saturating
    any.
    """
    fixed, source = op.rounding, element_type_of(op.input.type)
    if not isinstance(fixed, FixedAttr) or fixed.shift.data or source == i32:
        return False
    factor, zero, (low, high) = (
        known_values(op.scales[0]),
        op.zero_point.value.data,
        integer_range(op.to),
    )
    inside = all(low <= end + zero <= high for end in integer_range(source))
    return zero != 0 and inside and factor is not None and bool(np.all(factor == 1))


_ROOM = 2**61
"""Bounds what joins the rounding constant: products have up to 62 bits, half of 2^62 joins, too."""


def _rescale(x: Emitted, multiplier: Emitted, rounding: FixedAttr, zero: int) -> Emitted:
    """Computes `x * multiplier / 2^shift + zero` in i64, rounded; shift 0 needs no rounding. The
    zero point joins the constant that rounds half up; with ties to even an odd one would turn them
    around.
    """
    shift = rounding.shift.data
    if shift == 0:
        return _plus(x.to(i64) * multiplier.to(i64), zero)
    if rounding.ties.data == FLOOR:
        return _plus(scale_floor(x, multiplier, shift), zero)
    half = 1 << (shift - 1)
    if rounding.ties.data != HALF_UP:
        return _plus(scale_round_even(x, multiplier, half - 1, shift), zero)
    if abs(zero) << shift > _ROOM:
        return _plus(scale_round(x, multiplier, half, shift), zero)
    return scale_round(x, multiplier, half + (zero << shift), shift)


def _plus(value: Emitted, zero: int) -> Emitted:
    return value + zero if zero else value

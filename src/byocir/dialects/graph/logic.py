"""Defines comparisons, logic and operations on bits, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    Exact,
    KeepsShape,
    OneInputOp,
    expect_flag,
    expect_float,
    may_lack,
    undefined,
)
from byocir.dialects.graph.elementwise import BinaryOp
from byocir.dialects.graph.unary import UnaryOp
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import (
    i1,
    i64,
    is_integer,
    shape_of,
    tensor,
    ui8,
    ui16,
    ui32,
    ui64,
    width_of,
)

# -- comparisons


class CompareOp(Exact, BinaryOp):
    """Defines what comparisons of two tensors share: the tensors broadcast, and booleans
    come out."""

    def element(self, operand: Attribute) -> Attribute:
        return i1


@irdl_op_definition
class EqualOp(CompareOp):
    """Tests if two elements are equal; NaN equals nothing, e.g. `graph.equal %a, %b :
    (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xi1>`."""

    name = "graph.equal"

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        expect(lhs == rhs, f"expected operands of one element type, found {lhs} and {rhs}")

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.compare("eq", y)


@irdl_op_definition
class LessOp(CompareOp):
    """Tests if the left element is less than the right one, e.g. `graph.less %a, %b :
    (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xi1>`."""

    name = "graph.less"

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.compare("lt", y)


@irdl_op_definition
class LessOrEqualOp(CompareOp):
    """Tests if the left element is at most the right one, e.g. `graph.less_or_equal %a, %b :
    (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xi1>`."""

    name = "graph.less_or_equal"

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.compare("le", y)


@irdl_op_definition
class GreaterOp(CompareOp):
    """Tests if the left element is greater than the right one, e.g. `graph.greater %a, %b :
    (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xi1>`."""

    name = "graph.greater"

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.compare("gt", y)


@irdl_op_definition
class GreaterOrEqualOp(CompareOp):
    """Tests if the left element is at least the right one, e.g. `graph.greater_or_equal %a, %b :
    (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xi1>`."""

    name = "graph.greater_or_equal"

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.compare("ge", y)


class ClassifyOp(KeepsShape, Exact, OneInputOp):
    """Defines what tests of single floats share: they make booleans of a tensor of floats."""

    def infer(self) -> Sequence[TensorType]:
        expect_float(self.input)
        return [tensor(i1, shape_of(self.input.type))]

    @may_lack
    def body(self, x: Emitted) -> Emitted:
        """Tests one element."""
        raise undefined(self, "it has no definition")

    def define(self, emit: Emitter) -> SSAValue:
        return emit.elementwise(shape_of(self.result.type), i1, [self.input], self.body)


@irdl_op_definition
class IsNanOp(ClassifyOp):
    """Tests if an element is NaN, e.g. `graph.is_nan %x : (tensor<8x4xf32>) -> tensor<8x4xi1>`."""

    name = "graph.is_nan"

    def body(self, x: Emitted) -> Emitted:
        return x.compare("ne", x)


@irdl_op_definition
class IsInfOp(ClassifyOp):
    """Tests if an element is an infinity that the flags ask for, e.g. `graph.is_inf %x
    {detect_negative = 1 : i64, detect_positive = 1 : i64} : (tensor<8x4xf32>) ->
    tensor<8x4xi1>`."""

    name = "graph.is_inf"

    detect_negative = prop_def(INT)
    detect_positive = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        expect_flag("detect_negative", self.detect_negative)
        expect_flag("detect_positive", self.detect_positive)
        return super().infer()

    def body(self, x: Emitted) -> Emitted:
        flags = (self.detect_negative, self.detect_positive)
        numbers = zip(flags, (-math.inf, math.inf), strict=True)
        asked = [number for flag, number in numbers if flag.value.data]
        result = x.compare("eq", asked[0]) if asked else x.compare("lt", -math.inf)
        for number in asked[1:]:
            result = result.binary("or", x.compare("eq", number))
        return result


# -- logic


class BitsOp(Exact, BinaryOp):
    """Defines what the ops share that combine the bits of two elements, as the last word of their
    name says."""

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        operator = self.name.removeprefix("graph.").removeprefix("bitwise_")
        return x.signless().binary(operator, y.signless()).cast(x.type)


class LogicOp(BitsOp):
    """Defines what the ops on two tensors of booleans share: the tensors broadcast."""

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        expect(lhs == rhs == i1, f"expected operands of i1, found {lhs} and {rhs}")


@irdl_op_definition
class AndOp(LogicOp):
    """Tests if both elements are true, e.g. `graph.and %a, %b : (tensor<8x4xi1>, tensor<4xi1>) ->
    tensor<8x4xi1>`."""

    name = "graph.and"


@irdl_op_definition
class OrOp(LogicOp):
    """Tests if either element is true, e.g. `graph.or %a, %b : (tensor<8x4xi1>, tensor<4xi1>) ->
    tensor<8x4xi1>`."""

    name = "graph.or"


@irdl_op_definition
class XorOp(LogicOp):
    """Tests if exactly one element is true, e.g. `graph.xor %a, %b : (tensor<8x4xi1>, tensor<4xi1>)
    -> tensor<8x4xi1>`."""

    name = "graph.xor"


@irdl_op_definition
class NotOp(Exact, UnaryOp):
    """Tests if an element is false, e.g. `graph.not %x : (tensor<8x4xi1>) -> tensor<8x4xi1>`."""

    name = "graph.not"

    def check(self, element: Attribute) -> None:
        expect(element == i1, f"expected an input of i1, found {element}")

    def body(self, x: Emitted) -> Emitted:
        return x.signless().binary("xor", 1)


# -- bits


class BitwiseOp(BitsOp):
    """Defines what the ops on the bits of two tensors of integers share: the tensors broadcast."""

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        super().check(lhs, rhs)
        expect(is_integer(lhs), f"expected operands of integers, found {lhs}")


@irdl_op_definition
class BitwiseAndOp(BitwiseOp):
    """Keeps the bits that are set in both, e.g. `graph.bitwise_and %a, %b : (tensor<8x4xi32>,
    tensor<4xi32>) -> tensor<8x4xi32>`.
    """

    name = "graph.bitwise_and"


@irdl_op_definition
class BitwiseOrOp(BitwiseOp):
    """Sets the bits that are set in one or both, e.g. `graph.bitwise_or %a, %b : (tensor<8x4xi32>,
    tensor<4xi32>) -> tensor<8x4xi32>`.
    """

    name = "graph.bitwise_or"


@irdl_op_definition
class BitwiseXorOp(BitwiseOp):
    """Sets the bits that are set in one only, e.g. `graph.bitwise_xor %a, %b : (tensor<8x4xi32>,
    tensor<4xi32>) -> tensor<8x4xi32>`.
    """

    name = "graph.bitwise_xor"


@irdl_op_definition
class BitwiseNotOp(Exact, UnaryOp):
    """Inverts each bit, e.g. `graph.bitwise_not %x : (tensor<8x4xi32>) -> tensor<8x4xi32>`."""

    name = "graph.bitwise_not"

    def check(self, element: Attribute) -> None:
        expect(
            is_integer(element) and element != i1, f"expected an input of integers, found {element}"
        )

    def body(self, x: Emitted) -> Emitted:
        return x.signless().binary("xor", -1).cast(x.type)


@irdl_op_definition
class BitShiftOp(Exact, BinaryOp):
    """Shifts the bits of the left element by the right one, to the LEFT or to the RIGHT; a shift by
    the width or more gives 0, e.g. `graph.bit_shift %a, %b {direction = "LEFT"} : (tensor<8x4xui8>,
    tensor<4xui8>) -> tensor<8x4xui8>`.
    """

    name = "graph.bit_shift"

    direction = prop_def(StringAttr)

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        super().check(lhs, rhs)
        expect(
            lhs in (ui8, ui16, ui32, ui64), f"expected operands of unsigned integers, found {lhs}"
        )
        found = self.direction.data
        expect(found in ("LEFT", "RIGHT"), f"expected direction LEFT or RIGHT, found {found}")

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        """Shifts in a wider type, if there is one: there, unsigned numbers are not negative."""
        element, width, left = x.type, width_of(x.type), self.direction.data == "LEFT"
        if width == 64:  # a distance beyond 2^63 is negative, and gives 0 as it should
            name = "shl" if left else "shru"
            return x.signless().binary(name, y.signless()).cast(element)
        wide, far = x.to(i64), y.to(i64)
        shifted = wide.binary("shl" if left else "shr", far.min(width - 1))
        return far.compare("lt", width).select(shifted, 0).to(element)

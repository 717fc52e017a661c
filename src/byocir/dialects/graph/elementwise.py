"""Arithmetic on two tensors that broadcast, choices and conversions of elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    INT,
    Exact,
    GraphOp,
    broadcast,
    expect_flag,
    is_number,
    shapes,
)
from byocir.dialects.types import element_type_of, has_element, i1, is_float, shape_of, tensor


class BinaryOp(GraphOp):
    """Base of the ops on two tensors of one element type that broadcast; numbers to numbers,
    unless a subclass says otherwise."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        """Raises VerifyException for element types or properties that are not allowed."""
        expect(lhs == rhs, lambda: f"expected operands of one element type, found {lhs} and {rhs}")
        expect(is_number(lhs), lambda: f"expected operands of numbers, found {lhs}")

    def element(self, operand: Attribute) -> Attribute:
        """The result's element type for operands of this one."""
        return operand

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = element_type_of(self.lhs.type), element_type_of(self.rhs.type)
        self.check(lhs, rhs)
        return [tensor(self.element(lhs), broadcast(*shapes([self.lhs, self.rhs])))]


@irdl_op_definition
class AddOp(Exact, BinaryOp):
    """The sum, e.g. `graph.add %a, %b : (tensor<8x4xi32>, tensor<4xi32>) -> tensor<8x4xi32>`.
    Integers wrap around."""

    name = "graph.add"


@irdl_op_definition
class SubOp(Exact, BinaryOp):
    """The difference, e.g. `graph.sub %a, %b : (tensor<8x4xf32>, tensor<4xf32>) ->
    tensor<8x4xf32>`. Integers wrap around."""

    name = "graph.sub"


@irdl_op_definition
class MulOp(Exact, BinaryOp):
    """The product, e.g. `graph.mul %a, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>`.
    Integers wrap around."""

    name = "graph.mul"


@irdl_op_definition
class DivOp(Exact, BinaryOp):
    """The quotient, e.g. `graph.div %a, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>`.
    Integers round towards zero."""

    name = "graph.div"


@irdl_op_definition
class MaxOp(Exact, BinaryOp):
    """The greater of two, NaN if one is, e.g. `graph.max %a, %b : (tensor<8x4xf32>, tensor<4xf32>)
    -> tensor<8x4xf32>`."""

    name = "graph.max"


@irdl_op_definition
class MinOp(Exact, BinaryOp):
    """The smaller of two, NaN if one is, e.g. `graph.min %a, %b : (tensor<8x4xf32>, tensor<4xf32>)
    -> tensor<8x4xf32>`."""

    name = "graph.min"


@irdl_op_definition
class ModOp(Exact, BinaryOp):
    """The remainder of a division: with `fmod = 0`, of integers only, it has the sign of the
    divisor, with `fmod = 1` that of the dividend, e.g. `graph.mod %a, %b {fmod = 0 : i64} :
    (tensor<8x4xi32>, tensor<4xi32>) -> tensor<8x4xi32>`."""

    name = "graph.mod"

    fmod = prop_def(INT)

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        super().check(lhs, rhs)
        fmod = expect_flag("fmod", self.fmod)
        expect(bool(fmod) or not is_float(lhs), f"expected fmod 1 for {lhs}, found 0")


@irdl_op_definition
class PowOp(BinaryOp):
    """The power `lhs^rhs`, of the base's element type, e.g. `graph.pow %a, %b : (tensor<8x4xf32>,
    tensor<4xi32>) -> tensor<8x4xf32>`. Integers wrap around; to powers below 0 they give
    `1 / lhs^-rhs` rounded towards zero, and 0 where lhs is 0."""

    name = "graph.pow"

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        for element in (lhs, rhs):
            expect(is_number(element), f"expected operands of numbers, found {element}")


@irdl_op_definition
class WhereOp(Exact, GraphOp):
    """`lhs` where the condition is true, else `rhs`; all three broadcast, e.g. `graph.where %c, %a,
    %b : (tensor<8x1xi1>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>`."""

    name = "graph.where"

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"
    )

    def infer(self) -> Sequence[TensorType]:
        condition, lhs, rhs = (element_type_of(value.type) for value in self.operands)
        expect(condition == i1, f"expected a condition of i1, found {condition}")
        expect(lhs == rhs, lambda: f"expected operands of one element type, found {lhs} and {rhs}")
        return [tensor(lhs, broadcast(*shapes(self.operands)))]


@irdl_op_definition
class CastOp(Exact, GraphOp):
    """The same numbers of element type `to`, e.g. `graph.cast %x {to = i32} : (tensor<8x4xf32>) ->
    tensor<8x4xi32>`. Floats become integers towards zero; those that do not fit saturate, and NaN
    is 0 (ONNX leaves both open). Integers keep their low bits. What is not 0 is true."""

    name = "graph.cast"

    input = operand_def(TensorType)
    to = prop_def(Attribute)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        expect(has_element(self.to), f"expected to of a number type or i1, found {self.to}")
        return [tensor(self.to, shape_of(self.input.type))]

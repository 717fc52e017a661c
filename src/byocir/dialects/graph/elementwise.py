"""Element by element: arithmetic with broadcasting, relu and clip."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from byocir.dialects.array import ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    GraphOp,
    broadcast,
    is_number,
    is_signed,
    shapes,
)
from byocir.dialects.types import element_type_of, shape_of, tensor


class BinaryOp(GraphOp):
    """Base of the arithmetic ops: two tensors of one element type that broadcast."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = element_type_of(self.lhs.type), element_type_of(self.rhs.type)
        expect(lhs == rhs, f"expected operands of one element type, found {lhs} and {rhs}")
        expect(is_number(lhs), f"expected operands of numbers, found {lhs}")
        return [tensor(lhs, broadcast(*shapes([self.lhs, self.rhs])))]


@irdl_op_definition
class AddOp(BinaryOp):
    """The sum, e.g. `graph.add %a, %b : (tensor<8x4xi32>, tensor<4xi32>) -> tensor<8x4xi32>`.
    Integers wrap around."""

    name = "graph.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """The difference, e.g. `graph.sub %a, %b : (tensor<8x4xf32>, tensor<4xf32>) ->
    tensor<8x4xf32>`. Integers wrap around."""

    name = "graph.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """The product, e.g. `graph.mul %a, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>`.
    Integers wrap around."""

    name = "graph.mul"


@irdl_op_definition
class DivOp(BinaryOp):
    """The quotient, e.g. `graph.div %a, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>`.
    Integers round towards zero."""

    name = "graph.div"


@irdl_op_definition
class ReluOp(GraphOp):
    """`max(x, 0)`, e.g. `graph.relu %x : (tensor<8x4xi32>) -> tensor<8x4xi32>`."""

    name = "graph.relu"

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        element = element_type_of(self.input.type)
        expect(is_signed(element), f"expected an input of signed numbers, found {element}")
        return [tensor(element, shape_of(self.input.type))]


@irdl_op_definition
class ClipOp(GraphOp):
    """`min(max(x, min), max)`; a bound that is absent does not bind, e.g. `graph.clip %x
    {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[6.0] : tensor<f32>>} :
    (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.clip"

    input = operand_def(TensorType)
    min = opt_prop_def(ArrayAttr)
    max = opt_prop_def(ArrayAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        element = element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        bound = tensor(element, ())
        for name, value in (("min", self.min), ("max", self.max)):
            found = value.data.type if value is not None else bound
            expect(found == bound, f"expected {name} of type {bound}, found {found}")
        return [tensor(element, shape_of(self.input.type))]

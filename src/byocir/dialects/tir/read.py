"""`tir.read`: an element of an array at indices that a body computes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.types import element_type_of, i64, shape_of


@irdl_op_definition
class ReadOp(IRDLOperation):
    """The element of an array that a block's body has whole, e.g. `%v = tir.read %table[%i, %j] :
    tensor<100x8xf32> -> f32`. An index outside of the array is an error."""

    name = "tir.read"

    array = operand_def(TensorType | MemRefType)
    indices = var_operand_def(i64)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$array `[` $indices `]` attr-dict `:` type($array) `->` type($result)"

    @staticmethod
    def of(array: SSAValue, indices: Sequence[SSAValue]) -> ReadOp:
        return ReadOp.create(operands=[array, *indices], result_types=[element_type_of(array.type)])

    def verify_(self) -> None:
        rank, expected = len(shape_of(self.array.type)), element_type_of(self.array.type)
        expect(len(self.indices) == rank, f"expected {rank} indices, found {len(self.indices)}")
        expect(self.result.type == expected, f"expected a {expected}, found {self.result.type}")

"""`tir.extern`: a call of a named routine, for what has no affine iteration space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from byocir.dialects.checks import expect


@irdl_op_definition
class ExternOp(IRDLOperation):
    """What a routine of the runtime makes of arrays and integers, e.g. `%v, %i = tir.extern "top_k"
    (%x) with {axis = 1 : i64, k = 3 : i64, largest = 1 : i64} : (tensor<8x10xf32>) ->
    (tensor<8x3xf32>, tensor<8x3xi64>)`. The table `byocir.evaluate.routines` says what each
    computes, and names its C source."""

    name = "tir.extern"

    routine = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    numbers = prop_def(DictionaryAttr)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$routine `(` $inputs `)` `with` $numbers attr-dict `:` functional-type(operands, results)"
    )

    @staticmethod
    def of(
        routine: str,
        inputs: Sequence[SSAValue],
        types: Sequence[TensorType],
        numbers: Mapping[str, int],
        location: LocationAttr | None = None,
    ) -> ExternOp:
        """A call that gives arrays of these types."""
        return ExternOp.create(
            operands=list(inputs),
            properties={
                "routine": StringAttr(routine),
                "numbers": DictionaryAttr(
                    {name: IntegerAttr(value, i64) for name, value in numbers.items()}
                ),
            },
            result_types=list(types),
            location=location,
        )

    def values(self) -> dict[str, int]:
        """The integers by name."""
        given = cast("dict[str, IntegerAttr]", self.numbers.data)
        return {name: number.value.data for name, number in given.items()}

    def verify_(self) -> None:
        for name, number in self.numbers.data.items():
            found = getattr(number, "type", None)
            expect(found == i64, f"expected {name} to be a number of type i64, found {number}")
        expect(bool(self.outputs), "expected at least one result")

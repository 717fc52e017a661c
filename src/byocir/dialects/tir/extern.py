"""`tir.extern`: a call of a named routine, for what has no affine iteration space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.types import DYNAMIC, Shape, shape_of, static_shape


@irdl_op_definition
class ExternOp(IRDLOperation):
    """Calls a routine of the runtime on arrays and integers, e.g. `%v, %i = tir.extern "top_k"
    (%x) with {axis = 1 : i64, k = 3 : i64, largest = 1 : i64} : (tensor<8x10xf32>) ->
    (tensor<8x3xf32>, tensor<8x3xi64>)`. The table `byocir.evaluate.routines` says what each
    computes, and names its C source.

    A result of open shape has a bound, the shape of the largest it can be: `%i = tir.extern
    "non_zero"(%x) with {} within [array<i64: 2, 12>] : (tensor<3x4xf32>) -> tensor<2x?xi64>`. There
    is a bound for each result then, its shape where that is static."""

    name = "tir.extern"

    routine = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    numbers = prop_def(DictionaryAttr)
    bounds = opt_prop_def(ArrayAttr[DenseArrayBase])
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$routine `(` $inputs `)` `with` $numbers (`within` $bounds^)? attr-dict `:` "
        "functional-type(operands, results)"
    )

    @staticmethod
    def of(
        routine: str,
        inputs: Sequence[SSAValue],
        types: Sequence[TensorType],
        numbers: Mapping[str, int],
        location: LocationAttr | None = None,
        bounds: Sequence[Shape] = (),
    ) -> ExternOp:
        """Gives a call that gives arrays of these types, and at most of these shapes."""
        given = {name: IntegerAttr(value, i64) for name, value in numbers.items()}
        properties: dict[str, Attribute] = {
            "routine": StringAttr(routine),
            "numbers": DictionaryAttr(given),
        }
        if bounds:
            properties["bounds"] = ArrayAttr([DenseArrayBase.from_list(i64, b) for b in bounds])
        return ExternOp.create(
            operands=list(inputs),
            properties=properties,
            result_types=list(types),
            location=location,
        )

    def values(self) -> dict[str, int]:
        """Gives the integers by name."""
        given = cast("dict[str, IntegerAttr]", self.numbers.data)
        return {name: number.value.data for name, number in given.items()}

    def bound(self, index: int) -> Shape | None:
        """Gives the shape of the largest that a result can be; None where that is not told."""
        if self.bounds is None:
            return static_shape(self.outputs[index].type)
        return tuple(cast("DenseArrayBase[I64]", self.bounds.data[index]).get_values())

    def verify_(self) -> None:
        for name, number in self.numbers.data.items():
            found = getattr(number, "type", None)
            expect(found == i64, f"expected {name} to be a number of type i64, found {number}")
        expect(bool(self.outputs), "expected at least one result")
        if self.bounds is None:
            return
        count = len(self.outputs)
        expect(
            len(self.bounds.data) == count,
            f"expected a bound for each of {count} results, found {len(self.bounds.data)}",
        )
        for i, result in enumerate(self.outputs):
            expect(_fits(result.type, self.bound(i) or ()), f"expected a bound of {result.type}")


def _fits(type_: Attribute, bound: Shape) -> bool:
    shape = shape_of(type_)
    sizes = zip(shape, bound, strict=False)
    return len(shape) == len(bound) and all(s == b or (s == DYNAMIC and b >= 0) for s, b in sizes)

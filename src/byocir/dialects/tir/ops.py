"""Defines the ops beside `tir.block`: fills, constants, buffers, copies, calls of routines, and
those in bodies: reads at computed indices, and what ends a body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    UNKNOWN_LOC,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.dialects.builtin import ArrayAttr as ListAttr
from xdsl.ir import (
    Attribute,
    Operation,
    SSAValue,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    ConstantLike,
    EffectInstance,
    IsTerminator,
    MemoryAllocEffect,
    MemoryEffect,
    MemoryEffectKind,
    Pure,
)

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.types import DYNAMIC, Shape, element_type_of, i64, shape_of, static_shape


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a block's body with the new values of the `outs` elements, or a loop's with what the
    next iteration takes, e.g. `tir.yield %sum : i32`."""

    name = "tir.yield"

    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"


class WriteEffects(MemoryEffect):
    """Says that an op reads its memref operands and writes the one named `destination`; an op on
    tensors has no effect.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        assert isinstance(op, FillOp | CopyOp)
        effects: set[EffectInstance] = set()
        if isinstance(op, CopyOp):
            effects.add(EffectInstance(MemoryEffectKind.READ, op.source))
        if op.destination is not None:
            effects.add(EffectInstance(MemoryEffectKind.WRITE, op.destination))
        return effects


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """Gives a constant array as a tensor or, in buffer form, as a read-only memref, e.g. `%w =
    tir.constant <[1, 2] : tensor<2xi8>> : memref<2xi8>`."""

    name = "tir.constant"

    value = prop_def(ArrayAttr)
    result = result_def(TensorType | MemRefType)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "$value attr-dict `:` type($result)"

    @staticmethod
    def of(
        array: Array, type_: Attribute | None = None, location: LocationAttr | None = None
    ) -> ConstantOp:
        """Makes the constant; `type_` defaults to its tensor type."""
        return ConstantOp.create(
            properties={"value": ArrayAttr(array)},
            result_types=[type_ or array.type],
            location=location,
        )

    def verify_(self) -> None:
        array, type_ = self.value.data, self.result.type
        found = (shape_of(type_), element_type_of(type_))
        expected = (array.shape, element_type_of(array.type))
        expect(
            found == expected,
            lambda: f"expected shape and element type of {array.type}, found {type_}",
        )


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """Makes a tensor whose elements are not read before they are written, e.g. `%init = tir.empty :
    tensor<4xi8>`."""

    name = "tir.empty"

    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    @staticmethod
    def of(type_: TensorType, location: LocationAttr | None = None) -> EmptyOp:
        return EmptyOp.create(result_types=[type_], location=location)


@irdl_op_definition
class FillOp(IRDLOperation):
    """Fills a tensor with one number, e.g. `%zero = tir.fill 0 : i32 : tensor<4x8xi32>`; in buffer
    form it fills a memref: `tir.fill 0 : i32 into %b : memref<4x8xi32>`.
    """

    name = "tir.fill"

    value = prop_def(Attribute)
    destination = opt_operand_def(MemRefType)
    result = opt_result_def(TensorType)
    traits = traits_def(WriteEffects())

    @staticmethod
    def of(
        value: Attribute, into: TensorType | SSAValue, location: LocationAttr | None = None
    ) -> FillOp:
        """Makes a fill: in value form for a tensor type, in buffer form for a memref value. `value`
        is an IntegerAttr or FloatAttr of the element type.
        """
        is_value = isinstance(into, SSAValue)
        return FillOp.create(
            operands=[into] if is_value else [],
            properties={"value": value},
            result_types=[] if is_value else [into],
            location=location,
        )

    @property
    def array_type(self) -> Attribute:
        value = self.destination or self.result
        assert value is not None
        return value.type

    def verify_(self) -> None:
        expect(
            (self.destination is None) != (self.result is None),
            "expected either a destination or a result",
        )
        expected, found = element_type_of(self.array_type), getattr(self.value, "type", None)
        expect(
            found == expected, lambda: f"expected a number of type {expected}, found {self.value}"
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if self.destination is not None:
            printer.print_string(" into ")
            printer.print_ssa_value(self.destination)
        printer.print_string(" : ")
        printer.print_attribute(self.array_type)

    @classmethod
    def parse(cls, parser: Parser) -> FillOp:
        value = parser.parse_attribute()
        if parser.parse_optional_keyword("into") is None:
            parser.parse_punctuation(":")
            type_ = parser.parse_type()
            if not isinstance(type_, TensorType):
                parser.raise_error("expected a tensor type")
            return FillOp.of(value, cast(TensorType, type_))
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return FillOp.of(value, parser.resolve_operand(unresolved, parser.parse_type()))


@irdl_op_definition
class AllocOp(IRDLOperation):
    """Allocates a buffer, in the memory that its type names, which lives until the end of the
    enclosing region, e.g. `%t = tir.alloc : memref<4x16xi32, "vta.acc">`."""

    name = "tir.alloc"

    result = result_def(MemRefType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "attr-dict `:` type($result)"

    @staticmethod
    def of(
        element: Attribute, shape: Shape, scope: str = "", location: LocationAttr | None = None
    ) -> AllocOp:
        """Makes a buffer in `scope`; the empty scope is main memory."""
        return AllocOp.create(result_types=[buffer(element, shape, scope)], location=location)


def buffer(element: Attribute, shape: Sequence[int], scope: str = "") -> MemRefType:
    """Gives the type of a buffer in `scope`; the empty scope is main memory."""
    return _buffer(element, tuple(shape), scope)


@lru_cache(maxsize=1024)
def _buffer(element: Attribute, shape: Shape, scope: str) -> MemRefType:
    if not scope:
        return MemRefType(element, shape)
    return MemRefType(element, shape, memory_space=StringAttr(scope))


def scope_of(type_: Attribute) -> str:
    """Gives the memory a memref lies in; the empty string is main memory."""
    assert isinstance(type_, MemRefType)
    return type_.memory_space.data if isinstance(type_.memory_space, StringAttr) else ""


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Moves a box of elements between buffers, as DMA engines do, e.g.
    `tir.copy %x[%i, %j] to %t[%a, %b] sizes [4, 8] pad 0 : i8 : memref<16x64xi8> to
    memref<4x8xi8, "npu.in">`.

    For every index k of the box, `destination[base_d + k] = source[base_s + k]`; where the source
    index is outside, the pad value is written (without a pad all reads are inside). Without bases
    a box starts at 0. Integers convert by sign extension or by keeping the low bits.
    """

    name = "tir.copy"

    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    source_bases = var_operand_def(IndexType)
    destination_bases = var_operand_def(IndexType)
    sizes = prop_def(DenseArrayBase.constr(i64))
    pad = opt_prop_def(Attribute)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(WriteEffects())
    assembly_format = (
        "$source (`[` $source_bases^ `]`)? `to` $destination (`[` $destination_bases^ `]`)? "
        "`sizes` $sizes (`pad` $pad^)? attr-dict `:` type($source) `to` type($destination)"
    )

    @staticmethod
    def of(
        source: SSAValue,
        destination: SSAValue,
        sizes: Sequence[int],
        *,
        source_bases: Sequence[SSAValue] = (),
        destination_bases: Sequence[SSAValue] = (),
        pad: Attribute | None = None,
        location: LocationAttr | None = None,
    ) -> CopyOp:
        op = CopyOp.build(
            operands=[[source], [destination], source_bases, destination_bases],
            properties={"sizes": DenseArrayBase.from_list(i64, list(sizes)), "pad": pad},
        )
        op.location = location or UNKNOWN_LOC
        return op

    @property
    def box(self) -> Shape:
        """Gives the extents of the box that is copied."""
        return self.sizes.get_values()

    def verify_(self) -> None:
        box, rank = self.box, len(self.box)
        expect(min(box, default=1) > 0, f"expected sizes > 0, found {list(box)}")
        for side, value, bases in (
            ("source", self.source, self.source_bases),
            ("destination", self.destination, self.destination_bases),
        ):
            found = shape_of(value.type)
            expect(len(found) == rank, f"expected memrefs of rank {rank}, found {value.type}")
            expect(len(bases) in (0, rank), f"expected no base or {rank} bases, found {len(bases)}")
            fits = all(size <= most for size, most in zip(box, found, strict=True))
            expect(
                fits or (side == "source" and self.pad is not None),
                f"expected sizes of at most {list(found)} in the {side}, found {list(box)}",
            )
        expected, found = element_type_of(self.source.type), getattr(self.pad, "type", None)
        expect(
            self.pad is None or found == expected,
            f"expected a pad of type {expected}, found {self.pad}",
        )


@irdl_op_definition
class ReadOp(IRDLOperation):
    """Reads the element of an array that a block's body has whole, e.g. `%v = tir.read %table[%i,
    %j] : tensor<100x8xf32> -> f32`. An index outside of the array is an error.
    """

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
    bounds = opt_prop_def(ListAttr[DenseArrayBase])
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
        """Makes a call whose results have these types and, where their shapes are open, at most the
        shapes `bounds`.
        """
        given = {name: IntegerAttr(value, i64) for name, value in numbers.items()}
        properties: dict[str, Attribute] = {
            "routine": StringAttr(routine),
            "numbers": DictionaryAttr(given),
        }
        if bounds:
            properties["bounds"] = ListAttr([DenseArrayBase.from_list(i64, b) for b in bounds])
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
        """Gives the largest shape that a result can have; None where that is not known."""
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

"""`tir.intrinsic`: what one instruction of a target does, and that it does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, LocationAttr, StringAttr, i64
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, RecursiveMemoryEffect

from byocir.dialects.checks import expect


@irdl_op_definition
class IntrinsicOp(IRDLOperation):
    """An instruction of a target, by name, and its meaning: a body of blocks in buffer form, e.g.

    ```mlir
    tir.intrinsic "npu.conv3x3" (stride = 2) {
      tir.block … ins(%x[…] : memref<…, "npu.in">, …) outs(%acc[…] : memref<…, "npu.acc">) { … }
    }
    ```

    Running it is running its body. The numbers are what the pattern that found it left open: the
    fields that its target encodes.
    """

    name = "tir.intrinsic"

    callee = prop_def(StringAttr)
    numbers = prop_def(DictionaryAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    @staticmethod
    def of(
        callee: str,
        body: Sequence[Operation] = (),
        numbers: Mapping[str, int] | None = None,
        location: LocationAttr | None = None,
    ) -> IntrinsicOp:
        """The instruction `callee` that does what these ops do."""
        fields = {name: IntegerAttr(n, i64) for name, n in (numbers or {}).items()}
        return IntrinsicOp.create(
            properties={"callee": StringAttr(callee), "numbers": DictionaryAttr(fields)},
            regions=[Region(Block(body))],
            location=location,
        )

    @property
    def fields(self) -> dict[str, int]:
        """The numbers by name."""
        return {
            name: n.value.data
            for name, n in self.numbers.data.items()
            if isinstance(n, IntegerAttr)
        }

    def verify_(self) -> None:
        expect(self.callee.data != "", "expected the name of an instruction, found none")
        expect(not self.body.block.is_empty, "expected a body of blocks, found none")
        for name, number in self.numbers.data.items():
            expect(isinstance(number, IntegerAttr), f"expected a number for {name}, found {number}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.callee.data)
        if self.numbers.data:
            texts = (f"{name} = {number}" for name, number in self.fields.items())
            printer.print_string(f" ({', '.join(texts)})")
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> IntrinsicOp:
        def number() -> tuple[str, int]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            return name, parser.parse_integer(allow_boolean=False)

        callee = parser.parse_str_literal()
        numbers: list[tuple[str, int]] = []
        if parser.parse_optional_punctuation("(") is not None:
            numbers = [number()]
            while parser.parse_optional_punctuation(",") is not None:
                numbers.append(number())
            parser.parse_punctuation(")")
        op = IntrinsicOp.of(callee, numbers=dict(numbers))
        region = parser.parse_region()
        return IntrinsicOp.create(properties=op.properties, regions=[region])

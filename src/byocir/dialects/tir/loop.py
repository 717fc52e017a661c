"""Defines `tir.for`: a loop around buffers, or with values that each iteration hands to the
next.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    LocationAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Block, Region, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, RecursiveMemoryEffect
from xdsl.utils.str_enum import StrEnum

from byocir.dialects.bindings import parse_binding, print_binding
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.tir.ops import YieldOp
from byocir.dialects.types import listed, tensor


class LoopKind(StrEnum):
    """Says how the iterations of a `tir.for` may run."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    UNROLL = "unroll"
    VECTORIZE = "vectorize"
    VTHREAD = "vthread"


IN_ORDER = (LoopKind.SERIAL, LoopKind.UNROLL)
"""The kinds of loops whose iterations follow each other."""


@irdl_attr_definition
class LoopKindAttr(EnumAttribute[LoopKind], SpacedOpaqueSyntaxAttribute):
    """Names the kind of a loop as an attribute: in order, or as schedules may have it."""

    name = "tir.loop"


@irdl_op_definition
class ForOp(IRDLOperation):
    """Loops from 0 to a static extent, around buffers (`tir.for %i = 0 to 4 serial { … }`) or with
    values that it carries, e.g.

    ```mlir
    %last = tir.for %t = 0 to 5 serial carry(%h = %h0 : tensor<2x4xf32>) {
      %next = graph.tanh %h : (tensor<2x4xf32>) -> tensor<2x4xf32>
      tir.yield %next : tensor<2x4xf32>
    }
    ```

    Each iteration takes what the one before yields, the first one takes the initial values, and
    the results are what the last one yields.

    With `while` the first carried value is a boolean, and there is a next iteration only where it
    holds: `tir.for %t = 0 to 5 serial while carry(%go = %c : tensor<i1>, …) { … }`.
    """

    name = "tir.for"

    initial = var_operand_def(TensorType)
    extent = prop_def(IntegerAttr)
    kind = prop_def(LoopKindAttr)
    conditional = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    results_ = var_result_def(TensorType)
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    @staticmethod
    def of(
        extent: int,
        kind: LoopKind = LoopKind.SERIAL,
        location: LocationAttr | None = None,
        initial: Sequence[SSAValue] = (),
        *,
        conditional: bool = False,
    ) -> ForOp:
        """Makes an empty loop. Its body has one index argument, then one for each carried value,
        and must end in a `tir.yield` of their next values if there are any.
        """
        types = [value.type for value in initial]
        return ForOp.create(
            operands=list(initial),
            properties=_properties(extent, kind, conditional),
            regions=[Region(Block(arg_types=[IndexType(), *types]))],
            result_types=types,
            location=location,
        )

    @property
    def index(self) -> SSAValue:
        return self.body.block.args[0]

    @property
    def carried(self) -> Sequence[SSAValue]:
        """Gives the carried values as the body sees them, one for each result."""
        return self.body.block.args[1:]

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """Gives the values that an iteration hands on, one for each result."""
        last = self.body.block.last_op
        return last.operands if isinstance(last, YieldOp) else ()

    def verify_(self) -> None:
        extent, carried = self.extent.value.data, [value.type for value in self.initial]
        types = [arg.type for arg in self.body.block.args]
        if not carried:
            expect(types == [IndexType()], "expected a body with one index argument")
        expect(extent > 0, f"expected an extent > 0, found {extent}")
        expect(
            types == [IndexType(), *carried],
            f"expected a body of index and the carried types ({listed(carried)}), "
            f"found ({listed(types)})",
        )
        for what, found in (
            ("results", [result.type for result in self.results]),
            ("yielded values", [value.type for value in self.yielded]),
        ):
            expect(
                found == carried,
                f"expected {what} of the carried types ({listed(carried)}), "
                f"found ({listed(found)})",
            )
        expect(
            self.conditional is None or carried[:1] == [tensor(i1, [])],
            f"expected a first carried value of type tensor<i1> that says whether there is a next "
            f"iteration, found {listed(carried[:1]) or 'none'}",
        )
        expect(
            not carried or self.kind.data in IN_ORDER,
            f"expected a loop in order to carry values, found {self.kind.data.value}",
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.index)
        printer.print_string(f" = 0 to {self.extent.value.data} {self.kind.data.value} ")
        if self.conditional is not None:
            printer.print_string("while ")
        if self.initial:
            printer.print_string("carry(")
            printer.print_list(
                list(zip(self.carried, self.initial, strict=True)),
                lambda pair: print_binding(printer, *pair),
            )
            printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        index = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        parser.parse_characters("0")
        parser.parse_keyword("to")
        extent = parser.parse_integer(allow_boolean=False)
        kind = LoopKind(parser.parse_keyword_in({kind.value for kind in LoopKind}))
        conditional = parser.parse_optional_keyword("while") is not None
        carried: list[tuple[Parser.Argument, SSAValue]] = []
        if parser.parse_optional_keyword("carry") is not None:
            carried = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_binding(parser)
            )
        types = [value.type for _, value in carried]
        body = parser.parse_region(
            [index.resolve(IndexType()), *(arg for arg, _ in carried)],
        )
        return ForOp.create(
            operands=[value for _, value in carried],
            properties=_properties(extent, kind, conditional),
            regions=[body],
            result_types=types,
        )


def _properties(extent: int, kind: LoopKind, conditional: bool) -> dict[str, Attribute]:
    properties: dict[str, Attribute] = {
        "extent": IntegerAttr(extent, i64),
        "kind": LoopKindAttr(kind),
    }
    return properties | ({"conditional": UnitAttr()} if conditional else {})

"""Defines the op for everything that has no op of its own: an ONNX operator as it is."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i64,
)
from xdsl.dialects.builtin import ArrayAttr as ListAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, HasParent, IsTerminator, MemoryEffect, Pure

from byocir.dialects.array import ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import INT, INTS, int_tuple, ints
from byocir.dialects.graph.values import FloatsAttr, StringsAttr

RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators that draw random numbers: two of them are never the same."""


REFERENCE_FIRST = RANDOM | {"Attention", "DFT", "Dropout", "MaxUnpool", "STFT"}
"""Operators that ONNX Runtime is not asked for. It draws random numbers (also Dropout's) from a
generator that is seeded by the clock; those of Attention and MaxUnpool differ from the standard in
1.31 (masks with infinities, `output_shape`), and its DFT and STFT lose half of the digits."""

FAILS = "graph.fails"
"""Marks a foreign op that no run gets past: what it takes is known, and the operator refuses it. It
is in a graph that does not run then, as the branch for other sizes than those that are pinned."""

CONTROL_FLOW = {"If": 1, "Loop": 1, "Scan": 9}
"""Operators of ONNX's own domain that run their graphs as they are, from which opset on. (Scan 8 is
about batches.)"""


class PureUnlessRandom(MemoryEffect):
    """Says that an op has no effects, unless it or an op inside it draws random numbers."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        inner = (each for each in op.walk() if isinstance(each, ForeignOp))
        return None if any(each.op_type.data in RANDOM for each in inner) else frozenset()


@irdl_op_definition
class ForeignOp(IRDLOperation):
    """Keeps an ONNX operator that no graph op stands for, at its own opset, e.g.

    ```mlir
    %y = graph.foreign "ai.onnx.ml" "Binarizer" 1 (%x) {threshold = 0.5 : f32} :
        (tensor<3xf32>) -> tensor<3xf32>
    %z = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<3xf32> because "control flow"
        "then_branch" { graph.yield %y : tensor<3xf32> }
        "else_branch" { graph.yield %x : tensor<3xf32> }
    ```

    The domain is left out for ONNX's own. Operands and results may have any type; absent inputs are
    written `none`, absent outputs `_`. `attrs` has the attributes as ONNX types them: integers i64,
    floats f32, lists of integers `array<i64: …>`, lists of floats `#graph.floats`, tensors
    `#graph.array` or `#graph.strings`, strings, and types. Attributes that are graphs are regions,
    which may use values from outside. `reason` says why no graph op took the node.
    """

    name = "graph.foreign"

    inputs = var_operand_def()
    domain = prop_def(StringAttr)
    op_type = prop_def(StringAttr)
    opset = prop_def(INT)
    attrs = prop_def(DictionaryAttr)
    input_mask = opt_prop_def(INTS)
    """One number for each of the operator's inputs, 0 for an absent one; left out when all are
    there."""
    output_mask = opt_prop_def(INTS)
    """One number for each of the operator's outputs, 0 for an absent one; left out when all are
    there."""
    graph_names = opt_prop_def(ListAttr[StringAttr])
    """The attribute that each region is; left out when there is none."""
    reason = opt_prop_def(StringAttr)
    graphs = var_region_def("single_block")
    outputs = var_result_def()
    traits = traits_def(PureUnlessRandom())
    irdl_options = (ParsePropInAttrDict(),)

    @staticmethod
    def properties_of(
        op_type: str,
        opset: int,
        attrs: dict[str, Attribute],
        *,
        domain: str = "",
        inputs: Sequence[bool] = (),
        outputs: Sequence[bool] = (),
        graph_names: Sequence[str] = (),
        reason: str = "",
    ) -> dict[str, Attribute]:
        """Gives the properties of an op; `inputs` and `outputs` say for each of the operator's if
        it is there.
        """
        properties: dict[str, Attribute] = {
            "domain": StringAttr(domain),
            "op_type": StringAttr(op_type),
            "opset": IntegerAttr(opset, i64),
            "attrs": DictionaryAttr(dict(sorted(attrs.items()))),
        }
        if not all(inputs):
            properties["input_mask"] = ints([int(there) for there in inputs])
        if not all(outputs):
            properties["output_mask"] = ints([int(there) for there in outputs])
        if graph_names:
            properties["graph_names"] = ListAttr([StringAttr(name) for name in graph_names])
        if reason:
            properties["reason"] = StringAttr(reason)
        return properties

    @property
    def kind(self) -> str:
        """Gives the operator as messages name it."""
        domain = self.domain.data
        return f"{self.op_type.data} of domain {domain}" if domain else self.op_type.data

    def optional_inputs(self) -> list[SSAValue | None]:
        """Gives the inputs in order; None for one that is absent."""
        values = iter(self.inputs)
        mask = [1] * len(self.inputs) if self.input_mask is None else int_tuple(self.input_mask)
        return [next(values) if there else None for there in mask]

    def present_outputs(self) -> list[bool]:
        """Tells for each output of the operator if the op has it."""
        if self.output_mask is None:
            return [True] * len(self.outputs)
        return [bool(there) for there in int_tuple(self.output_mask)]

    def named_graphs(self) -> list[tuple[str, Region]]:
        """Gives the graphs among the op's attributes, by name."""
        names = [] if self.graph_names is None else [name.data for name in self.graph_names]
        return list(zip(names, self.graphs, strict=True))

    @property
    def is_control_flow(self) -> bool:
        """Tells if the op runs its graphs op by op, in the order that ONNX defines, so that ops
        inside can be handed over like those outside.
        """
        since = CONTROL_FLOW.get(self.op_type.data) if not self.domain.data else None
        return since is not None and self.opset.value.data >= since

    def captures(self) -> list[SSAValue]:
        """Gives the values from outside that the graphs use, each once, in order."""
        found: dict[SSAValue, None] = {}
        for region in self.graphs:
            for op in region.walk():
                found.update(dict.fromkeys(v for v in op.operands if not self.is_ancestor(v.owner)))
        return list(found)

    def verify_(self) -> None:
        expect(self.op_type.data != "", "expected the name of an operator, found none")
        opset = self.opset.value.data
        expect(opset >= 1, f"expected an opset of at least 1, found {opset}")
        _verify_mask("input_mask", self.input_mask, len(self.inputs))
        _verify_mask("output_mask", self.output_mask, len(self.outputs))
        names = [] if self.graph_names is None else [name.data for name in self.graph_names]
        expect(
            len(names) == len(self.graphs),
            f"expected a name for each of {len(self.graphs)} graphs, found {len(names)}",
        )
        twice = [name for name in names if names.count(name) > 1 or name in self.attrs.data]
        expect(not twice, f"expected each attribute once, found {twice[:1]} twice")
        for name, region in self.named_graphs():
            last = region.block.last_op
            expect(isinstance(last, YieldOp), f"expected graph '{name}' to end in graph.yield")
        for name, value in self.attrs.data.items():
            expect(
                _is_attribute(value), f"expected an attribute as ONNX has it, found {name} {value}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.domain.data:
            printer.print_attribute(self.domain)
            printer.print_string(" ")
        printer.print_attribute(self.op_type)
        printer.print_string(f" {self.opset.value.data} (")
        printer.print_list(
            self.optional_inputs(),
            lambda v: printer.print_string("none") if v is None else printer.print_ssa_value(v),
        )
        printer.print_string(") ")
        printer.print_attribute(self.attrs)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)
        if self.output_mask is not None:
            printer.print_string(" outputs ")
            printer.print_attribute(self.output_mask)
        if self.reason is not None:
            printer.print_string(" because ")
            printer.print_attribute(self.reason)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        for name, region in self.named_graphs():
            printer.print_string(" ")
            printer.print_string_literal(name)
            printer.print_string(" ")
            printer.print_region(region)

    @classmethod
    def parse(cls, parser: Parser) -> ForeignOp:
        domain, op_type = "", parser.parse_str_literal()
        second = parser.parse_optional_str_literal()
        if second is not None:
            domain, op_type = op_type, second
        opset = parser.parse_integer(allow_boolean=False)
        inputs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_input(parser)
        )
        attrs = parser.parse_attribute()
        if not isinstance(attrs, DictionaryAttr):
            parser.raise_error("expected a dictionary of attributes")
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        properties = ForeignOp.properties_of(
            op_type, opset, dict(attrs.data), domain=domain, inputs=[v is not None for v in inputs]
        )
        if parser.parse_optional_keyword("outputs"):
            properties["output_mask"] = parser.parse_attribute()
        if parser.parse_optional_keyword("because"):
            properties["reason"] = StringAttr(parser.parse_str_literal())
        further = parser.parse_optional_attr_dict_with_keyword()
        values = parser.resolve_operands(
            [v for v in inputs if v is not None], type_.inputs.data, parser.pos
        )
        names, regions = _parse_graphs(parser)
        if names:
            properties["graph_names"] = ListAttr(names)
        return ForeignOp.create(
            operands=values,
            result_types=type_.outputs.data,
            properties=properties,
            attributes={} if further is None else dict(further.data),
            regions=regions,
        )


def _parse_input(parser: Parser) -> UnresolvedOperand | None:
    if parser.parse_optional_keyword("none"):
        return None
    return parser.parse_unresolved_operand()


def _parse_graphs(parser: Parser) -> tuple[list[StringAttr], list[Region]]:
    names: list[StringAttr] = []
    regions: list[Region] = []
    while (name := parser.parse_optional_str_literal()) is not None:
        names.append(StringAttr(name))
        regions.append(parser.parse_region())
    return names, regions


def _verify_mask(name: str, mask: DenseArrayBase[I64] | None, count: int) -> None:
    if mask is None:
        return
    values = int_tuple(mask)
    expect(
        sorted(set(values)) in ([0], [0, 1]),
        f"expected {name} of zeros and ones with a zero, found {list(values)}",
    )
    expect(sum(values) == count, f"expected {count} ones in {name}, found {sum(values)}")


def _is_attribute(value: Attribute) -> bool:
    """Tells if an attribute is of a kind that ONNX's attributes have."""
    if isinstance(value, IntegerAttr):
        return cast("IntegerAttr", value).type == i64
    if isinstance(value, FloatAttr):
        return cast("FloatAttr", value).type == f32
    if isinstance(value, DenseArrayBase):
        return cast("DenseArrayBase", value).elt_type == i64
    if isinstance(value, ListAttr):
        members = cast("ListAttr[Attribute]", value).data
        return all(isinstance(m, StringAttr | BytesAttr | ArrayAttr | StringsAttr) for m in members)
    kinds = (StringAttr, BytesAttr, ArrayAttr, FloatsAttr, StringsAttr, TypeAttribute)
    return isinstance(value, kinds)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a graph of a foreign op with its outputs, e.g.

    ```mlir
    %z = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<4xf32>
        "then_branch" { graph.yield %x : tensor<4xf32> }
        "else_branch" { graph.yield %y : tensor<4xf32> }
    ```
    """

    name = "graph.yield"

    values = var_operand_def()
    traits = traits_def(HasParent(ForeignOp), IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

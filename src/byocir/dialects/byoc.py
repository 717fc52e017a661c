"""Hand-off: what was matched, who takes it, what was called, and why.

The same ops serve both levels: bodies hold graph ops or tir blocks. Everything a later stage or a
report needs is in the module: targets with their options, the original model's nodes and the trail
of decisions, so that a printed module can be read back and continued.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IntAttr,
    LocationAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, RecursiveMemoryEffect

from byocir.dialects.checks import expect

TARGET = "byoc.target"
"""Function attribute: the target that a region function was handed to."""
LEVEL = "byoc.level"
"""Function attribute: the level, "graph" or "tensor", at which it was handed over."""
TARGETS = "byoc.targets"
"""Module attribute: the targets in order of preference."""
NAME = "byoc.name"
"""Argument and result attribute: the name of a model's input or output."""
DIMS = "byoc.dims"
"""Argument attribute: the sizes of an input, those that the model leaves open by name or as "?"."""


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """A target with its options, e.g. `#byoc.target<"vta", {rounding = "half_up"}>`."""

    name = "byoc.target"

    target_name: StringAttr = param_def()
    options: DictionaryAttr = param_def()

    @staticmethod
    def of(name: str, options: dict[str, Attribute]) -> TargetAttr:
        return TargetAttr(StringAttr(name), DictionaryAttr(dict(sorted(options.items()))))


@irdl_attr_definition
class NodeAttr(ParametrizedAttribute):
    """A node of the original model: name, op type and multiply-accumulates per inference."""

    name = "byoc.node"

    node_name: StringAttr = param_def()
    op_type: StringAttr = param_def()
    macs: IntAttr = param_def()


@irdl_attr_definition
class RuleAttr(ParametrizedAttribute):
    """A rule of a pattern as it was evaluated: its sentence, whether it held, what was seen."""

    name = "byoc.rule"

    sentence: StringAttr = param_def()
    outcome: StringAttr = param_def()
    seen: StringAttr = param_def()


@irdl_attr_definition
class DecisionAttr(ParametrizedAttribute):
    """What a pattern made of a place in the program.

    `nodes` are the model's nodes of the ops it reached; `outcome` is "taken" or "declined";
    `matched` of `total` ops fitted; `reason` says where it stopped, empty when all ops fitted.
    """

    name = "byoc.decision"

    target: StringAttr = param_def()
    level: StringAttr = param_def()
    pattern: StringAttr = param_def()
    outcome: StringAttr = param_def()
    nodes: ArrayAttr[StringAttr] = param_def()
    matched: IntAttr = param_def()
    total: IntAttr = param_def()
    reason: StringAttr = param_def()
    rules: ArrayAttr[RuleAttr] = param_def()


@irdl_attr_definition
class TakenAttr(ParametrizedAttribute):
    """A composite that a target took: its pattern, the level of the match, the model's nodes."""

    name = "byoc.taken"

    pattern: StringAttr = param_def()
    level: StringAttr = param_def()
    nodes: ArrayAttr[StringAttr] = param_def()


@irdl_attr_definition
class HandedOffAttr(ParametrizedAttribute):
    """What a call runs on its target: the composites in order, and the types that cross."""

    name = "byoc.handed_off"

    target: StringAttr = param_def()
    composites: ArrayAttr[TakenAttr] = param_def()
    inputs: ArrayAttr = param_def()
    outputs: ArrayAttr = param_def()


class Node(NamedTuple):
    """A node of the original model; `macs` counts multiply-accumulates per inference."""

    name: str
    op_type: str
    macs: int


@irdl_op_definition
class SourceOp(IRDLOperation):
    """The nodes of the original model in their order, for reports."""

    name = "byoc.source"

    nodes = prop_def(ArrayAttr[NodeAttr])
    assembly_format = "$nodes attr-dict"

    @staticmethod
    def of(nodes: Iterable[tuple[str, str, int]]) -> SourceOp:
        """From (name, op type, MACs) triples."""
        attrs = [NodeAttr(StringAttr(n), StringAttr(t), IntAttr(m)) for n, t, m in nodes]
        return SourceOp.create(properties={"nodes": ArrayAttr(attrs)})

    def entries(self) -> list[Node]:
        return [Node(n.node_name.data, n.op_type.data, n.macs.data) for n in self.nodes]


@irdl_op_definition
class TrailOp(IRDLOperation):
    """Every decision of the matchers so far, in order."""

    name = "byoc.trail"

    decisions = prop_def(ArrayAttr[DecisionAttr])
    assembly_format = "$decisions attr-dict"

    @staticmethod
    def of(decisions: Sequence[DecisionAttr]) -> TrailOp:
        return TrailOp.create(properties={"decisions": ArrayAttr(decisions)})


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a composite or region: its results, e.g. `byoc.yield %y : tensor<4xi8>`."""

    name = "byoc.yield"

    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


class _Enclosing(IRDLOperation):
    """An op whose body takes its operands as arguments and yields its results."""

    def _verify_body(self, body: Region) -> None:
        found = [arg.type for arg in body.block.args]
        expected = [v.type for v in self.operands]
        expect(
            found == expected,
            f"expected body arguments {_join(expected)}, found {_join(found)}",
        )
        last = body.block.last_op
        expect(isinstance(last, YieldOp), "expected the body to end in byoc.yield")
        assert last is not None
        found, expected = [v.type for v in last.operands], [r.type for r in self.results]
        expect(
            found == expected,
            f"expected yielded values {_join(expected)}, found {_join(found)}",
        )


def _join(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class CompositeOp(_Enclosing):
    """A matched pattern: its ops, moved out of the way of other patterns, e.g.

    ```mlir
    %y = byoc.composite "vta.conv" at "graph" (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
      …
      byoc.yield %r : tensor<4xi8>
    }
    ```

    Isolated from above, so it can be inlined back. Constants that the pattern calls constant are in
    the body; everything else comes in as an operand.
    """

    name = "byoc.composite"

    inputs = var_operand_def()
    pattern = prop_def(StringAttr)
    level = prop_def(StringAttr)
    body = region_def("single_block")
    outputs = var_result_def()
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    @staticmethod
    def of(
        pattern: str,
        level: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region,
        location: LocationAttr | None = None,
    ) -> CompositeOp:
        return CompositeOp.create(
            operands=inputs,
            result_types=result_types,
            properties={"pattern": StringAttr(pattern), "level": StringAttr(level)},
            regions=[body],
            location=location or UNKNOWN_LOC,
        )

    def verify_(self) -> None:
        self._verify_body(self.body)
        level = self.level.data
        expect(level in ("graph", "tensor"), f"expected level graph or tensor, found {level}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.pattern)
        printer.print_string(" at ")
        printer.print_attribute(self.level)
        _print_interface(printer, self)
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> CompositeOp:
        pattern = parser.parse_str_literal()
        parser.parse_keyword("at")
        level = parser.parse_str_literal()
        inputs, types, body = _parse_interface(parser)
        return CompositeOp.of(pattern, level, inputs, types, body)


@irdl_op_definition
class RegionOp(_Enclosing):
    """Composites that one target takes in one call, e.g.
    `%y = byoc.region #byoc.target<"vta", {}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> { … }`."""

    name = "byoc.region"

    inputs = var_operand_def()
    target = prop_def(TargetAttr)
    body = region_def("single_block")
    outputs = var_result_def()
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    @staticmethod
    def of(
        target: TargetAttr,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region,
        location: LocationAttr | None = None,
    ) -> RegionOp:
        return RegionOp.create(
            operands=inputs,
            result_types=result_types,
            properties={"target": target},
            regions=[body],
            location=location or UNKNOWN_LOC,
        )

    def verify_(self) -> None:
        self._verify_body(self.body)
        for op in self.body.block.ops:
            allowed = isinstance(op, CompositeOp | YieldOp)
            expect(allowed, f"expected only composites in a region, found {op.name}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.target)
        _print_interface(printer, self)
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> RegionOp:
        target = parser.parse_attribute()
        if not isinstance(target, TargetAttr):
            parser.raise_error("expected a #byoc.target")
        inputs, types, body = _parse_interface(parser)
        return RegionOp.of(target, inputs, types, body)


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of a region function, e.g.
    `%y = byoc.call @vta_0(%x) : (tensor<4xi8>) -> tensor<4xi8>`.

    The call is on tensors. The function is either on the same tensors or, after bufferisation,
    takes one memref per input and then one per output, which it fills. `handed_off` records what
    the call stands for; it stays when the function becomes a program.
    """

    name = "byoc.call"

    callee = prop_def(FlatSymbolRefAttrConstr)
    handed_off = opt_prop_def(HandedOffAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    @staticmethod
    def of(
        callee: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        handed_off: HandedOffAttr | None = None,
        location: LocationAttr | None = None,
    ) -> CallOp:
        properties: dict[str, Attribute] = {"callee": SymbolRefAttr(callee)}
        if handed_off is not None:
            properties["handed_off"] = handed_off
        return CallOp.create(
            operands=inputs,
            result_types=result_types,
            properties=properties,
            location=location or UNKNOWN_LOC,
        )

    def verify_type(self, callee: FunctionType) -> None:
        """Raises VerifyException unless this call fits a function of this type."""
        ins, outs = [v.type for v in self.inputs], [r.type for r in self.outputs]
        inputs, outputs = list(callee.inputs), list(callee.outputs)
        fits = (inputs, outputs) == (ins, outs)
        in_buffers = not outputs and len(inputs) == len(ins) + len(outs)
        expect(
            fits or in_buffers,
            f"expected @{self.callee.root_reference.data} to take {_join(ins)} and give "
            f"{_join(outs)}, found {callee}",
        )


def _print_interface(printer: Printer, op: CompositeOp | RegionOp) -> None:
    printer.print_string(" (")
    for i, (arg, value) in enumerate(zip(op.body.block.args, op.inputs, strict=True)):
        printer.print_string(", " if i else "")
        printer.print_ssa_value(arg)
        printer.print_string(" = ")
        printer.print_ssa_value(value)
        printer.print_string(" : ")
        printer.print_attribute(value.type)
    printer.print_string(")")
    if op.outputs:
        printer.print_string(" -> ")
        printer.print_list([r.type for r in op.outputs], printer.print_attribute)
    printer.print_string(" ")


def _parse_interface(parser: Parser) -> tuple[list[SSAValue], list[Attribute], Region]:
    inputs: list[SSAValue] = []
    arguments: list[Parser.Argument] = []

    def parse_input() -> None:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        inputs.append(parser.resolve_operand(unresolved, type_))
        arguments.append(argument.resolve(type_))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_input)
    types: list[Attribute] = []
    if parser.parse_optional_punctuation("->") is not None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return inputs, types, parser.parse_region(arguments)


def enclosing_body(types: Iterable[Attribute]) -> Block:
    """An empty body block for a composite or region with inputs of these types."""
    return Block(arg_types=list(types))


def inline(op: CompositeOp | RegionOp) -> None:
    """Replaces a composite or region by the ops of its body."""
    block = op.body.block
    for arg, value in zip(list(block.args), op.inputs, strict=True):
        arg.replace_all_uses_with(value)
    terminator = block.last_op
    assert isinstance(terminator, YieldOp)
    for result, value in zip(op.outputs, terminator.values, strict=True):
        result.replace_all_uses_with(value)
    terminator.detach()
    terminator.erase()
    parent = op.parent
    assert parent is not None
    inner: list[Operation] = list(block.ops)
    for moved in inner:
        moved.detach()
    parent.insert_ops_before(inner, op)
    op.detach()
    op.erase()


Byoc = Dialect(
    "byoc",
    [CallOp, CompositeOp, RegionOp, SourceOp, TrailOp, YieldOp],
    [DecisionAttr, HandedOffAttr, NodeAttr, RuleAttr, TakenAttr, TargetAttr],
)

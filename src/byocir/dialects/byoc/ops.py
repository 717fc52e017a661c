"""Defines the ops of the hand-off. They serve both levels: bodies hold graph ops or tir blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    FunctionType,
    LocationAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, RecursiveMemoryEffect

from byocir.dialects.bindings import parse_binding, print_binding
from byocir.dialects.byoc.records import (
    LEVELS,
    CutAttr,
    HandedOffAttr,
    TargetAttr,
    shared_text,
)
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.uses import erase, replace_uses


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a composite or region with its results, e.g. `byoc.yield %y : tensor<4xi8>`."""

    name = "byoc.yield"

    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


class _Enclosing(IRDLOperation):
    """Defines what ops share whose body takes their operands as arguments and yields their
    results."""

    def _verify_body(self, body: Region) -> None:
        found = [arg.type for arg in body.block.args]
        expected = [v.type for v in self.operands]
        expect(
            found == expected,
            lambda: f"expected body arguments {_join(expected)}, found {_join(found)}",
        )
        last = body.block.last_op
        expect(isinstance(last, YieldOp), "expected the body to end in byoc.yield")
        assert last is not None
        given, promised = [v.type for v in last.operands], [r.type for r in self.results]
        expect(
            given == promised,
            lambda: f"expected yielded values {_join(promised)}, found {_join(given)}",
        )


def _join(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class CompositeOp(_Enclosing):
    """Holds a matched pattern: its ops, moved where other patterns do not see them, e.g.

    ```mlir
    %y = byoc.composite "npu.relu" at "graph" (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
      %r = graph.relu %a : (tensor<4xi8>) -> tensor<4xi8>
      byoc.yield %r : tensor<4xi8>
    }
    ```

    Isolated from above, so it can be inlined back. Constants that the pattern calls constant are in
    the body; everything else comes in as an operand. After the level, `group "stem"` is the group
    whose regions it goes into, `by "m, = tile(gemm, m=4)"` the script of primitives by which its
    blocks are to be scheduled, `constants [1, 2]` the positions of inputs that the pattern calls
    constant and that are passed in.
    """

    name = "byoc.composite"

    inputs = var_operand_def()
    pattern = prop_def(StringAttr)
    level = prop_def(StringAttr)
    group = opt_prop_def(StringAttr)
    schedule = opt_prop_def(StringAttr)
    constants = opt_prop_def(DenseArrayBase.constr(i64))
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
            properties={"pattern": shared_text(pattern), "level": shared_text(level)},
            regions=[body],
            location=location or UNKNOWN_LOC,
        )

    def on(
        self, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region
    ) -> CompositeOp:
        """Gives a composite of the same pattern, with the same attributes, whose inputs, result
        types and body are these.
        """
        return CompositeOp.create(
            operands=inputs,
            result_types=result_types,
            properties=dict(self.properties),
            attributes=dict(self.attributes),
            regions=[body],
            location=self.location,
        )

    def verify_(self) -> None:
        self._verify_body(self.body)
        level = self.level.data
        expect(level in LEVELS, f"expected level graph or tensor, found {level}")
        count = len(self.inputs)
        outside = [i for i in self.passed if not 0 <= i < count]
        expect(not outside, lambda: f"expected constants among {count} inputs, found {outside[0]}")

    @property
    def passed(self) -> tuple[int, ...]:
        """Lists the positions of the inputs that were constants in the body before they were passed
        in.
        """
        return tuple(self.constants.get_values()) if self.constants is not None else ()

    def pass_constant(self, value: SSAValue) -> SSAValue:
        """Adds an input for a constant of the body that is passed in from now on; gives the
        argument that stands for it in the body.
        """
        self.constants = DenseArrayBase.from_list(i64, [*self.passed, len(self.inputs)])
        self.operands = [*self.inputs, value]
        return self.body.block.insert_arg(value.type, len(self.body.block.args))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.pattern)
        printer.print_string(" at ")
        printer.print_attribute(self.level)
        _print_group(printer, self)
        if self.schedule is not None:
            printer.print_string(" by ")
            printer.print_attribute(self.schedule)
        if self.passed:
            printer.print_string(f" constants {[*self.passed]}")
        _print_interface(printer, self)
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> CompositeOp:
        pattern = parser.parse_str_literal()
        parser.parse_keyword("at")
        level = parser.parse_str_literal()
        group = _parse_group(parser)
        schedule = parser.parse_str_literal() if parser.parse_optional_keyword("by") else None
        constants = list[int]()
        if parser.parse_optional_keyword("constants"):
            square, number = parser.Delimiter.SQUARE, parser.parse_integer
            constants = parser.parse_comma_separated_list(square, number)
        inputs, types, body = _parse_interface(parser)
        made = CompositeOp.of(pattern, level, inputs, types, body)
        made.group = group
        if schedule is not None:
            made.schedule = StringAttr(schedule)
        if constants:
            made.constants = DenseArrayBase.from_list(i64, constants)
        return made


@irdl_op_definition
class RegionOp(_Enclosing):
    """Holds composites that one target takes in one call, e.g.

    ```mlir
    %y = byoc.region #byoc.target<"npu", {}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
      %b = byoc.composite "npu.relu" at "graph" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
        %r = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8>
        byoc.yield %r : tensor<4xi8>
      }
      byoc.yield %b : tensor<4xi8>
    }
    ```
    """

    name = "byoc.region"

    inputs = var_operand_def()
    target = prop_def(TargetAttr)
    group = opt_prop_def(StringAttr)
    cuts = opt_prop_def(ArrayAttr[CutAttr])
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
        _print_group(printer, self)
        if self.cuts is not None:
            printer.print_string(" cuts ")
            printer.print_attribute(self.cuts)
        _print_interface(printer, self)
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> RegionOp:
        target = parser.parse_attribute()
        if not isinstance(target, TargetAttr):
            parser.raise_error("expected a #byoc.target")
        group = _parse_group(parser)
        cuts = parser.parse_attribute() if parser.parse_optional_keyword("cuts") else None
        inputs, types, body = _parse_interface(parser)
        region = RegionOp.of(target, inputs, types, body)
        region.group = group
        if cuts is not None:
            region.properties["cuts"] = cuts
        return region


@irdl_op_definition
class CallOp(IRDLOperation):
    """Calls a region function, e.g. `%y = byoc.call @vta_0(%x) : (tensor<4xi8>) -> tensor<4xi8>`.

    The call is on tensors. The function is either on the same tensors or, after bufferisation,
    takes one memref per input and then one per output, which it fills. `handed_off` records what
    the call stands for, `group` the group that it is, `schedules` the script of each composite or
    an empty one, and `notes` what passes of its target tell users of it; all stay when the function
    becomes a program.
    """

    name = "byoc.call"

    callee = prop_def(FlatSymbolRefAttrConstr)
    handed_off = opt_prop_def(HandedOffAttr)
    group = opt_prop_def(StringAttr)
    schedules = opt_prop_def(ArrayAttr[StringAttr])
    notes = opt_prop_def(ArrayAttr[StringAttr])
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

    def add_note(self, note: str) -> None:
        """Adds a sentence about this call that the report shows."""
        self.notes = ArrayAttr([*(self.notes or ()), StringAttr(note)])

    def verify_type(self, callee: FunctionType) -> None:
        """Raises VerifyException unless the operands and results of this call have the types of
        this function.
        """
        ins, outs = [v.type for v in self.inputs], [r.type for r in self.outputs]
        inputs, outputs = list(callee.inputs), list(callee.outputs)
        fits = (inputs, outputs) == (ins, outs)
        in_buffers = not outputs and len(inputs) == len(ins) + len(outs)
        expect(
            fits or in_buffers,
            lambda: (
                f"expected @{self.callee.root_reference.data} to take {_join(ins)} and give "
                f"{_join(outs)}, found {callee}"
            ),
        )


@irdl_op_definition
class BeginOp(IRDLOperation):
    """Hands a value to ops that are marked for a target by hand, e.g.
    `%b = byoc.begin "vta" %x : tensor<4xi8>` or `byoc.begin "vta" group "stem" %x : …`."""

    T: ClassVar = VarConstraint("T", AnyAttr())

    name = "byoc.begin"

    target = prop_def(StringAttr)
    group = opt_prop_def(StringAttr)
    input = operand_def(T)
    output = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$target (`group` $group^)? $input attr-dict `:` type($input)"


@irdl_op_definition
class EndOp(IRDLOperation):
    """Hands a value out of ops that are marked for a target by hand, e.g.
    `%e = byoc.end "vta" %y : tensor<4xi8>`. What lies between begins and ends is the target's. Ops
    of a group share regions with each other and with no other ops."""

    T: ClassVar = VarConstraint("T", AnyAttr())

    name = "byoc.end"

    target = prop_def(StringAttr)
    group = opt_prop_def(StringAttr)
    input = operand_def(T)
    output = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$target (`group` $group^)? $input attr-dict `:` type($input)"


def _print_group(printer: Printer, op: CompositeOp | RegionOp) -> None:
    if op.group is not None:
        printer.print_string(" group ")
        printer.print_attribute(op.group)


def _parse_group(parser: Parser) -> StringAttr | None:
    given = parser.parse_optional_keyword("group")
    return StringAttr(parser.parse_str_literal()) if given else None


def _print_interface(printer: Printer, op: CompositeOp | RegionOp) -> None:
    printer.print_string(" (")
    bindings = list(zip(op.body.block.args, op.inputs, strict=True))
    printer.print_list(bindings, lambda binding: print_binding(printer, *binding))
    printer.print_string(")")
    if op.outputs:
        printer.print_string(" -> ")
        printer.print_list([r.type for r in op.outputs], printer.print_attribute)
    printer.print_string(" ")


def _parse_interface(parser: Parser) -> tuple[list[SSAValue], list[Attribute], Region]:
    bindings = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parse_binding(parser)
    )
    types: list[Attribute] = []
    if parser.parse_optional_punctuation("->") is not None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    body = parser.parse_region([argument for argument, _ in bindings])
    return [value for _, value in bindings], types, body


def calls_in(module: ModuleOp) -> dict[str, list[CallOp]]:
    """Lists the calls in a module by the function that they call."""
    found: dict[str, list[CallOp]] = {}
    for op in module.walk():
        if isinstance(op, CallOp):
            found.setdefault(op.callee.root_reference.data, []).append(op)
    return found


def composites_in(op: FuncOp | RegionOp) -> list[CompositeOp]:
    """Lists the composites of a function or a region, in order."""
    return [each for each in op.body.block.ops if isinstance(each, CompositeOp)]


def inline(op: CompositeOp | RegionOp) -> None:
    """Replaces a composite or region by the ops of its body."""
    block = op.body.block
    for arg, value in zip(list(block.args), op.inputs, strict=True):
        replace_uses(arg, value)
    terminator = block.last_op
    assert isinstance(terminator, YieldOp)
    for result, value in zip(op.outputs, terminator.values, strict=True):
        replace_uses(result, value)
    erase(terminator)
    parent = op.parent
    assert parent is not None
    inner: list[Operation] = list(block.ops)
    for moved in inner:
        moved.detach()
    parent.insert_ops_before(inner, op)
    erase(op)

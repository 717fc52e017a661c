"""`byocir ops`: prints the reference of the ops, read from their classes.

`docs/ops.md` holds the same sections for all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from textwrap import TextWrapper

import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Dialect, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    OptOperandDef,
    OptPropertyDef,
    OptResultDef,
    VarOperandDef,
    VarResultDef,
)
from xdsl.utils.exceptions import VerifyException

from byocir.cli.guard import OK
from byocir.dialects.byoc import Byoc
from byocir.dialects.context import load_context
from byocir.dialects.docstrings import example_of, fields_of, meaning_of, module_of_example
from byocir.dialects.graph import Graph, GraphOp
from byocir.dialects.graph.base import Way
from byocir.dialects.tir import Tir
from byocir.dialects.types import element_type_of, has_element, named_elements, shape_of, tensor
from byocir.errors import ByocirError, did_you_mean
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.importer import import_onnx
from byocir.frontend.onnx.table import TABLE
from byocir.lowering.graph_to_tir.lower_op import STAYS

DIALECTS: dict[str, tuple[Dialect, str]] = {
    "graph": (Graph, "Operators on tensors, as ONNX has them in normalised form."),
    "tir": (Tir, "Blocks, loops and buffers: what operators become at the tensor level."),
    "byoc": (Byoc, "What is handed over to targets, at both levels."),
}
"""The dialects of the reference and what they hold. VTA's instructions have a page of their own."""

_PARAGRAPH = TextWrapper(100, break_long_words=False, break_on_hyphens=False)
_ONE_OP = TextWrapper(100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)

_WAYS = {
    Way.BLOCKS: "blocks (`tir.block`)",
    Way.LOOP: "a loop that carries values (`tir.for`)",
    Way.EXTERN: "a call of a routine (`tir.extern`)",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("op", nargs="?", help="one of them, graph.conv (default: list all)")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Lists the ops, or describes one; gives the exit code."""
    print(list_ops() if options.op is None else describe_op(options.op))
    return OK


def list_ops() -> str:
    """Lists all ops, each with the first sentence on it."""
    kinds = all_ops()
    width = max(map(len, kinds))
    return "\n".join(f"{name:<{width}}  {_first(kind)}" for name, kind in kinds.items())


def _first(kind: type[IRDLOperation]) -> str:
    line = " ".join(meaning_of(kind).split())
    return f"{line.partition('. ')[0].rstrip('.')}."


@cache
def all_ops() -> dict[str, type[IRDLOperation]]:
    """Gives the classes of all ops of the reference, by name."""
    kinds = [op for dialect, _ in DIALECTS.values() for op in dialect.operations]
    return {kind.name: kind for kind in kinds if issubclass(kind, IRDLOperation)}


def describe_op(name: str, heading: str = "#") -> str:
    """Describes an op in markdown. Raises ByocirError B203 for one that there is not."""
    kinds = all_ops()
    kind = kinds.get(name) or kinds.get(f"graph.{name}")
    if kind is None:
        raise ByocirError(
            "B203",
            f"expected an op such as graph.conv, found '{name}'",
            help=did_you_mean(name, list(kinds)),
        )
    parts = [f"{heading} {kind.name}", *_section(kind)]
    return "\n\n".join(part for part in parts if part)


def _section(kind: type[IRDLOperation]) -> Iterator[str]:
    """Yields the parts of the description of an op."""
    example = module_of_example(example_of(kind), load_context())
    op = next(each for each in example.walk() if isinstance(each, kind))
    form = onnx_form(example, op) if isinstance(op, GraphOp) else OnnxForm()
    yield wrapped(meaning_of(kind))
    for rows in (_operands(op), _results(op), _attributes(op, form)):
        if len(rows) > 2:
            yield "\n".join(rows)
    yield "\n".join(_places(kind, form))
    yield f"```mlir\n{_lines(example_of(kind))}\n```"


def wrapped(text: str) -> str:
    """Breaks paragraphs anew, into lines that are as long as those of the pages."""
    paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
    return "\n\n".join(_PARAGRAPH.fill(each) for each in paragraphs)


def _lines(example: str) -> str:
    """Breaks an example that is one long line into several."""
    if "\n" in example:
        return example
    return _ONE_OP.fill(example)


def _operands(op: IRDLOperation) -> list[str]:
    rows = ["| operand | type | in the example |", "| --- " * 3 + "|"]
    elements = _elements(op) if isinstance(op, GraphOp) else {}
    for name, definition in op.get_irdl_definition().operands:
        values = _values(op, name)
        taken = dict.fromkeys(each for value in values for each in elements.get(value, ()))
        kind = f"tensor of {', '.join(taken)}" if taken else _kinds(definition.constr)
        rows.append(_row(_named(name, definition), kind, _types(values)))
    return rows


def _results(op: IRDLOperation) -> list[str]:
    rows = ["| result | in the example |", "| --- " * 2 + "|"]
    for name, definition in op.get_irdl_definition().results:
        rows.append(_row(_named(name, definition), _types(_values(op, name))))
    return rows


def _attributes(op: IRDLOperation, form: OnnxForm) -> list[str]:
    default = " left out in ONNX |" if isinstance(op, GraphOp) else ""
    rows = [f"| attribute | kind |{default}", "| --- " * (3 if default else 2) + "|"]
    fields = fields_of(type(op))
    for name, definition in op.get_irdl_definition().properties.items():
        if name in ("operandSegmentSizes", "resultSegmentSizes"):
            continue
        told = f": {fields[name]}" if name in fields else ""
        cells = [f"{_named(name, definition)}{told}", _kinds(definition.constr)]
        rows.append(_row(*cells, *([_left_out(name, op, form)] if default else [])))
    return rows


def _left_out(name: str, op: IRDLOperation, form: OnnxForm) -> str:
    """Says which value an attribute has where a node of ONNX leaves it out."""
    value = form.defaults.get(name)
    if value is not None:
        return f"`{value}`"
    return "has to be given" if name in form.needed else ""


def _named(name: str, definition: object) -> str:
    if isinstance(definition, OptOperandDef | OptResultDef | OptPropertyDef):
        return f"`{name}`, optional"
    is_many = isinstance(definition, VarOperandDef | VarResultDef)
    return f"`{name}`, any number" if is_many else f"`{name}`"


def _values(op: IRDLOperation, name: str) -> Sequence[SSAValue]:
    value: SSAValue | Sequence[SSAValue] | None = getattr(op, name)
    return [value] if isinstance(value, SSAValue) else value or ()


def _types(values: Sequence[SSAValue]) -> str:
    return ", ".join(f"`{value.type}`" for value in values)


_KINDS = {
    "array": "integers",
    "builtin.float": "number",
    "graph.array": "numbers of a tensor",
    "integer": "integer",
    "list": "list",
    "string": "string",
}
"""Gives names of attributes that say more than the last part of their class names, by that part."""


def _kinds(constraint: object) -> str:
    """Names the kinds of types or attributes that a constraint allows."""
    while not isinstance(constraint, AttrConstraint):  # of operands, around that of each
        inner = getattr(constraint, "constraint", None) or getattr(constraint, "constr", None)
        if inner is None:
            return "any"
        constraint = inner
    names = sorted(base.name for base in constraint.get_bases() or ())
    return " or ".join(_KINDS.get(name, name.removeprefix("builtin.")) for name in names) or "any"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _places(kind: type[IRDLOperation], form: OnnxForm) -> Iterator[str]:
    """Says where an op comes from, at which levels it is, and which hosts run it."""
    if not issubclass(kind, GraphOp) and kind not in STAYS:
        return
    if form.read:
        yield f"- In ONNX: {', '.join(form.read)}."
    elif form.written:
        yield f"- In ONNX: no operator alone; written as {', '.join(form.written)}."
    if not issubclass(kind, GraphOp):
        yield f"- At the tensor level it stays: {STAYS[kind]}."
        yield "- Hosts: `reference` evaluates it; the code of `c` calls the evaluator back."
        return
    yield f"- At the tensor level it becomes {_WAYS[kind.WAY]}."
    yield "- Hosts: `reference` evaluates it; `c` compiles what it became."


def _elements(op: GraphOp) -> dict[SSAValue, list[str]]:
    """Finds the element types that each operand can have, by trying all there are in place of the
    example's: operands that have the same type there change together.
    """
    groups = [*dict.fromkeys(element_type_of(value.type) for value in op.operands)]
    required = {
        name: op.properties[name]
        for name, definition in op.get_irdl_definition().properties.items()
        if not isinstance(definition, OptPropertyDef) and name in op.properties
    }
    known = {name: each for name, each in named_elements().items() if has_element(each)}
    fitting = [
        chosen
        for chosen in product(known.items(), repeat=len(groups))
        if _fits(op, {old: new for old, (_, new) in zip(groups, chosen, strict=True)}, required)
    ]
    taken = {
        group: {name for name, _ in (chosen[index] for chosen in fitting)}
        for index, group in enumerate(groups)
    }
    return {v: [n for n in known if n in taken[element_type_of(v.type)]] for v in op.operands}


def _fits(op: GraphOp, to: dict[Attribute, Attribute], properties: dict[str, Attribute]) -> bool:
    """Tells if an op accepts its example's operands with other element types; `to` has the new type
    for each old one.
    """
    types = [tensor(to[element_type_of(v.type)], shape_of(v.type)) for v in op.operands]
    draft = type(op).create(
        operands=Block(arg_types=types).args, result_types=[], properties=properties
    )
    try:
        draft.infer()
    except VerifyException:
        return False
    return True


@dataclass(frozen=True)
class OnnxForm:
    """Names the operators of ONNX that an op is read from and written as, the values that its
    attributes have where a node leaves them out, and those that a node needs."""

    read: Sequence[str] = ()
    written: Sequence[str] = ()
    defaults: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    needed: Sequence[str] = ()


def onnx_form(example: ModuleOp, op: GraphOp) -> OnnxForm:
    """Gives the form of an op of an example, the only one there."""
    model = export_onnx(example)
    read = [entry.onnx for entry in TABLE if entry.op is type(op) and entry.onnx]
    written = [*dict.fromkeys(node.op_type for node in model.graph.node)]
    given = {attribute.name for node in model.graph.node for attribute in node.attribute}
    tried = [name for name in op.properties if read and name in given]
    bare = {name: _read_without(name, model, op) for name in tried}
    defaults = {name: value for name, value in bare.items() if value is not None}
    return OnnxForm(read, written, defaults, [name for name in bare if name not in defaults])


def _read_without(name: str, model: onnx.ModelProto, op: GraphOp) -> Attribute | None:
    """Reads a model without one attribute of its nodes, and gives the value that the op then has;
    None where nodes need it.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for node in bare.graph.node:
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
    try:
        module = import_onnx(bare)
    except ByocirError:
        return None
    return next((o.properties.get(name) for o in module.walk() if isinstance(o, type(op))), None)

"""Exports graph level to ONNX, through the op table.

Requires a function of graph ops and foreign ops; what was handed over to targets at the graph
level is put back in its place. Guarantees: a model valid for onnx's checker that computes the same;
inputs and outputs keep their names and sizes, nodes carry their locations' names. Its opset is the
working one if all nodes mean there what they do at theirs, else the next that they agree on, newer
ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from byocir.dialects.byoc import DIMS, NAME
from byocir.dialects.graph import ConstantOp, ForeignOp, GraphOp, YieldOp
from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.frontend.onnx.foreign import node_of
from byocir.frontend.onnx.forms import Versioned, common_opset
from byocir.frontend.onnx.handed_over import BEFORE_LOWERING, OpPlacement, inlined
from byocir.frontend.onnx.opset import IR_VERSION, OPSET, RUNTIME_OPSET
from byocir.frontend.onnx.shapes import UNNAMED
from byocir.frontend.onnx.table import writer_of
from byocir.frontend.onnx.types import proto_of
from byocir.frontend.onnx.writer import GraphWriter

Notes = Callable[[Operation, OpPlacement | None], Mapping[str, str]]
"""Gives the metadata of an op's nodes, by the place to which the op was handed over."""


def export_onnx(source: ModuleOp | FuncOp, notes: Notes = lambda op, place: {}) -> onnx.ModelProto:
    """Exports the ONNX model of a function of graph ops, or of the only function of a module.
    Raises ByocirError B109 for an op that has no ONNX form, and for ops that no opset has together,
    B302 for a call of a function without a body."""
    function, places = inlined(source if isinstance(source, FuncOp) else _only_function(source))
    graph = GraphWriter(notes=lambda op: notes(op, places.get(op)))
    inputs = _port_names(function.arg_attrs, "input", len(function.args))
    outputs = _port_names(function.res_attrs, "output", len(function.function_type.outputs))
    for argument, name in zip(function.args, inputs, strict=True):
        graph.bind(argument, graph.fresh(name))
    for name in outputs:
        graph.fresh(name)
    results = _write_block(function.body.block, graph)
    _name_results(graph, results, outputs)
    return _model(graph, function, inputs, outputs, results)


def _only_function(module: ModuleOp) -> FuncOp:
    functions = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    if len(functions) != 1:
        raise ByocirError("B109", f"expected one function to export, found {len(functions)}")
    return functions[0]


def _port_names(
    attributes: ArrayAttr[DictionaryAttr] | None, default: str, count: int
) -> list[str]:
    """Finds the names of inputs or outputs: `byoc.name` where it is set."""
    found: list[str] = []
    for index in range(count):
        name = attributes.data[index].data.get(NAME) if attributes is not None else None
        found.append(name.data if isinstance(name, StringAttr) else f"{default}_{index}")
    return found


def _write_block(block: Block, graph: GraphWriter) -> Sequence[SSAValue]:
    """Writes the ops of a block; gives what it returns."""
    for op in block.ops:
        if isinstance(op, ReturnOp | YieldOp):
            return list(op.operands)
        if isinstance(op, ConstantOp):
            continue  # becomes an initializer where it is first used
        before = len(graph.nodes)
        if isinstance(op, ForeignOp):
            _write_foreign(op, graph)
        else:
            _write(op, graph)
        for node in graph.nodes[before:]:
            node.metadata_props.extend(_entries(graph.notes(op)))
    return ()


def _write(op: Operation, graph: GraphWriter) -> None:
    write = writer_of(op)
    if write is None or not isinstance(op, GraphOp):
        raise ByocirError(
            "B109",
            f"expected graph ops that have an ONNX form, found {op.name}",
            where=", ".join(names(op.location)),
            help=BEFORE_LOWERING,
        )
    graph.prefix = "+".join(names(op.location)) or op.name.rpartition(".")[2]
    made = write(op, graph)
    for result, name in zip(op.results, [made] if isinstance(made, str) else made, strict=True):
        graph.bind(result, name)


def _write_foreign(op: ForeignOp, graph: GraphWriter) -> None:
    name = graph.fresh("+".join(names(op.location)) or op.op_type.data)
    inputs = ["" if value is None else graph.name(value) for value in op.optional_inputs()]
    results = iter(op.outputs)
    outputs: list[str] = []
    for index, there in enumerate(op.present_outputs()):
        outputs.append(graph.fresh(f"{name}_result_{index}") if there else "")
        if there:
            graph.bind(next(results), outputs[-1])
    node = node_of(op, inputs, outputs, name, lambda region: _write_graph(region, graph, name))
    graph.add(node, op.opset.value.data)


def _write_graph(region: Region, graph: GraphWriter, name: str) -> onnx.GraphProto:
    """Writes a graph inside a node. Its outputs are copied where they are inputs of its own or
    values of another graph, as ONNX wants outputs to be made inside.
    """
    inner = graph.inner()
    inputs: list[onnx.ValueInfoProto] = []
    for index, argument in enumerate(region.block.args):
        inner.bind(argument, inner.fresh(f"{name}_input_{index}"))
        inputs.append(onnx.ValueInfoProto(name=inner.name(argument), type=proto_of(argument.type)))
    outputs: list[onnx.ValueInfoProto] = []
    results = _write_block(region.block, inner)
    made = {output for node in inner.nodes for output in node.output}
    for value in results:
        found = inner.name(value)
        if found not in made:
            found = inner.node("Identity", [found])
        made.discard(found)
        outputs.append(onnx.ValueInfoProto(name=found, type=proto_of(value.type)))
    constants = list(inner.initializers.values())
    return onnx.helper.make_graph(inner.nodes, f"{name}_graph", inputs, outputs, constants)


def _name_results(graph: GraphWriter, results: Sequence[SSAValue], outputs: Sequence[str]) -> None:
    """Gives the results their names: a node's output is renamed, what is an input, a constant or
    another result already is copied."""
    made = {name for node in graph.nodes for name in node.output if name}
    renamed: dict[str, str] = {}
    for value, wanted in zip(results, outputs, strict=True):
        name = graph.name(value)
        if name in made and name not in renamed:
            renamed[name] = wanted
        elif name != wanted:  # an input may be an output under its own name
            copy = onnx.helper.make_node("Identity", [name], [wanted], name=graph.fresh(wanted))
            graph.add(copy, OPSET)
    for node in graph.nodes:
        _rename(node, renamed)


def _rename(node: onnx.NodeProto, renamed: dict[str, str]) -> None:
    for names_ in (node.input, node.output):
        for index, name in enumerate(names_):
            names_[index] = renamed.get(name, name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                _rename(inner, renamed)


def _model(
    graph: GraphWriter,
    function: FuncOp,
    inputs: Sequence[str],
    outputs: Sequence[str],
    results: Sequence[SSAValue],
) -> onnx.ModelProto:
    return onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            function.sym_name.data,
            [
                _port(name, value, dims)
                for name, value, dims in zip(inputs, function.args, _dims(function), strict=True)
            ],
            [_port(name, value) for name, value in zip(outputs, results, strict=True)],
            list(graph.initializers.values()),
        ),
        opset_imports=_opsets(graph.versioned),
        ir_version=IR_VERSION,
        producer_name="byocir",
    )


def _opsets(nodes: Sequence[Versioned]) -> list[onnx.OperatorSetIdProto]:
    """Chooses the opset of each domain; raises ByocirError B109 if its nodes agree on none."""
    by_domain: dict[str, list[Versioned]] = {"": []}
    for node, version in nodes:
        by_domain.setdefault(node.domain, []).append((node, version))
    made: list[onnx.OperatorSetIdProto] = []
    for domain, versioned in by_domain.items():
        opset = common_opset(versioned, _candidates(domain, versioned))
        if opset is None:
            found = {f"{node.op_type} of opset {version}": None for node, version in versioned}
            raise ByocirError(
                "B109",
                f"expected operators that share an opset of domain '{domain or 'ai.onnx'}', found "
                f"{', '.join(found)}",
                help="export the original model again with a newer opset",
            )
        made.append(onnx.helper.make_opsetid(domain, opset))
    return made


def _candidates(domain: str, nodes: Sequence[Versioned]) -> list[int]:
    """Lists the opsets to try, the best first: those that ONNX Runtime reads come first, and newer
    ones before older ones, because operators lose nothing with time but gain types.
    """
    own = sorted({version for _, version in nodes}, reverse=True)
    if domain:
        return own if len(own) == 1 else [*own, *range(own[0], 0, -1)]
    newest = onnx.defs.onnx_opset_version()
    return [
        *range(OPSET, RUNTIME_OPSET + 1),
        *range(OPSET - 1, 0, -1),
        *range(RUNTIME_OPSET + 1, newest + 1),
    ]


def _dims(function: FuncOp) -> list[Sequence[str]]:
    """Lists the sizes of each input as the model wrote them, where it left some open."""
    found: list[Sequence[str]] = []
    for index in range(len(function.args)):
        attributes = function.arg_attrs
        dims = attributes.data[index].data.get(DIMS) if attributes is not None else None
        texts = cast("ArrayAttr[StringAttr]", dims) if isinstance(dims, ArrayAttr) else ()
        found.append([text.data for text in texts])
    return found


def _port(name: str, value: SSAValue, dims: Sequence[str] = ()) -> onnx.ValueInfoProto:
    """Makes an input or output; open sizes keep the names they had."""
    port = onnx.ValueInfoProto(name=name, type=proto_of(value.type))
    for size, text in zip(port.type.tensor_type.shape.dim, dims, strict=False):
        if not size.HasField("dim_value") and text != UNNAMED:
            size.dim_param = text
    return port


def _entries(texts: Mapping[str, str]) -> list[onnx.StringStringEntryProto]:
    return [onnx.StringStringEntryProto(key=key, value=text) for key, text in texts.items()]

"""Graph level to ONNX, through the op table.

Requires a function of graph ops. Guarantees: a model valid for onnx's checker, at opset `OPSET` and
an IR version that ONNX Runtime reads, that computes the same; nodes carry their locations' names.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from byocir.dialects.byoc import NAME
from byocir.dialects.graph import ConstantOp, GraphOp
from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.frontend.onnx.opset import IR_VERSION, OPSET
from byocir.frontend.onnx.table import WRITERS
from byocir.frontend.onnx.writer import GraphWriter, element, onnx_type, shape


def export_onnx(source: ModuleOp | FuncOp) -> onnx.ModelProto:
    """The ONNX model of a function of graph ops, or of the only function of a module. Raises
    ByocirError B109 for an op that has no ONNX form."""
    function = source if isinstance(source, FuncOp) else _only_function(source)
    graph = GraphWriter()
    inputs = _port_names(function.arg_attrs, "input", len(function.args))
    outputs = _port_names(function.res_attrs, "output", len(function.function_type.outputs))
    for argument, name in zip(function.args, inputs, strict=True):
        graph.bind(argument, graph.fresh(name))
    for name in outputs:
        graph.fresh(name)
    results: Sequence[SSAValue] = ()
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            results = op.arguments
        elif not isinstance(op, ConstantOp):
            _write(op, graph)
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
    """The names of inputs or outputs: `byoc.name` where it is given."""
    found: list[str] = []
    for index in range(count):
        name = attributes.data[index].data.get(NAME) if attributes is not None else None
        found.append(name.data if isinstance(name, StringAttr) else f"{default}_{index}")
    return found


def _write(op: Operation, graph: GraphWriter) -> None:
    write = WRITERS.get(type(op)) if isinstance(op, GraphOp) else None
    if write is None or not isinstance(op, GraphOp):
        raise ByocirError(
            "B109",
            f"expected graph ops that have an ONNX form, found {op.name}",
            where=", ".join(names(op.location)),
        )
    graph.prefix = "+".join(names(op.location)) or op.name.removeprefix("graph.")
    made = write(op, graph)
    for result, name in zip(op.results, [made] if isinstance(made, str) else made, strict=True):
        graph.bind(result, name)


def _name_results(graph: GraphWriter, results: Sequence[SSAValue], outputs: Sequence[str]) -> None:
    """Gives the results their names: a node's output is renamed, what is an input, a constant or
    another result already is copied."""
    made = {name for node in graph.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for value, wanted in zip(results, outputs, strict=True):
        name = graph.name(value)
        if name in made and name not in renamed:
            renamed[name] = wanted
        else:
            graph.nodes.append(onnx.helper.make_node("Identity", [name], [wanted], name=wanted))
    for node in graph.nodes:
        for names_ in (node.input, node.output):
            for index, name in enumerate(names_):
                names_[index] = renamed.get(name, name)


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
            [_port(name, value) for name, value in zip(inputs, function.args, strict=True)],
            [_port(name, value) for name, value in zip(outputs, results, strict=True)],
            list(graph.initializers.values()),
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="byocir",
    )


def _port(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx_type(element(value)), shape(value))

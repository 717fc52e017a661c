"""Imports ONNX models to graph level.

Requires nothing of the model but that onnx's checker accepts it. Guarantees: a module with one
public function `main`, every op located at its ONNX node, inputs and outputs named by `byoc.name`
(and symbolic sizes by `byoc.dims`), and at its end a `byoc.source` op that lists the nodes of the
file. What the op table has a form of is graph ops on tensors of static shape; every other node is a
`graph.foreign` that says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Region, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.array import ArrayAttr as ArrayValue
from byocir.dialects.byoc import DECLARED, DEFAULT, DIMS, INITIALISED, NAME, Node, SourceOp
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.graph import ForeignOp
from byocir.dialects.locations import names
from byocir.dialects.trip_counts import trip_count_around
from byocir.dialects.types import DYNAMIC, shape_of, sizes_shown, tensor
from byocir.errors import ByocirError
from byocir.frontend.onnx.entry import Entry
from byocir.frontend.onnx.load import Model, load_model
from byocir.frontend.onnx.quantised_ops import quantised_ops
from byocir.frontend.onnx.scope import Context, Scope
from byocir.frontend.onnx.shapes import Declared, input_shapes
from byocir.frontend.onnx.table import readers_of
from byocir.frontend.onnx.tensors import Unsupported
from byocir.frontend.onnx.types import type_of
from byocir.memory import expect_memory


@gc_paused()
def import_onnx(
    model: Model,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    operators: Sequence[Entry] = (),
) -> ModuleOp:
    """Imports an ONNX model, given as a path, as bytes or as a ModelProto.

    `shapes` pins inputs whose shape the model leaves open: input name to shape; `operators` are
    entries beyond those of the op table. Raises ByocirError
    B101 to B106; see `byocir.frontend.onnx.load`.
    """
    loaded = load_model(model)
    context = Context(loaded, readers_of(operators))
    function = _main(loaded.proto.graph, context, shapes or {})
    turns, quantised = _turns(function), quantised_ops(loaded.proto.graph)
    macs = {name: own * (turns.get(name, 1) or 1) for name, own in context.macs.items()}
    nodes = [
        Node(n.name, n.op_type, macs.get(n.name, 0), quantised.get(n.name, ""))
        for n in context.listed_nodes
    ]
    per_turn = [node.name for node in nodes if node.macs and turns.get(node.name, 1) is None]
    return ModuleOp([function, SourceOp.of(nodes, per_turn)])


def _turns(function: FuncOp) -> dict[str, int | None]:
    """Counts, for each node, how often its loops run it; None where only the run tells."""
    turns: dict[str, int | None] = {}
    for flow in function.walk():
        if not isinstance(flow, ForeignOp) or not flow.is_control_flow:
            continue
        for op in (op for graph in flow.graphs for op in graph.block.ops):
            for name in names(op.location):
                turns[name] = trip_count_around(op)
    return turns


def _main(graph: onnx.GraphProto, context: Context, shapes: Mapping[str, Sequence[int]]) -> FuncOp:
    """Makes the function `main` of the whole graph. An input with a default value becomes a
    constant, unless its shape is given.
    """
    own = {tensor.name: tensor for tensor in graph.initializer}
    own |= {sparse.values.name: sparse for sparse in graph.sparse_initializer}
    weights = own.keys() - {value.name for value in graph.input if value.name in shapes}
    inputs = [value for value in graph.input if value.name not in weights]
    pinned = input_shapes([v for v in inputs if v.type.HasField("tensor_type")], shapes)
    scope = Scope(context, graph)
    for value in inputs:
        # Nobody could feed such an input, and what is computed of it is no smaller.
        if value.name in shapes:
            expect_memory(math.prod(shapes[value.name]), "an input", f"input '{value.name}'")
        scope.add_argument(value.name, _input_type(value, pinned.get(value.name)))
    defaults = _defaults({n: own[n] for n in (v.name for v in inputs) if n in own}, scope, pinned)
    results = scope.run()
    for port, value in zip(graph.output, results, strict=True):
        _check_result(port, value.type)
    scope.block.add_op(ReturnOp(*results))
    function = FuncOp(
        "main",
        ([a.type for a in scope.block.args], [value.type for value in results]),
        Region(scope.block),
        visibility="public",
        arg_attrs=_ports(inputs, pinned, defaults),
        res_attrs=_outputs(graph.output, results),
    )
    initialised = [value.name for value in graph.input if value.name in weights]
    if initialised:
        function.attributes[INITIALISED] = ArrayAttr(list(map(StringAttr, initialised)))
    return function


def _defaults(
    tensors: Mapping[str, onnx.TensorProto | onnx.SparseTensorProto],
    scope: Scope,
    shapes: Mapping[str, Declared],
) -> dict[str, ArrayValue]:
    """Reads the default values of inputs. Raises ByocirError B106 for other shapes."""
    found: dict[str, ArrayValue] = {}
    for name, own in tensors.items():
        value = scope.constant_of(own)
        if not isinstance(value, Array):  # a default value of strings
            continue
        if [*value.shape] != shapes[name]:
            sizes = ",".join(map(str, value.shape))
            raise ByocirError(
                "B106", f"expected shape {sizes} for '{name}', as its own value has, found another"
            )
        found[name] = ArrayValue(value)
    return found


def _input_type(value: onnx.ValueInfoProto, shape: Declared) -> Attribute:
    try:
        type_ = type_of(value.type)
    except Unsupported as error:
        raise ByocirError("B105", str(error), where=f"input '{value.name}'") from error
    if shape is None:
        return type_
    sizes = [size if isinstance(size, int) else DYNAMIC for size in shape]
    element = getattr(type_, "element_type", None)
    return tensor(element, sizes) if isinstance(element, Attribute) else type_


def _check_result(port: onnx.ValueInfoProto, found: Attribute) -> None:
    """Raises ByocirError B103 for an output whose element type is not the one that the model
    declares.
    """
    try:
        wanted = type_of(port.type)
    except Unsupported as error:
        raise ByocirError("B105", str(error), where=f"output '{port.name}'") from error
    elements = [getattr(type_, "element_type", None) for type_ in (wanted, found)]
    if all(isinstance(each, Attribute) for each in elements) and elements[0] != elements[1]:
        raise ByocirError(
            "B103",
            f"expected an output of {elements[0]}, as the model says, found {elements[1]}",
            where=f"output '{port.name}'",
        )


def _outputs(
    ports: Sequence[onnx.ValueInfoProto], results: Sequence[SSAValue]
) -> ArrayAttr[DictionaryAttr]:
    """Lists the names of outputs, with the sizes that the model declares where they differ."""
    entries: list[DictionaryAttr] = []
    for port, value in zip(ports, results, strict=True):
        wanted = type_of(port.type)
        named: dict[str, Attribute] = {NAME: StringAttr(port.name)}
        if not _may_be_of(wanted, value.type):
            named[DECLARED] = ArrayAttr([StringAttr(size) for size in sizes_shown(wanted)])
        entries.append(DictionaryAttr(named))
    return ArrayAttr(entries)


def _may_be_of(wanted: Attribute, found: Attribute) -> bool:
    """Tells if some array can have both types, by the sizes that are known."""
    for type_ in (wanted, found):
        if not isinstance(type_, TensorType):
            return True
    a, b = shape_of(wanted), shape_of(found)
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(m == n or DYNAMIC in (m, n) for m, n in pairs)


def _ports(
    values: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, Declared],
    defaults: Mapping[str, Attribute],
) -> ArrayAttr[DictionaryAttr]:
    ports: list[DictionaryAttr] = []
    for value in values:
        entries: dict[str, Attribute] = {NAME: StringAttr(value.name)}
        shape = shapes.get(value.name)
        if shape is not None and any(isinstance(size, str) for size in shape):
            entries[DIMS] = ArrayAttr([StringAttr(str(size)) for size in shape])
        if value.name in defaults:
            entries[DEFAULT] = defaults[value.name]
        ports.append(DictionaryAttr(entries))
    return ArrayAttr(ports)

"""Infers the result types of single nodes by onnx's shape inference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import onnx
from google.protobuf.message import EncodeError
from xdsl.ir import Attribute

from byocir.dialects.array import Array
from byocir.dialects.graph.values import UnknownType
from byocir.frontend.onnx.detached_weights import inner_graphs
from byocir.frontend.onnx.equation import TERM
from byocir.frontend.onnx.forms import same_form
from byocir.frontend.onnx.opset import IR_VERSION
from byocir.frontend.onnx.reader import Value
from byocir.frontend.onnx.types import proto_of, type_of

SMALL = 64
"""Integer arrays of up to this many elements are told to inference: they may be shapes."""


def infer_types(
    node: onnx.NodeProto, inputs: Mapping[str, Value], opsets: Mapping[str, int]
) -> list[Attribute]:
    """Infers the type of each output of a node, unknown where onnx cannot tell. `inputs` are the
    values by the names that the node and its graphs use. Raises Unsupported for an element type
    that cannot be held.
    """
    if _wrong_count(node) or _has_odd_term(node):
        return [UnknownType() for _ in node.output]
    try:
        inferred = _infer(node, inputs, opsets, strict=False)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, EncodeError):
        return [UnknownType() for _ in node.output]
    types = {value.name: value.type for value in inferred.graph.output}
    return [type_of(types[name]) if name else UnknownType() for name in node.output]


def why_invalid(
    node: onnx.NodeProto, inputs: Mapping[str, Value], opsets: Mapping[str, int]
) -> str:
    """Says what is wrong with a node on these inputs, by ONNX's own rules; empty if nothing is."""
    if _wrong_count(node):
        return "its number of outputs is another"
    if _has_odd_term(node):
        return "its equation has terms that are not of letters and one ellipsis"
    try:
        _infer(node, inputs, opsets, strict=True)
    except onnx.shape_inference.InferenceError as error:
        return str(error)
    except (RuntimeError, ValueError, EncodeError):
        return ""
    return ""


def inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    """Infers the graph of a model with the types of all values, where they are known."""
    if any(_wrong_count(node) or _has_odd_term(node) for node in model.graph.node):
        return onnx.GraphProto()
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, EncodeError):
        return onnx.GraphProto()


def _wrong_count(node: onnx.NodeProto) -> bool:
    """Tells if a Split names another number of outputs than it has, which inference takes as
    given.
    """
    said = [a.i for a in node.attribute if a.name == "num_outputs"]
    return node.op_type == "Split" and bool(said) and said[0] != len(node.output)


def _has_odd_term(node: onnx.NodeProto) -> bool:
    """Tells if a term of an Einsum is more than letters and one ellipsis, on which inference would
    not end.
    """
    if node.op_type != "Einsum":
        return False
    equations = [a.s.decode(errors="replace") for a in node.attribute if a.name == "equation"]
    terms = [term for each in equations for term in re.split(",|->", each.replace(" ", ""))]
    return any(TERM.fullmatch(term) is None for term in terms)


def _infer(
    node: onnx.NodeProto, inputs: Mapping[str, Value], opsets: Mapping[str, int], *, strict: bool
) -> onnx.ModelProto:
    ports: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    for name, value in inputs.items():
        if isinstance(value, Array) and value.size <= SMALL and value.dtype.kind in "iub":
            constants.append(onnx.numpy_helper.from_array(value.values(), name))
        else:
            type_ = value.type
            ports.append(onnx.ValueInfoProto(name=name, type=proto_of(type_)))
    if not strict:
        node, opsets = _written_out(node), _newest(node, opsets)
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", ports, outputs, constants)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(
        model, check_type=strict, strict_mode=strict, data_prop=True
    )


def _written_out(node: onnx.NodeProto) -> onnx.NodeProto:
    """Writes out a default that onnx 1.23 infers wrongly: an STFT is one-sided."""
    if node.op_type != "STFT" or any(each.name == "onesided" for each in node.attribute):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.attribute.append(onnx.helper.make_attribute("onesided", 1))
    return made


def _newest(node: onnx.NodeProto, opsets: Mapping[str, int]) -> Mapping[str, int]:
    """Gives the opsets with that of ONNX raised to the newest at which the node means the same,
    because inference was corrected over time, as for pools that round up. Nodes with graphs keep
    theirs, as the types inside belong to it.
    """
    newest = onnx.defs.onnx_opset_version()
    if node.domain not in ("", "ai.onnx") or any(True for _ in inner_graphs(node)):
        return opsets
    return {**opsets, "": newest} if same_form(node, opsets.get("", 1), newest) else opsets


def free_names(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the names from outside that the graphs of a node use, in order, possibly repeated."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from _free_in_graph(attribute.g)


def _free_in_graph(graph: onnx.GraphProto) -> Iterator[str]:
    known = {value.name for value in graph.input}
    known |= {tensor.name for tensor in graph.initializer}
    known |= {sparse.values.name for sparse in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in node.input if name and name not in known)
        yield from (name for name in free_names(node) if name not in known)
        known.update(node.output)
    yield from (value.name for value in graph.output if value.name not in known)

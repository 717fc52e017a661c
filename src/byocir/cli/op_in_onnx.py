"""Tells how an op of the graph level is written in ONNX, by reading and writing its example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from byocir.dialects.graph import GraphOp
from byocir.errors import ByocirError
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.importer import import_onnx
from byocir.frontend.onnx.table import TABLE


@dataclass(frozen=True)
class OnnxForm:
    """The operators of ONNX that an op is read from and written as, the values that its attributes
    have where a node leaves them out, and those that a node needs."""

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
    """Reads a model without an attribute of its nodes, and gives what the op has in its place; None
    where nodes need it."""
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

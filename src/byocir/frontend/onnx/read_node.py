"""Reads one ONNX node as graph ops: at import, and again once more is known of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import onnx
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.graph import ForeignOp
from byocir.dialects.locations import names
from byocir.frontend.onnx.entry import Read
from byocir.frontend.onnx.foreign import node_of
from byocir.frontend.onnx.older_opsets import adapt, joins, read_joined
from byocir.frontend.onnx.opset import OPSET
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.table import reader_of
from byocir.frontend.onnx.tensors import NoForm, Unsupported

REFUSED = (Unsupported, VerifyException, TypeError, ValueError, LookupError, ArithmeticError)
"""Readers of a valid model raise the first two; hostile values may break them elsewhere."""


class Made(NamedTuple):
    """Holds the outputs that a node becomes, and the ops other than constants that make them."""

    outputs: Sequence[Value]
    emitted: Sequence[Operation]


def read_node(
    node: onnx.NodeProto,
    sources: Sequence[Value | None],
    opset: int,
    insert: Callable[[Operation], None],
    read: Read | None,
) -> Made:
    """Makes the graph ops that stand for a node of this opset, by the reader of its operator;
    `insert` takes each op as it is made. Raises one of `REFUSED`, when ops may have been made
    already.
    """
    if read is None:
        raise NoForm("no graph op stands for this operator")
    default = node.domain in ("", "ai.onnx")
    joined = default and joins(node, opset)
    if default and not joined:
        adapted = adapt(node, sources, opset)
        if adapted is None:
            raise NoForm(f"its form of opset {opset} differs from that of {OPSET}")
        node, sources = adapted
    reader = NodeReader(node, sources, insert)
    made = read_joined(reader, read) if joined else read(reader)
    if made is None:
        raise Unsupported("expected an axis of the input, found another")
    if not joined:
        reader.check_all_read()
    return Made(made if isinstance(made, Sequence) else [made], reader.emitted)


def read_again(
    op: ForeignOp, sources: Sequence[Value | None]
) -> tuple[list[Operation], list[Value]] | None:
    """Makes the ops, in no block yet, that an ONNX operator without graphs becomes on these inputs,
    and the outputs that it has; None where no graph ops stand for it.
    """
    if op.graphs:
        return None
    inputs = [f"input_{i}" if source is not None else "" for i, source in enumerate(sources)]
    present = op.present_outputs()
    outputs = [f"output_{i}" if there else "" for i, there in enumerate(present)]
    node = node_of(op, inputs, outputs, "+".join(names(op.location)), lambda _: onnx.GraphProto())
    made: list[Operation] = []
    opset = op.opset.value.data
    try:
        found = read_node(node, sources, opset, made.append, reader_of(node)).outputs
    except REFUSED:
        found = ()
    if not any(present[len(found) :]):
        return made, [value for value, there in zip(found, present, strict=False) if there]
    for each in reversed(made):
        each.erase()
    return None

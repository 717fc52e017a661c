"""Notes which operators of a model became several others before it was quantised.

ONNX defines some operators by others, and where ONNX Runtime has nothing else that computes them,
its quantiser gets, and quantises, these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import onnx


def notes(given: onnx.ModelProto, prepared: onnx.ModelProto) -> list[str]:
    """Says which operators of a model the prepared one computes by several others.

    Operators that were folded into neighbours are not meant: what makes a node's output must begin
    at the node's own inputs.
    """
    makers = {name: node for node in prepared.graph.node for name in node.output if name}
    inputs = {port.name for port in prepared.graph.input}
    constants = {weight.name for weight in prepared.graph.initializer}
    found = Counter[tuple[str, str]]()
    for node in given.graph.node:
        ends = [name for name in node.output if name in makers]
        if not _has_body(node.op_type) or any(makers[n].op_type == node.op_type for n in ends):
            continue
        parts = _between(ends, makers, {*node.input, *constants}, inputs)
        if len(parts) > 1:
            found[node.op_type, ", ".join(sorted({part.op_type for part in parts}))] += 1
    return [
        f"ONNX Runtime writes {count} {kind} with {parts}, and what lies between is quantised, too"
        for (kind, parts), count in sorted(found.items())
    ]


def _between(
    ends: Iterable[str],
    makers: dict[str, onnx.NodeProto],
    starts: set[str],
    inputs: set[str],
) -> list[onnx.NodeProto]:
    """Collects the nodes on the way from `ends` back to `starts`; none if it leads past these, to
    other inputs of the graph.
    """
    found: list[onnx.NodeProto] = []
    seen, waiting = set(starts), list(ends)
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        if name in inputs:
            return []
        node = makers.get(name)
        if node is not None:
            seen.update(node.output)
            found.append(node)
            waiting += node.input
    return found


def _has_body(kind: str) -> bool:
    schema: Any = onnx.defs.get_schema(kind) if onnx.defs.has(kind) else None
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)

"""Random ONNX graphs of the core set, with what ONNX Runtime computes node by node.

A node is drawn, run alone, and kept if ONNX Runtime takes it and its values are neither huge nor
NaN. Where a small difference would become a large one, as in rounding or comparing, only values
that are exact by definition are taken: inputs, and what moves, adds or multiplies them element by
element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from graph_drafts import LARGEST, MOST, Family, Graph, Unfit, Value
from nets.classic_nets import IR_VERSION, OPSET, run_node
from node_families import FAMILIES
from onnx import helper, numpy_helper


def random_graph(seed: int, prefix: str = "") -> Graph:
    """A graph of up to eight nodes."""
    g = Graph(np.random.default_rng(seed), prefix)
    for _ in range(g.upto(2)):
        shape = [g.upto(2), g.upto(4), g.upto(6, 2), g.upto(6, 2)][-g.one([1, 2, 3, 4, 4, 4]) :]
        array = (g.rng.normal(size=shape) * g.one([1, 3])).astype(np.float32)
        g.inputs.append(Value(f"{prefix}x{len(g.inputs)}", array, True))
    g.values += g.inputs
    wanted, tries = g.upto(8), 0
    while len(g.nodes) < wanted and tries < 60:
        tries += 1
        held = len(g.weights)
        if not _try(g, g.one(FAMILIES)):
            for name in list(g.weights)[held:]:
                del g.weights[name]
    return g


def _try(g: Graph, family: Family) -> bool:
    try:
        draft = family(g)
    except Unfit:
        return False
    names = [operand if isinstance(operand, str) else operand.name for operand in draft.operands]
    count = len(g.nodes)
    outputs = [f"{g.prefix}v{count}_{i}" for i in range(draft.outputs)]
    node = helper.make_node(draft.op, names, outputs, f"{g.prefix}{draft.op}_{count}")
    node.attribute.extend(helper.make_attribute(*item) for item in draft.attributes.items())
    known = {value.name: value.array for value in g.values} | g.weights
    try:
        made = [run_node(node, known, output) for output in outputs]
    except Exception:  # whatever ONNX Runtime does not take
        return False
    if not all(map(_is_tame, made)):
        return False
    values = [operand for operand in draft.operands if isinstance(operand, Value)]
    exact = draft.exact and all(value.exact for value in values)
    g.nodes.append(node)
    g.used |= {value.name for value in values}
    g.values += [Value(n, a, exact) for n, a in zip(outputs, made, strict=True) if a.size]
    return True


def _is_tame(array: np.ndarray) -> bool:
    if array.size > MOST:
        return False
    wide = array.astype(np.float64)
    return bool(np.isfinite(wide).all() and np.abs(wide).max(initial=0) < LARGEST)


def outputs_of(g: Graph) -> list[Value]:
    """What no node takes, inputs aside."""
    inputs = {value.name for value in g.inputs}
    return [v for v in g.values if v.name not in g.used and v.name not in inputs]


def model_of(graphs: Sequence[Graph]) -> bytes:
    """All graphs side by side."""

    def port(value: Value) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        return helper.make_tensor_value_info(value.name, kind, value.array.shape)

    made = helper.make_graph(
        [node for g in graphs for node in g.nodes],
        "graphs",
        [port(value) for g in graphs for value in g.inputs if value.name in g.used],
        [port(value) for g in graphs for value in outputs_of(g)],
        [numpy_helper.from_array(a, name) for g in graphs for name, a in g.weights.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return model.SerializeToString()

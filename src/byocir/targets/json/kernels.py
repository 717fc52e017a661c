"""Makes Numpy kernels for every graph op from the evaluator, so that an op has one meaning."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from xdsl.ir import Block

from byocir.dialects.graph import Graph, GraphOp
from byocir.dialects.types import named_elements, tensor
from byocir.targets.json.attributes import attribute_from_json
from byocir.targets.json.program import Step, Value
from byocir.targets.json.runtime import Kernels

GRAPH_OPS: dict[str, type[GraphOp]] = {
    kind.name: kind
    for kind in Graph.operations
    if issubclass(kind, GraphOp)
    and kind.name != "graph.constant"
    and not kind.get_irdl_definition().regions
}
"""The graph ops that a program can hold, by name: all but constants and those with bodies."""


def evaluated(step: Step, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Computes a step of one graph op by the evaluator, which is imported at the first call."""
    from byocir.evaluate.graph_ops import evaluate_graph_op

    return evaluate_graph_op(_op(step), inputs)


@lru_cache(maxsize=4096)
def _op(step: Step) -> GraphOp:
    """Makes the graph op of a step, on arguments of a block of its own."""
    block = Block(arg_types=[_type(value) for value in step.input_types])
    op = GRAPH_OPS[step.name].create(
        operands=block.args,
        result_types=[_type(value) for value in step.output_types],
        properties={
            name: attribute_from_json(data, step.constants) for name, data in step.typed.items()
        },
    )
    block.add_op(op)
    op.verify()
    return op


def _type(value: Value):
    return tensor(named_elements()[value.type], value.shape)


KERNELS: Kernels = dict.fromkeys(sorted(GRAPH_OPS), evaluated)
"""A kernel for every graph op, to start from: `{**KERNELS, "npu.conv": mine}`."""

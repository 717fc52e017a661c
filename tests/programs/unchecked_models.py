"""Models of own functions and constants, which nothing checks as they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

F = TensorProto.FLOAT
node = helper.make_node


def port(name: str, shape: Sequence[Any] | None = (1, 4), element: int = F) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    *nodes: onnx.NodeProto,
    inputs: Sequence[Any] | None = None,
    weights: Sequence[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    output: int = F,
    opset: int = 21,
) -> onnx.ModelProto:
    ports = [port("x")] if inputs is None else inputs
    graph = helper.make_graph(nodes, "g", ports, [port("y", None, output)], list(weights))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def numbers(name: str, values: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, dtype), name)


def function(
    name: str, *nodes: onnx.NodeProto, inputs: Sequence[str] = ("a",)
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, [*inputs], ["b"], list(nodes), imports)


def call(name: str, source: str, result: str) -> onnx.NodeProto:
    return node(name, [source], [result], domain="own")


def doubling(depth: int) -> onnx.ModelProto:
    """Functions that each call the next one twice."""
    functions = [
        function(f"F{i}", call(f"F{i + 1}", "a", "t"), call(f"F{i + 1}", "t", "b"))
        for i in range(depth)
    ]
    last = function(f"F{depth}", node("Relu", ["a"], ["b"]))
    return model(call("F0", "x", "y"), functions=[*functions, last])

"""Writes the outputs shown in architecture.md: run it after a change that alters a stage.

    python docs/three_ops.py            # rewrites the blocks between the markers in place

The model has three ops: a convolution, a relu and a max pool, quantised to int8.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.dialects.text import print_module
from byocir.runtime.package import Package
from byocir.runtime.report_text import explain, summary

PAGE = Path(__file__).parent / "architecture.md"
BLOCK = re.compile(r"<!-- output: ([\w -]+) -->\n```(\w*)\n.*?^```$", re.DOTALL | re.MULTILINE)


def three_ops() -> onnx.ModelProto:
    """Conv, Relu and MaxPool on [1,16,8,8], in QDQ form with symmetric int8 scales."""
    weights = (np.arange(16 * 16 * 9) % 15 - 7).astype(np.int8).reshape(16, 16, 3, 3)
    initializers = [
        numpy_helper.from_array(np.float32(0.5), "x_scale"),
        numpy_helper.from_array(np.float32(0.02), "w_scale"),
        numpy_helper.from_array(np.float32(0.75), "y_scale"),
        numpy_helper.from_array(np.int8(0), "zero"),
        numpy_helper.from_array(weights, "w"),
    ]

    def quantized(name: str, scale: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("QuantizeLinear", [name, scale, "zero"], [f"{name}_q"], f"{name}_Q"),
            helper.make_node("DequantizeLinear", [f"{name}_q", scale, "zero"], [f"{name}_d"]),
        ]

    nodes = [
        *quantized("x", "x_scale"),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "zero"], ["w_d"]),
        helper.make_node("Conv", ["x_d", "w_d"], ["c"], "conv", pads=[1, 1, 1, 1]),
        *quantized("c", "y_scale"),
        helper.make_node("Relu", ["c_d"], ["r"], "relu"),
        *quantized("r", "y_scale"),
        helper.make_node("MaxPool", ["r_d"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        *quantized("p", "y_scale"),
    ]
    for index, node in enumerate(nodes):
        node.name = node.name or f"{node.op_type}_{index}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])
    y = helper.make_tensor_value_info("p_d", TensorProto.FLOAT, [1, 16, 4, 4])
    graph = helper.make_graph(nodes, "three_ops", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def outputs() -> dict[str, str]:
    """What each stage prints, by the name of the pass that ends it."""
    texts: dict[str, str] = {}
    model = three_ops()

    def after_pass(pass_: ModulePass, module: ModuleOp, _seconds: float) -> None:
        texts[pass_.name] = functions_of(module)

    texts["import"] = functions_of(byocir.import_onnx(model))
    package = byocir.compile(model, after_pass=after_pass, levels=["graph"])
    texts["assembly"] = assembly_of(package)
    texts["explain"] = explain(package.report, "conv") + "\n\n" + summary(package.report)
    float_report = byocir.partition(byocir.import_onnx(model), ["vta"], levels=["tensor"])
    texts["explain tensor"] = explain(float_report, "conv")
    return texts


def functions_of(module: ModuleOp) -> str:
    """The functions of a module, without the model's node list and the trail."""
    lines = print_module(module, debuginfo=False).splitlines()
    kept = [line for line in lines[1:-1] if not re.match(r"  byoc\.(source|trail)", line)]
    return "\n".join(line.removeprefix("  ") for line in kept)


def assembly_of(package: Package) -> str:
    """The VTA program as text."""
    from byocir.targets.vta_files import assembly

    return "\n".join(assembly(package.blobs["vta"]).values())


def render(page: str) -> str:
    """The page with every output as it is now."""
    texts = outputs()

    def fill(found: re.Match[str]) -> str:
        name, language = found[1], found[2]
        return f"<!-- output: {name} -->\n```{language}\n{texts[name].strip()}\n```"

    return BLOCK.sub(fill, page)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))

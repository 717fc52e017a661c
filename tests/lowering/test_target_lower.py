"""Targets that write the blocks of their composites themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import element_type_of, shape_of
from byocir.patterns import Composite, constant, op, wildcard

SCALED = Composite(
    "npu.scaled_relu", (op("graph.relu", op("graph.mul", wildcard("x"), constant("s"))),)
)


@dataclass(frozen=True)
class Npu(byocir.Target):
    """Takes relu(x * s) and computes it in one block; the constant stays where it is."""

    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (SCALED,)
    codegen_level: ClassVar[Literal["graph", "tensor"]] = "tensor"

    mistake: str = ""

    def lower(self, composite: CompositeOp, emit: Emitter) -> Sequence[SSAValue] | None:
        if self.mistake == "none":
            return None
        if self.mistake == "raises":
            raise KeyError("block")
        (x,), (scale, *_) = composite.body.block.args, composite.body.block.ops
        element = element_type_of(x.type)
        shape = (9,) if self.mistake == "type" else shape_of(composite.outputs[0].type)
        made = emit.elementwise(
            shape, element, [x, scale.results[0]], lambda v, s: (v * s).max(0.0)
        )
        return [made]


def model(sizes: Sequence[int], scale: float) -> Any:
    def info(name: str) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)

    nodes = [
        onnx.helper.make_node("Mul", ["x", "s"], ["m"], "mul"),
        onnx.helper.make_node("Relu", ["m"], ["y"], "relu"),
    ]
    weights = [onnx.numpy_helper.from_array(np.float32(scale).reshape(()), "s")]
    graph = onnx.helper.make_graph(nodes, "g", [info("x")], [info("y")], weights)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )


def blocks_of(package: byocir.Package) -> list[BlockOp]:
    return [op for op in package.module.walk() if isinstance(op, BlockOp)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.floats(-4, 4, width=32))
def test_the_blocks_of_a_target_replace_those_of_its_ops(sizes: list[int], scale: float):
    proto = model(sizes, scale)
    own, default = (
        byocir.compile(proto, targets=[Npu(mistake=mistake)]) for mistake in ("", "none")
    )
    assert len(blocks_of(own)) == 1
    assert len(blocks_of(default)) == 2
    assert sum(isinstance(op, ConstantOp) for op in own.module.walk()) == 1
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    np.testing.assert_array_equal(own.run({"x": x})["y"], default.run({"x": x})["y"])


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("type", r"B306.*to lower npu.scaled_relu to tensor<2x3xf32>, found tensor<9xf32>"),
        ("raises", r"B219.*'npu' failed in lower with KeyError: 'block'(.|\n)*at .*\.py:\d+"),
    ],
)
def test_mistakes_are_told(mistake: str, message: str):
    with pytest.raises(byocir.ByocirError, match=message):
        byocir.compile(model([2, 3], 2.0), targets=[Npu(mistake=mistake)])

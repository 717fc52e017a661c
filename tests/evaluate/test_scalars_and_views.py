"""What a run gives is an array of the declared type that belongs to the caller: also of inputs
without dimensions, where numpy's functions give numbers, and of ops that only name another view."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

import byocir
from byocir.dialects.types import dtype_of, element_type_of, f16, f32, shape_of, tensor
from byocir.evaluate.module import evaluate
from byocir.testing.by_example import choices, example_of, graph_ops


def variants(name: str) -> Iterator[tuple[Operation, list[np.dtype]]]:
    """An op with operands without dimensions, of the element types of its example and of others,
    with the attributes of its example and with each that may be otherwise."""
    example, kind = example_of(name), graph_ops()[name]
    if example is None or not example.operands:
        return
    elements = [element_type_of(type_) for type_ in example.operands]
    others = [[key, value] for key in example.properties for value in choices(name, key)]
    for element in (None, f32, f16):
        types = [tensor(each if element is None else element, ()) for each in elements]
        for change in ([], *others):
            properties = {**example.properties, **dict([change] if change else [])}
            try:
                op = kind.make(*Block(arg_types=types).args, location=None, **properties)
            except VerifyException:
                continue
            yield op, [dtype_of(element_type_of(type_)) for type_ in types]


def test_scalars_stay_arrays():
    """At the graph level, and as blocks and routines: of all ops that take scalars."""
    block, feeds, names = Block(), dict[str, np.ndarray](), set[str]()
    for name in graph_ops():
        for op, dtypes in variants(name):
            names.add(name)
            for i, dtype in enumerate(dtypes):
                feeds[f"arg{len(block.args)}"] = np.array(1, dtype)
                op.operands[i] = block.insert_arg(op.operands[i].type, len(block.args))
            block.add_op(op)
    assert len(names) >= 70
    made = [result for op in block.ops for result in op.results]
    block.add_op(func.ReturnOp(*made))
    types = [value.type for value in made]
    inputs = [arg.type for arg in block.args]
    module = ModuleOp([func.FuncOp("main", (inputs, types), Region(block))])
    package = byocir.compile(module.clone(), targets=())
    for outputs in (evaluate(module, feeds), package.run(feeds)):
        for value, result in zip(outputs.values(), made, strict=True):
            assert type(value) is np.ndarray, result.owner
            assert value.shape == shape_of(result.type), result.owner
            assert value.dtype == dtype_of(element_type_of(result.type)), result.owner


VIEWS = {
    "Identity": ([], {}),
    "Reshape": ([np.array([4, 2])], {}),
    "Flatten": ([], {}),
    "Squeeze": ([np.array([0])], {}),
    "Unsqueeze": ([np.array([0])], {}),
    "Transpose": ([], {"perm": [2, 1, 0]}),
    "Slice": ([np.array([1]), np.array([2]), np.array([1])], {}),
    "Expand": ([np.array([1, 2, 4])], {}),
    "Cast": ([], {"to": TensorProto.FLOAT}),
    "Dropout": ([], {}),
    "Split": ([np.array([2])], {"axis": 1}),
    "Concat": ([], {"axis": 0}),
    "Sum": ([], {}),
    "Tile": ([np.array([1, 1, 1])], {}),
    "Pad": ([np.zeros(6, np.int64)], {}),
}


@pytest.mark.parametrize("host", ["reference", "c"])
def test_outputs_belong_to_the_caller(host: str):
    """Of an op that moves nothing, of an input and of a weight; each output is one of its own."""
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    nodes, weights, names = [], [numpy_helper.from_array(x, "w")], list[str]()
    for operator, (extra, attributes) in VIEWS.items():
        for source in ("x", "w"):
            inputs = [source]
            for i, array in enumerate(extra):
                inputs.append(f"{operator}_{source}_{i}")
                weights.append(numpy_helper.from_array(array, inputs[-1]))
            names.append(f"{operator}_{source}")
            nodes.append(helper.make_node(operator, inputs, [names[-1]], **attributes))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ["x", *names]]
    graph = helper.make_graph(nodes, "views", ports, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    package = byocir.compile(model, targets=(), host=host)
    given = x.copy()
    first = package.run({"x": given})
    expected = {name: array.copy() for name, array in first.items()}
    for array in first.values():
        array[...] = -1
    assert (given == x).all()
    given[...] = -2
    assert all((array == -1).all() for array in first.values())
    second = package.run({"x": x})
    assert {name: a.tolist() for name, a in second.items()} == {
        name: a.tolist() for name, a in expected.items()
    }


def test_what_a_sequence_holds_belongs_to_the_caller():
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"])
    x = np.ones((2, 2), np.float32)
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "sequence", [port], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made = byocir.compile(model, targets=()).run({"x": x})["y"]
    made[0][...] = 5
    assert x.max() == made[1].max() == 1

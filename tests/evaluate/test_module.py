"""Whole modules: names, calls at both levels, composites, errors."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def

import byocir
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import RULES, Interpreter, evaluates
from byocir.evaluate.module import (
    evaluate,
    evaluate_function,
    random_arguments,
    random_feeds,
)
from byocir.frontend.onnx import import_onnx
from byocir.runtime.export import export_project

LEVELS = """
func.func public @main(%x: tensor<4xi8> {byoc.name = "image"})
    -> (tensor<4xi8> {byoc.name = "out"}) {
  %0 = graph.relu %x : (tensor<4xi8>) -> tensor<4xi8>
  %1 = byoc.composite "any.add" at "graph" (%a = %0 : tensor<4xi8>) -> tensor<4xi8> {
    %s = graph.add %a, %a : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
    byoc.yield %s : tensor<4xi8>
  }
  %2 = byoc.call @values(%1) : (tensor<4xi8>) -> tensor<4xi8>
  %3 = byoc.call @buffers(%2) : (tensor<4xi8>) -> tensor<4xi8>
  %4 = func.call @values(%3) : (tensor<4xi8>) -> tensor<4xi8>
  func.return %4 : tensor<4xi8>
}

func.func private @values(%x: tensor<4xi8>) -> tensor<4xi8> {
  %e = tir.empty : tensor<4xi8>
  %y = tir.block [i: 4] ins(%x[i] : tensor<4xi8>) outs(%e[i] : tensor<4xi8>) {
  ^bb0(%a: i8, %old: i8):
    %one = arith.constant 1 : i8
    %b = arith.addi %a, %one : i8
    tir.yield %b : i8
  }
  func.return %y : tensor<4xi8>
}

func.func private @buffers(%x: memref<4xi8>, %y: memref<4xi8>) {
  tir.block [i: 4] ins(%x[3 - i] : memref<4xi8>) outs(%y[i] : memref<4xi8>) {
  ^bb0(%a: i8, %old: i8):
    tir.yield %a : i8
  }
  func.return
}

byoc.source []
"""


def test_levels_mix():
    x = np.array([-5, 3, 100, 7], np.int8)
    found = evaluate(parse_module(LEVELS), {"image": x})
    expected = (np.maximum(x, 0) * 2 + 1)[::-1] + 1
    assert list(found) == ["out"]
    np.testing.assert_array_equal(found["out"], expected.astype(np.int8))
    np.testing.assert_array_equal(x, [-5, 3, 100, 7])


def test_functions_on_buffers_give_their_outputs():
    x = np.arange(4, dtype=np.int8)
    (found,) = evaluate_function(parse_module(LEVELS), "buffers", [x])
    np.testing.assert_array_equal(found, x[::-1])


def test_an_entry_on_buffers_has_named_outputs():
    text = """
    func.func public @main(%x: memref<2xi8> {byoc.name = "a"}, %y: memref<2xi8> {byoc.name = "b"}) {
      tir.copy %x to %y sizes [2] : memref<2xi8> to memref<2xi8>
      func.return
    }"""
    found = evaluate(parse_module(text), {"a": np.array([1, 2], np.int8)})
    assert list(found) == ["b"]
    np.testing.assert_array_equal(found["b"], [1, 2])


def test_a_function_must_not_write_its_inputs():
    text = """
    func.func @main(%x: memref<2xi8>, %y: memref<2xi8>) {
      tir.copy %x to %x sizes [2] : memref<2xi8> to memref<2xi8>
      func.return
    }"""
    with pytest.raises(ByocirError, match=r"B304"):
        evaluate_function(parse_module(text), "main", [np.zeros(2, np.int8)])


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, r"B310.*expected a feed for input 'image', found none"),
        ({"imgae": np.zeros(4, np.int8)}, r"B310.*found 'imgae'\n.*did you mean 'image'"),
        ({"image": np.zeros(4, np.int32)}, r"expected tensor<4xi8> for input 'image', found 4 of"),
        ({"image": np.zeros((2, 2), np.int8)}, r"found 2x2 of int8"),
    ],
)
def test_feeds_must_fit(feeds, message):
    with pytest.raises(ByocirError, match=message):
        evaluate(parse_module(LEVELS), feeds)


def test_functions_must_exist():
    with pytest.raises(ByocirError, match=r"B302.*@mian(.|\n)*did you mean 'main'"):
        evaluate_function(parse_module(LEVELS), "mian", [])


def test_another_dialect_can_add_rules():
    @irdl_op_definition
    class NegateOp(IRDLOperation):
        name = "mine.negate"
        operand = operand_def()
        result = result_def()

    module = parse_module(LEVELS)
    main = Interpreter(module).function("main")
    argument = main.args[0]
    negate = NegateOp.create(operands=[argument], result_types=[argument.type])
    main.body.block.insert_op_before(negate, main.body.block.first_op)
    argument.replace_uses_with_if(negate.results[0], lambda use: use.operation is not negate)
    feeds = {"image": np.array([-5, 3, 10, -7], np.int8)}
    with pytest.raises(ByocirError, match=r"B301.*mine.negate"):
        evaluate(module, feeds)

    @evaluates(NegateOp)
    def _negate(interpreter, op, arguments):
        return (-arguments[0],)

    try:
        found = evaluate(module, feeds)["out"]
    finally:
        del RULES[NegateOp]
    np.testing.assert_array_equal(found, [16, 2, 2, 12])


IN_MEMORY = """func.func @main(%x: memref<4xi32>, %y: memref<4xi32>) {
  tir.block [i: 4] ins(%x[i] : memref<4xi32>) outs(%y[i] : memref<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %a, %a : i32
    tir.yield %0 : i32
  }
  func.return
}"""


def test_what_a_function_in_memory_writes_is_no_input():
    module = parse_module(IN_MEMORY)
    feeds = random_feeds(module)
    assert [*feeds] == ["arg0"]
    np.testing.assert_array_equal(evaluate(module, feeds)["arg1"], 2 * feeds["arg0"])
    whole = random_arguments(module)
    assert [*whole] == ["arg0", "arg1"]
    np.testing.assert_array_equal(whole["arg0"], feeds["arg0"])
    for host in ("reference", "c"):
        package = byocir.compile(module, targets=[], host=host)
        np.testing.assert_array_equal(package.run(feeds)["arg1"], 2 * feeds["arg0"])


INDEXED = """func.func @main(%x: tensor<4xi32>, %i: index) -> tensor<1xi32> {
  %e = tir.empty : tensor<1xi32>
  %y = tir.block [i: 1] at(%i) ins(%x[i] : tensor<4xi32>) outs(%e[0] : tensor<1xi32>) {
  ^bb0(%a: i32, %b: i32):
    tir.yield %a : i32
  }
  func.return %y : tensor<1xi32>
}"""


def test_an_input_of_type_index_keeps_the_host_in_the_evaluator():
    module = parse_module(INDEXED)
    with pytest.raises(ByocirError, match=r"B106.*found 'arg1' of index\n.*give the inputs"):
        random_feeds(module)
    package = byocir.compile(module, targets=[], host="c")
    assert package.report.host_runs_on == "reference"
    assert "an input of type index has no form in C" in package.report.notes[-1]
    assert package.run({"arg0": np.arange(4, dtype=np.int32), "arg1": 2})["res0"].tolist() == [2]
    with pytest.raises(ByocirError, match=r"B350.*found an input of type index"):
        export_project(package)


def test_an_input_with_a_value_of_its_own_is_a_constant(tmp_path):
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "w", "y")]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])]
    model = helper.make_model(helper.make_graph([node], "g", ports[:2], ports[2:], weights))
    module = parse_module(str(import_onnx(model)))
    x = np.array([3, 4], np.float32)
    assert [*random_feeds(module)] == ["x"]
    byocir.compile(module, targets=[]).save(tmp_path / "p.bpkg")
    package = byocir.load(tmp_path / "p.bpkg")
    assert package.run({"x": x})["y"].tolist() == [4, 6]
    for run in (package.run, lambda feeds: evaluate(module, feeds)):
        with pytest.raises(ByocirError, match=r"B310.*found 'w'\n.*a value of its own for 'w'"):
            run({"x": x, "w": x})
        with pytest.raises(ByocirError, match=r"B310.*found 'xx'\n.*did you mean 'x'"):
            run({"xx": x})


@pytest.mark.parametrize("host", ["reference", "c"])
def test_an_input_with_a_value_of_its_own_is_fed_where_its_shape_is_given(host, tmp_path):
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("x", "w", "y")]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [32], list(range(32)))]
    model = helper.make_model(helper.make_graph([node], "g", ports[:2], ports[2:], weights))
    byocir.compile(model, targets=[], shapes={"w": (32,)}, host=host).save(tmp_path / "p.bpkg")
    package = byocir.load(tmp_path / "p.bpkg")
    x, own = np.ones(32, np.float32), np.arange(32)
    assert package.run({"x": x})["y"].tolist() == (x + own).tolist()
    assert package.run({"x": x, "w": x})["y"].tolist() == (x + x).tolist()
    with pytest.raises(ByocirError, match=r"B106.*expected shape 32 for 'w'"):
        byocir.compile(model, targets=[], shapes={"w": (4,)})


def test_inputs_of_text_are_not_made_up():
    text = TensorProto.STRING
    ports = [helper.make_tensor_value_info(name, text, [2]) for name in ("x", "y")]
    node = helper.make_node("Identity", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]))
    module = import_onnx(model)
    with pytest.raises(ByocirError, match=r"B106.*found 'x' of tensor<2x"):
        random_feeds(module)

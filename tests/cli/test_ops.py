"""`byocir ops`: what is said about ops is read from their classes, whose examples are real."""

import pytest
from xdsl.irdl import IRDLOperation

from byocir.cli.main import main
from byocir.cli.ops import all_ops, describe_op
from byocir.dialects.context import load_context
from byocir.dialects.docstrings import example_of, meaning_of, module_of_example
from byocir.dialects.graph import ForeignOp, ReluOp


@pytest.mark.parametrize("kind", all_ops().values(), ids=all_ops().keys())
def test_each_op_has_a_meaning_and_an_example_that_is_one(kind: type[IRDLOperation]):
    assert meaning_of(kind).endswith(".")
    assert "e.g." not in meaning_of(kind)
    module = module_of_example(example_of(kind), load_context())
    assert any(isinstance(op, kind) for op in module.walk())


def test_a_docstring_is_a_meaning_and_an_example():
    assert meaning_of(ReluOp) == "Computes `max(x, 0)`."
    assert example_of(ReluOp) == "graph.relu %x : (tensor<8x4xi32>) -> tensor<8x4xi32>"
    assert meaning_of(ForeignOp).startswith(
        "Keeps an ONNX operator that no graph op stands for, at its own opset.\n\nThe domain"
    )
    assert example_of(ForeignOp).startswith('%y = graph.foreign "ai.onnx.ml"')


def test_the_reference_has_types_defaults_origin_and_hosts():
    said = describe_op("graph.conv")
    assert "| `bias`, optional | tensor of i32, f16, bf16, f32, f64 | `tensor<32xi32>` |" in said
    assert "| `pads` | integers | `array<i64: 0, 0, 0, 0>` |" in said
    assert "- In ONNX: Conv.\n- At the tensor level it becomes blocks (`tir.block`)." in said
    assert "| `to` | any | has to be given |" in describe_op("cast")
    assert "`c` calls the evaluator back" in describe_op("graph.foreign")
    assert "a call of a routine" in describe_op("graph.top_k")


def test_the_verb_lists_ops_and_describes_one(capsys: pytest.CaptureFixture[str]):
    assert main(["ops"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(all_ops())
    assert main(["ops", "relu"]) == 0
    assert capsys.readouterr().out == f"{describe_op('graph.relu')}\n"
    assert main(["ops", "graph.rely"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error[B203]: expected an op such as graph.conv, found 'graph.rely'",
        "  help  did you mean 'graph.relu'?",
    ]

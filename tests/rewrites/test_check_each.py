"""The check after every pass: it finds the pass, the op and the element, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.arith import AddiOp, SubiOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.context import load_context
from byocir.dialects.graph import AddOp, ReluOp
from byocir.dialects.text import parse_module
from byocir.errors import CheckFailed
from byocir.evaluate.module import random_feeds
from byocir.rewrites.check_each import CheckEach
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.pipeline import parse_pipeline, run_passes

FLOATS = """func.func public @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.relu %x : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("first")
  %1 = graph.add %0, %x : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32> loc("second")
  func.return %1 : tensor<3x4xf32>
}"""
INTEGERS = FLOATS.replace("f32", "i8")


@dataclass(frozen=True)
class ChangePass(ModulePass):
    """Does to the module what it is told to."""

    name = "change"
    change: Callable[[ModuleOp], None]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(op)


def no_relu(module: ModuleOp) -> None:
    relu = next(op for op in module.walk() if isinstance(op, ReluOp))
    relu.result.replace_all_uses_with(relu.operands[0])


def swap_operands(module: ModuleOp) -> None:
    add = next(op for op in module.walk() if isinstance(op, AddOp))
    add.operands = (add.operands[1], add.operands[0])


def checked(text: str, *passes: ModulePass) -> None:
    context = load_context()
    module = parse_module(text, context)
    check = CheckEach()
    check.begin(module)
    run_passes(module, context, passes, callback=check)


@pytest.mark.parametrize("text", [FLOATS, INTEGERS])
def test_the_first_pass_that_changes_a_result_is_named(text: str):
    with pytest.raises(CheckFailed, match="B224") as caught:
        checked(text, ChangePass(swap_operands), ChangePass(no_relu), ChangePass(swap_operands))
    error = caught.value
    assert error.message.startswith("expected pass change to keep output ")
    assert error.where.startswith("the ops of second, of type tensor<3x4x")
    assert "seed 0" in error.help


@pytest.mark.parametrize("text", [FLOATS, INTEGERS])
def test_what_keeps_results_passes(text: str):
    checked(text, ChangePass(swap_operands))


def test_the_element_is_the_first_that_differs():
    with pytest.raises(CheckFailed) as caught:
        checked(INTEGERS, ChangePass(no_relu))
    x = random_feeds(parse_module(INTEGERS, load_context()))["arg0"]
    place = [int(i) for i in np.argwhere(x < 0)[0]]
    before, found = x[tuple(place)], (x + x)[tuple(place)]
    expected = f"expected pass change to keep output 'res0' ({before}), found {found} at {place}"
    assert caught.value.message == expected


def test_fix_point_may_choose_other_numbers_and_begins_a_new_reference():
    context = load_context()
    module = parse_module(FLOATS, context)
    check = CheckEach()
    check.begin(module)
    no_relu(module)
    check(FixPointPass(), module, 0.0)
    check(ChangePass(swap_operands), module, 0.0)
    no_add(module)
    with pytest.raises(CheckFailed):
        check(ChangePass(no_add), module, 0.0)


def no_add(module: ModuleOp) -> None:
    """The sum becomes its own first operand."""
    add = next(op for op in module.walk() if isinstance(op, AddOp))
    add.result.replace_all_uses_with(add.operands[0])


QUANTISED = """func.func public @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %s = graph.constant #graph.array<[0.3] : tensor<f32>>
  %t = graph.constant #graph.array<[1.0] : tensor<f32>>
  %0 = graph.requantize %x, %s, %t {rounding = #graph.float_half_even, to = i8}
    : (tensor<4xi32>, tensor<f32>, tensor<f32>) -> tensor<4xi8> loc("first")
  %1 = graph.cast %0 {to = i32} : (tensor<4xi8>) -> tensor<4xi32> loc("second")
  %2 = graph.mul %1, %1 : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc("third")
  func.return %2 : tensor<4xi32>
}"""


def test_fix_point_may_move_quantised_values_by_a_step():
    checked(QUANTISED, FixPointPass())


def test_more_than_a_step_is_told():
    context = load_context()
    module = parse_module(QUANTISED, context)
    check = CheckEach()
    check.begin(module)
    wrong = parse_module(QUANTISED.replace("[0.3]", "[0.4]"), context)
    with pytest.raises(CheckFailed, match="a quantised value within one step") as caught:
        check(FixPointPass(), wrong, 0.0)
    assert caught.value.where == "the ops of first, of type tensor<4xi8>"


BLOCKS = """func.func public @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %e = tir.empty : tensor<4xi32>
  %0 = tir.block [i: 4] ins(%x[i] : tensor<4xi32>) outs(%e[i] : tensor<4xi32>) {
  ^bb0(%s: i32, %d: i32):
    %r = arith.addi %s, %s : i32
    tir.yield %r : i32
  } loc("double")
  func.return %0 : tensor<4xi32>
}"""


def add_to_sub(module: ModuleOp) -> None:
    add = next(op for op in module.walk() if isinstance(op, AddiOp))
    sub = SubiOp(add.lhs, add.rhs)
    Rewriter.replace_op(add, sub)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_memory_and_loops_are_checked_too(depth: int):
    passes = parse_pipeline("bufferize,convert-tir-to-scf,raise-scf-to-tir")
    checked(BLOCKS, *passes)
    with pytest.raises(CheckFailed, match="expected pass change to keep output"):
        checked(BLOCKS, *passes[:depth], ChangePass(add_to_sub))

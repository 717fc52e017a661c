"""The check after every pass: it finds the pass, the op and the element, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.context import load_context
from byocir.dialects.graph import AddOp, ReluOp
from byocir.dialects.text import parse_module
from byocir.errors import CheckFailed
from byocir.evaluate.module import random_feeds
from byocir.rewrites.check_each import CheckEach
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.pipeline import run_passes

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

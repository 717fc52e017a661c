"""Values that an instruction overwrites, and others read, get a place of their own, also where the
only way to copy them is to add zeros."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from byocir.dialects.text import parse_module
from byocir.dialects.tir import blocks_in
from byocir.dialects.types import i32
from byocir.dialects.verify import verify_module
from byocir.evaluate.module import evaluate
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block, number
from byocir.rewrites.machine.split_bodies import split_bodies

SIZES = {"i": up_to(64), "j": up_to(64)}
engine = Machine("adder")
core = engine.unit("core")
near = engine.memory("near", i32, row=(4,), rows=512)
for name, source, into in (("load", MAIN, near), ("store", near, MAIN)):
    boxes = {"rows": up_to(64), "lanes": up_to(64)}
    engine.copy(name, source, into, unit=core, cycles=lambda _: 20, **boxes)


@engine.instruction(core, into=near, cycles=lambda _: 1, **SIZES)
def add() -> Pattern:
    x, (own, one) = near("x")["i j"], (near("y")[index] for index in ("i j", "j"))
    each, all_ = (block("i j", x, y, lambda _, x, y: x + y) for y in (own, one))
    return each | all_


@engine.instruction(core, into=near, cycles=lambda _: 1000, **SIZES)
def multiply() -> Pattern:
    return block("i j", near("x")["i j"], near("y")["i j"], lambda _, x, y: x * y)


@engine.instruction(core, into=near, cycles=lambda _: 1, **SIZES)
def rectify() -> Pattern:
    return block("i j", lambda x: x.max(number("n")), init=near("x"))


@pytest.mark.parametrize("total", ["%m, %v", "%v, %m"])
@pytest.mark.parametrize("step", ["addi", "muli"])
def test_what_is_copied_by_adding_zeros_is_the_value(total: str, step: str) -> None:
    module = parse_module(f"""
      func.func @main(%a: tensor<4x4xi32>, %b: tensor<4x4xi32>) -> tensor<4x4xi32> {{
        %e = tir.empty : tensor<4x4xi32>
        %y = tir.block [i: 4, j: 4]
            ins(%a[i, j] : tensor<4x4xi32>, %b[i, j] : tensor<4x4xi32>)
            outs(%e[i, j] : tensor<4x4xi32>) {{
        ^bb0(%p: i32, %q: i32, %old: i32):
          %v = arith.muli %p, %q : i32
          %n = arith.constant 7 : i32
          %m = arith.maxsi %v, %n : i32
          %r = arith.{step} {total} : i32
          tir.yield %r : i32
        }}
        func.return %y : tensor<4x4xi32>
      }}""")
    feeds = {f"arg{i}": np.arange(16, dtype=np.int32).reshape(4, 4) - 5 * i for i in range(2)}
    expected = evaluate(module, feeds)["res0"]
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    split_bodies(engine, function.body.block)
    verify_module(module)
    assert len([*blocks_in(function)]) == 4
    np.testing.assert_array_equal(evaluate(module, feeds)["res0"], expected)

"""Small programs on buffers, and schedules of them."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.text import parse_module, print_module
from byocir.dialects.types import shape_of
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.rewrites.schedule import Schedule


def block(name: str, space: str, ins: str, outs: str, *body: str) -> str:
    """A block on i32 buffers; its body knows %x, %y, … for ins and %o for the result."""
    count = ins.count("memref")
    args = ", ".join(f"%{a}: i32" for a in [*"xyz"[:count], "o"])
    ins = f"ins({ins})" if ins else ""
    lines = "\n".join(body)
    return (
        f"tir.block [{space}] {ins} outs({outs}) {{\n^bb0({args}):\n{lines}\n"
        f'tir.yield %r : i32\n}} loc("{name}")'
    )


ADD = "%r = arith.addi %x, %o : i32"
DOUBLE = "%r = arith.addi %x, %x : i32"


def function(arguments: str, *lines: str) -> Schedule:
    body = "\n".join(lines)
    module = parse_module(f"func.func @main({arguments}) {{\n{body}\nfunc.return\n}}")
    verify_module(module)
    (found,) = (op for op in module.ops if isinstance(op, FuncOp))
    return Schedule(found)


def run(s: Schedule) -> np.ndarray:
    module = s.root.parent_op()
    assert isinstance(module, ModuleOp)
    verify_module(module)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-99, 99, shape_of(arg.type)).astype(np.int32) for arg in s.root.body.block.args
    ]
    Interpreter(module).call(s.root, arrays)
    return arrays[-1]


def refuses(s: Schedule, code: str, ask) -> ByocirError:
    """A request that is refused changes nothing."""
    before = print_module(s.root.parent_op())
    with pytest.raises(ByocirError) as caught:
        ask()
    assert caught.value.code == code
    assert print_module(s.root.parent_op()) == before
    return caught.value


def chain() -> Schedule:
    """y[i] = max over three neighbours of 2 x."""
    return function(
        "%a: memref<18xi32>, %y: memref<16xi32>",
        "%t = tir.alloc : memref<18xi32>",
        block("double", "i: 18", "%a[i] : memref<18xi32>", "%t[i] : memref<18xi32>", DOUBLE),
        block(
            "window",
            "i: 16 | r: 3",
            "%t[i + r] : memref<18xi32>",
            "%y[i] : memref<16xi32>",
            "%r = arith.maxsi %x, %o : i32",
        ),
    )


def matmul() -> Schedule:
    return function(
        "%a: memref<8x12xi32>, %b: memref<12x6xi32>, %c: memref<8x6xi32>",
        block(
            "gemm",
            "m: 8, n: 6 | k: 12",
            "%a[m, k] : memref<8x12xi32>, %b[k, n] : memref<12x6xi32>",
            "%c[m, n] : memref<8x6xi32>",
            "%p = arith.muli %x, %y : i32",
            "%r = arith.addi %o, %p : i32",
        ),
    )

"""Upstream MLIR as a second opinion: modules of loops lowered by `mlir-opt` and run in its JIT."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineMap

from byocir.dialects.array import Array
from byocir.dialects.context import load_context
from byocir.dialects.text import print_module
from byocir.dialects.tir import BlockOp, ConstantOp, FillOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.scalar import Emitted, emit_body, number_attr
from byocir.dialects.types import element_of, element_type_of, i32, is_float, shape_of, tensor
from byocir.rewrites.pipeline import run_passes

LOWERING = (
    "-convert-scf-to-cf",
    "-convert-math-to-llvm",
    "-convert-math-to-libm",
    "-arith-expand",
    "-convert-arith-to-llvm",
    "-finalize-memref-to-llvm",
    "-convert-func-to-llvm",
    "-convert-cf-to-llvm",
    "-reconcile-unrealized-casts",
)

ENTRY = """
func.func @entry() -> i32 {
  %b = memref.alloc() : memref<i32>
  func.call @check(%b) : (memref<i32>) -> ()
  %r = memref.load %b[] : memref<i32>
  memref.dealloc %b : memref<i32>
  func.return %r : i32
}
"""


def tool(name: str) -> str:
    """The path of a tool of MLIR; skips the test where there is none."""
    path = shutil.which(f"{name}-19") or shutil.which(name)
    if path is None:
        pytest.skip(f"no {name}")
    return path


def lower(text: str) -> str:
    """The module in the dialect of LLVM."""
    done = subprocess.run(
        [tool("mlir-opt"), *LOWERING], input=text, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


def result_of(text: str) -> int:
    """What @entry gives, of a module of loops."""
    lowered, runner = lower(text), tool("mlir-cpu-runner")
    done = subprocess.run(
        [runner, "-e", "entry", "-entry-point-result=i32"],
        input=lowered,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[:2000]
    return int(done.stdout)


def mismatches(cases) -> int:
    """How many elements of these programs come out otherwise than expected: triples of a module
    whose function is @main, on tensors or in memory with its results last, its inputs and its
    outputs."""
    whole = ModuleOp([])
    body = Block()
    count = FillOp.of(number_attr(0, i32), tensor(i32, []))
    body.add_op(count)
    total = count.results[0]
    for index, (module, arrays, expected) in enumerate(cases):
        (function,) = [op for op in module.clone().body.block.ops if isinstance(op, FuncOp)]
        function.detach()
        function.properties["sym_name"] = type(function.sym_name)(f"f{index}")
        whole.body.block.add_op(function)
        given = [ConstantOp.of(Array.of(array)) for array in arrays]
        body.add_ops(given)
        types = [tensor(element_of(array.dtype), array.shape) for array in expected]
        call = CallOp(f"f{index}", [c.result for c in given], types)
        body.add_op(call)
        for result, array in zip(call.results, expected, strict=True):
            wanted = ConstantOp.of(Array.of(array))
            block = _differences(result, wanted.result, total)
            body.add_ops([wanted, block])
            total = block.results[0]
    body.add_op(ReturnOp(total))
    type_ = FunctionType.from_lists([], [total.type])
    whole.body.block.add_op(FuncOp("check", type_, Region(body)))
    run_passes(whole, load_context(), "bufferize,convert-tir-to-scf")
    text = print_module(whole).rstrip().removesuffix("}")
    return result_of(text + ENTRY + "}\n")


def _differences(found, wanted, count) -> BlockOp:
    """A block that adds to `count` for each element that differs."""
    element, shape = element_type_of(found.type), shape_of(found.type)
    iterators = [IteratorAttr.of(f"i{i}", IteratorKind.REDUCTION, n) for i, n in enumerate(shape)]
    same, scalar = AffineMap.identity(len(shape)), AffineMap(len(shape), 0, ())

    def body(x: Emitted, y: Emitted, acc: Emitted) -> Emitted:
        if not is_float(element):
            return acc + x.signless().compare("ne", y.signless()).to(i32)
        distance = (x - y).unary("abs")
        near = distance.compare("le", y.unary("abs") * 1e-5 + 1e-6)
        same = x.compare("eq", y)
        nans = x.compare("ne", x).binary("and", y.compare("ne", y))
        good = near.binary("or", same).binary("or", nans)
        return acc + (good.binary("xor", good.compare("eq", good))).to(i32)

    region = emit_body([element, element, i32], body)
    return BlockOp(iterators, [found, wanted], [count], [same, same, scalar], region)

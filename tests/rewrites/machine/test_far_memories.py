"""Machines whose units do not reach each other's memories: copies lead from one to the next."""

from __future__ import annotations

import numpy as np
import pytest
from narrowing_engine import multiply_add
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.evaluate.module import evaluate, random_feeds
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block, composite, wildcard

far = Machine("far")
core = far.unit("core")
near = far.memory("near", i8, row=(16,), rows=128)
sums = far.memory("sums", i32, row=(16,), rows=64)
between = far.memory("between", i32, row=(16,), rows=64)
vectors = far.memory("vectors", i32, row=(16,), rows=8)
moved = {"unit": core, "rows": up_to(4), "lanes": up_to(16), "cycles": lambda s: s["rows"]}
far.copy("load", MAIN, near, **moved)
far.copy("leave", sums, between, **moved)
far.copy("enter", between, vectors, **moved)
far.copy("store", vectors, MAIN, **moved)


@far.instruction(core, into=sums, m=up_to(8), n=up_to(16), k=up_to(16), cycles=lambda s: s["m"])
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return block("m n | k", a, w, multiply_add, init=sums("c")) | begun


@composite("far.gemm")
def gemm() -> Pattern:
    """A product of matrices of signed bytes."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add)


class Far(byocir.Target):
    name, machine, patterns = "far", far, (gemm,)


def product_of(m: int, k: int, n: int) -> ModuleOp:
    return parse_module(f"""
    func.func @main(%x: tensor<{m}x{k}xi8>, %w: tensor<{k}x{n}xi8>) -> tensor<{m}x{n}xi32> {{
      %0 = graph.matmul %x, %w
          : (tensor<{m}x{k}xi8>, tensor<{k}x{n}xi8>) -> tensor<{m}x{n}xi32> loc("product")
      func.return %0 : tensor<{m}x{n}xi32>
    }}""")


def compiled_right(module: ModuleOp) -> None:
    """The machine does a program, and right."""
    package = byocir.compile(module.clone(), targets=[Far()], levels=("tensor",))
    assert package.report.regions
    assert all(decision.taken for decision in package.report.decisions)
    feeds = random_feeds(module)
    found = package.run(feeds, check=True)
    for name, expected in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("size", [3, 32])
def test_tiles_fit_all_memories_on_the_way_out(size: int) -> None:
    compiled_right(product_of(size, 16, size))

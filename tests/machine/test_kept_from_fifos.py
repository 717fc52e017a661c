"""What a unit holds of a FIFO is read from it once, whatever number of calls use it."""

from __future__ import annotations

import numpy as np
from narrowing_engine import multiply_add

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block, composite, wildcard

fed = Machine("fed")
core = fed.unit("core", queue=4)
near = fed.memory("near", i8, row=(8,), rows=64)
weights = fed.memory("weights", i8, row=(8, 8), rows=2, fifo=True)
sums = fed.memory("sums", i32, row=(8,), rows=64)
moved = {"unit": core, "rows": up_to(8), "lanes": up_to(8), "cycles": lambda s: s["rows"]}
fed.copy("load", MAIN, near, **moved)
fed.copy("store", sums, MAIN, **moved)


@fed.instruction(core, into=weights, k=up_to(8), n=up_to(8), cycles=lambda s: 8)
def push() -> Pattern:
    return block("k n", wildcard("w")["k n"], lambda _, x: x)


@fed.instruction(
    core, into=sums, m=up_to(4), n=up_to(8), k=up_to(8), cycles=lambda s: 12,
    keeps="w", kept_cycles=lambda s: s["m"],
)  # fmt: skip
def product() -> Pattern:
    a, w = near("a")["m k"], weights("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return block("m n | k", a, w, multiply_add, init=sums("c")) | begun


@composite("fed.gemm")
def gemm() -> Pattern:
    """A product of matrices of signed bytes."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add)


class Fed(byocir.Target):
    name, machine, patterns = "fed", fed, (gemm,)


def test_calls_that_share_weights_take_them_from_the_fifo_once() -> None:
    module = parse_module("""
    func.func @main(%x: tensor<16x8xi8>, %w: tensor<8x8xi8>) -> tensor<16x8xi32> {
      %0 = graph.matmul %x, %w : (tensor<16x8xi8>, tensor<8x8xi8>) -> tensor<16x8xi32>
      func.return %0 : tensor<16x8xi32>
    }""")
    package = byocir.compile(module, targets=[Fed()], levels=("tensor",))
    assert package.report.regions
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, shape).astype(np.int8) for shape in ((16, 8), (8, 8)))
    y = package.run({"arg0": x, "arg1": w}, check=True)["res0"]
    np.testing.assert_array_equal(y, x.astype(np.int32) @ w)

"""Where no instruction does the products behind a bias, the refusal speaks of them, not of the bias
that they are added to."""

from __future__ import annotations

from typing import Any

from random_machines import multiply_add

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import Pattern, block, composite, wildcard

npu = Machine("dots")
dma, core = npu.unit("dma", queue=8), npu.unit("core", queue=2)
near = npu.memory("near", i8, row=(16,), rows=1024)
sums = npu.memory("sums", i32, row=(16,), rows=256)
npu.order(Counted())
runs: dict[str, Any] = {"unit": dma, "rows": up_to(16), "lanes": up_to(16)}
runs["cycles"] = lambda s: 20 + s["rows"]
npu.copy("load", MAIN, near, **runs)
npu.copy("store", sums, MAIN, **runs)
sizes: dict[str, Any] = dict.fromkeys("mnk", up_to(16))


@npu.instruction(into=sums, **runs)
def load_bias() -> Pattern:
    return block("rows lanes", wildcard("bias", dtype=i32)["lanes"], lambda _, b: b)


@npu.instruction(core, into=sums, cycles=lambda s: 4 + s["m"], **sizes)
def product() -> Pattern:
    """Products with rows of weights that are summed over, as a transposed matrix has them."""
    a, w = near("a")["m k"], near("w")["n k"]
    begun = block("m n | k", a, w, multiply_add)
    return begun | block("m n | k", a, w, multiply_add, init=sums("c"))


@composite("dots.gemm")
def gemm() -> Pattern:
    """Products with a bias."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    bias = wildcard("bias", dtype=i32)["n"]
    products = block("m n | k", a, b, multiply_add)
    return block("m n", products["m n"], bias, lambda _, x, b: x + b)


class Dots(byocir.Target):
    name, machine, patterns = "dots", npu, (gemm,)


def test_a_refused_product_is_told_of_itself() -> None:
    module = parse_module("""
      func.func @main(%x: tensor<8x32xi8>, %w: tensor<32x16xi8>, %b: tensor<16xi32>)
          -> tensor<8x16xi32> {
        %0 = graph.matmul %x, %w : (tensor<8x32xi8>, tensor<32x16xi8>) -> tensor<8x16xi32>
        %1 = graph.add %0, %b : (tensor<8x16xi32>, tensor<16xi32>) -> tensor<8x16xi32>
        func.return %1 : tensor<8x16xi32>
      }""")
    report = byocir.compile(module, targets=[Dots()], levels=("tensor",)).report
    assert not report.regions
    told = str(report)
    assert "dots.product: expected indices [m k], [n k] for [m n], found" in told
    assert "dots.load" not in told

"""A bias that no instruction brings is declined, whether the host computes it or it is a constant
that the pattern takes as any input."""

from __future__ import annotations

import pytest
from random_machines import multiply_add

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.patterns import Pattern, block, composite, optional, wildcard

npu = Machine("biasless")
dma, core = npu.unit("dma", queue=8), npu.unit("core", queue=2)
near = npu.memory("near", i8, row=(16,), rows=1024)
sums = npu.memory("sums", i32, row=(16,), rows=256)
npu.order(Counted())
runs = {"unit": dma, "rows": up_to(16), "lanes": up_to(16)}
npu.copy("load", MAIN, near, cycles=lambda s: 20 + s["rows"], **runs)
npu.copy("store", sums, MAIN, cycles=lambda s: 20 + 4 * s["rows"], **runs)
sizes = {each: up_to(16) for each in "mnk"}


@npu.instruction(core, into=sums, cycles=lambda s: 4 + s["m"], **sizes)
def product() -> Pattern:
    a, w = near("a")["m k"], near("w")["k n"]
    begun = block("m n | k", a, w, multiply_add)
    return begun | block("m n | k", a, w, multiply_add, init=sums("c"))


@composite("biasless.gemm")
def gemm() -> Pattern:
    """Products with a bias or without."""
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    bias = wildcard("bias", dtype=i32)["n"]
    y = block("m n | k", a, b, multiply_add)
    return optional(y, lambda v: block("*i n", v["*i n"], bias, lambda _, x, b: x + b))


class Biasless(byocir.Target):
    name, machine, patterns = "biasless", npu, (gemm,)


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_bias_that_no_instruction_brings_stays_on_the_host(is_constant: bool) -> None:
    argument, constant = ", %bias: tensor<33xi32>", ""
    if is_constant:
        numbers = ", ".join(map(str, range(-16, 17)))
        argument, constant = (
            "",
            f"%bias = graph.constant #graph.array<[{numbers}] : tensor<33xi32>>",
        )
    module = parse_module(f"""
      func.func @main(%x: tensor<11x40xi8>, %w: tensor<40x33xi8>{argument}) -> tensor<11x33xi32> {{
        {constant}
        %0 = graph.matmul %x, %w : (tensor<11x40xi8>, tensor<40x33xi8>) -> tensor<11x33xi32>
        %1 = graph.add %0, %bias : (tensor<11x33xi32>, tensor<33xi32>) -> tensor<11x33xi32>
        func.return %1 : tensor<11x33xi32>
      }}""")
    (region,) = byocir.compile(module, targets=[Biasless()], levels=("tensor",)).report.regions
    (taken,) = region.composites
    assert "cache_write(product)" in taken.schedule

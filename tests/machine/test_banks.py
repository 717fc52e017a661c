"""Tiles are those that the banks of a memory hold, not its rows alone."""

from __future__ import annotations

from random_machines import gemm, multiply_add, product_module

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block

machine = Machine("random")
core = machine.unit("core")
near = machine.memory("near", i8, row=(16,), rows=256)
sums = machine.memory("sums", i32, row=(16,), rows=64, banks=2)
for name, source, into in (("load", MAIN, near), ("store", sums, MAIN)):
    machine.copy(
        name, source, into, unit=core, cycles=lambda s: s["rows"], rows=up_to(16), lanes=up_to(16)
    )


@machine.instruction(core, into=sums, cycles=lambda s: 1, m=up_to(16), n=up_to(16), k=up_to(16))
def product() -> Pattern:
    return block("m n | k", near("a")["m k"], near("w")["k n"], multiply_add)


class Banked(byocir.Target):
    name, patterns = "random", (gemm,)
    machine = machine


def test_a_buffer_lies_in_one_bank() -> None:
    module = product_module(48, 16, 16, relu=False)
    package = byocir.compile(module, targets=[Banked()], levels=("tensor",))
    assert [each.taken for each in package.report.decisions] == [True]

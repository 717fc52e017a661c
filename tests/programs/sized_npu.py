"""A described machine whose sizes are options of its target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import byocir
from byocir.dialects.types import i8, i32
from byocir.machine import MAIN, Interlocked, Machine, up_to
from byocir.patterns import Pattern, ScalarPattern, block, composite, wildcard


def multiply_add(acc: ScalarPattern, x: ScalarPattern, w: ScalarPattern) -> ScalarPattern:
    return acc + x.to(i32) * w.to(i32)


@composite("sized.gemm")
def gemm() -> Pattern:
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add)


@dataclass(frozen=True)
class Sized(byocir.Target):
    name, patterns = "sized", (gemm,)
    dim: int = 16
    rows: int = 256
    waits: bool = False

    @cached_property
    def machine(self) -> Machine:
        made = Machine("sized")
        dma, core = made.unit("dma", queue=4), made.unit("core", queue=2)
        near = made.memory("near", i8, row=(self.dim,), rows=self.rows)
        sums = made.memory("sums", i32, row=(self.dim,), rows=self.rows)
        if not self.waits:
            made.order(Interlocked((near, sums)))
        sizes: dict[str, Any] = {name: up_to(self.dim) for name in "mnk"}
        moved: dict[str, Any] = {"rows": sizes["m"], "lanes": sizes["n"], "unit": dma}
        moved["cycles"] = lambda s: 20 + s["rows"]
        made.copy("load", MAIN, near, **moved)
        made.copy("store", sums, MAIN, **moved)

        @made.instruction(core, cycles=lambda s: s["m"], **sizes)
        def product() -> Pattern:
            a, w = near("a")["m k"], near("w")["k n"]
            added = block("m n | k", a, w, multiply_add, init=sums("c"))
            return added | block("m n | k", a, w, multiply_add)

        return made

"""Boxes around images are set first only where what is set may be set again."""

from __future__ import annotations

import pytest

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import IntrinsicOp
from byocir.dialects.types import i8
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import Pattern, block
from byocir.patterns.target_classes import register
from byocir.rewrites.pipeline import run_passes


def described(*, queued: bool) -> Machine:
    machine = Machine("padded")
    dma = machine.unit("dma")
    near = machine.memory("near", i8, row=(8,), rows=64, fifo=queued)
    sizes = {"rows": up_to(16), "lanes": up_to(8)}
    machine.copy("load", MAIN, near, unit=dma, cycles=lambda s: 60 + s["rows"], **sizes)
    machine.copy("store", near, MAIN, unit=dma, cycles=lambda s: 60 + s["rows"], **sizes)

    @machine.instruction(dma, into=near, cycles=lambda s: 60 + s["rows"], **sizes)
    def clear() -> Pattern:
        return block("rows lanes", lambda _: 0)

    return machine


@pytest.mark.parametrize(
    ("queued", "calls"), [(False, ["clear", "load"]), (True, ["clear", "load", "clear"])]
)
def test_rows_of_a_fifo_are_set_once(queued: bool, calls: list[str]) -> None:
    class Padded(byocir.Target):
        name, machine = "padded", described(queued=queued)

    register("padded", Padded)
    near, target = 'memref<5x8xi8, "padded.near">', '#byoc.target<"padded", {}>'
    module = parse_module(f"""
      func.func @image(%x: memref<3x8xi8>) attributes {{byoc.target = {target}}} {{
        %t = tir.alloc : {near}
        tir.block [i: 5, j: 8]
            ins(%x[i - 1, j] pad 0 : i8 : memref<3x8xi8>) outs(%t[i, j] : {near}) {{
        ^bb0(%p: i8, %old: i8):
          tir.yield %p : i8
        }}
        func.return
      }}""")
    run_passes(module, load_context(), "write-out-loops,select-instructions")
    names = [op.callee.data for op in module.walk() if isinstance(op, IntrinsicOp)]
    assert names == [f"padded.{name}" for name in calls]

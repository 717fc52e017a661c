"""Programs that are listed again: what changed since the last time is described anew."""

from __future__ import annotations

from test_kept import PROGRAM, STEP, keeping
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.tir import AllocOp, IntrinsicOp
from byocir.machine.calls import forget_calls, ops_in
from byocir.machine.operand_places import ROW


def test_ops_are_described_once_while_they_stay_the_same() -> None:
    steps = STEP.replace("AT", "0") + STEP.replace("AT", "1")
    module = parse_module(PROGRAM.replace("LOADS", steps), load_context())
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    machine, body = keeping(), function.body.block
    before = ops_in(machine, body)
    assert ops_in(machine, body) == before

    changed = before[0].op
    changed.properties["cut"] = IntrinsicOp.of("", cut=(1, 4)).properties["cut"]
    found = ops_in(machine, body)
    assert [one is other for one, other in zip(before, found, strict=True)] == [
        each.op is not changed for each in before
    ]
    assert (before[0].count, found[0].count) == (1, 3)

    (near, _) = (op for op in body.ops if isinstance(op, AllocOp))
    assert found[0].result.rows()[0][0] == 0
    near.attributes[ROW] = IntegerAttr(8, i64)
    assert ops_in(machine, body)[0].result.rows()[0][0] == 8
    assert ops_in(keeping(), body)[1] is not ops_in(machine, body)[1]

    last = ops_in(machine, body)
    forget_calls(body)
    assert ops_in(machine, body)[0] is not last[0]

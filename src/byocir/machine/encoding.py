"""Encodes programs in the machine's own code: what its instructions say for each call, and
configuration where it changes.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.func import FuncOp

from byocir.machine.calls import calls_in
from byocir.machine.description import Machine
from byocir.machine.instructions import Register


def encoded(machine: Machine, function: FuncOp) -> list[Any]:
    """Encodes a program by the machine's hooks, in order: one entry for each call and, in front of
    it, one for each register that must change for it. Empty for a machine whose instructions have
    no hooks.
    """
    code: list[Any] = []
    held: dict[Register, Any] = {}
    for call in calls_in(machine, function.body.block):
        encode = call.instruction.encode
        if encode is None:
            continue
        for register, value in call.registers.items():
            if register not in held or held[register] != value:
                held[register] = value
                code.append(register.encode(value))
        code.append(encode(call))
    return code

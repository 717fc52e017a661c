"""Encodes programs in the machine's own code: what its instructions say for each call, and
configuration where it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from byocir.machine.instructions import Call, Register


def encoded(calls: Iterable[Call]) -> list[Any]:
    """Encodes the calls of a program by the machine's hooks, in order: one entry for each call and,
    in front of it, one for each register that must change for it. Empty for a machine whose
    instructions have no hooks.
    """
    code: list[Any] = []
    held: dict[Register, Any] = {}
    for call in calls:
        instruction = call.instruction
        if instruction.encode is None:
            continue
        for register, value in call.registers.items() if instruction.registers else ():
            if register not in held or held[register] != value:
                held[register] = value
                code.append(register.encode(value))
        code.append(instruction.encode(call))
    return code

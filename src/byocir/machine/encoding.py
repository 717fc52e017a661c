"""Encodes programs in the machine's own code: what its instructions say for each call, and
configuration where it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from byocir.errors import FAILURES, ByocirError
from byocir.machine.instructions import Call, Register
from byocir.vendor.places import failed, place_of

Given = TypeVar("Given")
Answer = TypeVar("Answer")


def encoded(calls: Iterable[Call]) -> list[Any]:
    """Encodes the calls of a program by the machine's hooks, in order: one entry for each call and,
    in front of it, one for each register that must change for it. Empty for a machine whose
    instructions have no hooks. Raises ByocirError B270 for a hook that fails.
    """
    code: list[Any] = []
    held: dict[Register, Any] = {}
    for call in calls:
        instruction = call.instruction
        if instruction.encode is None:
            continue
        for register, value in _registers(call).items():
            if register not in held or held[register] != value:
                held[register] = value
                code.append(_asked(f"encode of register {register.name}", register.encode, value))
        code.append(_asked(f"encode of {instruction.name}", instruction.encode, call))
    return code


def _asked(what: str, hook: Callable[[Given], Answer], given: Given) -> Answer:
    try:
        return hook(given)
    except ByocirError:
        raise
    except FAILURES as error:
        raise failed("B270", what, hook, error) from error


def _registers(call: Call) -> Mapping[Register, Any]:
    """Gives the contents of the registers that a call needs."""
    hook = call.instruction.registers
    if hook is None:
        return {}
    what = f"registers of {call.instruction.name}"
    found = cast(object, _asked(what, hook, call))
    if isinstance(found, Mapping):
        named = cast("Mapping[object, object]", found)
        if all(isinstance(each, Register) for each in named):
            return cast("Mapping[Register, Any]", named)
    told = f"expected {what} to give a value for each Register, found {found!r}"
    raise ByocirError("B270", told, where=place_of(hook))

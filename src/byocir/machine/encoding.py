"""Encodes programs in the machine's own code: what its instructions say for each call, and
configuration where it changes.

Calls that a machine cannot tell apart have the same code: they are encoded once. They do as many
points of like blocks, with the same rows, or the same elements of the same arrays, and wait for the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from byocir.errors import FAILURES, ByocirError
from byocir.machine.calls import Calls, IssuedCalls
from byocir.machine.description import Machine
from byocir.machine.instructions import Call, Instruction, Register
from byocir.vendor.places import failed, place_of

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")
Configuration = Mapping[Register, Any]


@dataclass(frozen=True)
class _Encoded:
    """Holds the code of the calls of an op, and the numbers of the configurations that they
    need."""

    entries: list[Any]
    configured: NDArray[np.int64]


class Encoder:
    """Encodes programs of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._known: dict[Hashable, _Encoded] = {}
        self._is_shared = machine.assemble is None
        """Tells whether entries are the code; a machine that makes files of them itself may want
        to know of each call what it belongs to."""
        self._in_columns = machine.in_columns
        self._configurations: list[Configuration] = []
        self._last: dict[Instruction, int] = {}

    def code(self, calls: IssuedCalls) -> list[Any]:
        """Encodes the calls of a program by the machine's hooks, in order: one entry for each call
        and, in front of it, one for each register that must change for it. Empty for a machine
        whose instructions have no hooks. Raises ByocirError B270 for a hook that fails.
        """
        found = [self._encoded(calls, number) for number in range(len(calls.ops))]
        has_code = np.array([op.instruction.encode is not None for op in calls.ops], np.bool_)
        order = calls.order[has_code[calls.op]]
        entries = [entry for each in found for entry in each.entries]
        entries = [entries[at] for at in order.tolist()]
        configured = np.concatenate([np.empty(0, np.int64), *(e.configured for e in found)])[order]
        return self._with_registers(entries, configured)

    def _with_registers(self, entries: list[Any], configured: NDArray[np.int64]) -> list[Any]:
        """Puts entries for registers in front of those of the calls for which they change."""
        code: list[Any] = []
        held: dict[Register, Any] = {}
        done = 0
        changes: list[int] = np.flatnonzero(np.diff(configured, prepend=-1)).tolist()
        for at in changes:
            code += entries[done:at]
            done = at
            for register, value in self._configurations[int(configured[at])].items():
                if register not in held or held[register] != value:
                    held[register] = value
                    what = f"encode of register {register.name}"
                    code.append(self._code(what, register.encode, value))
        return code + entries[done:]

    def _code(self, what: str, encode: Callable[[Any], Any], given: Any) -> Any:
        """Asks a hook for code. Raises ByocirError B270 for a hook that gives None, which only a
        machine that makes files of its code itself can mean.
        """
        found = _ask(what, encode, given)
        if found is None and self._is_shared:
            help = "the last line is to be a return of the code; methods such as append give None"
            told = f"expected {what} to give code, found None"
            raise ByocirError("B270", told, where=place_of(encode), help=help)
        return found

    def _encoded(self, calls: IssuedCalls, number: int) -> _Encoded:
        op, kept = calls.ops[number], calls.is_kept[calls.turns_of(number)]
        if not self._is_shared:
            return self._asked(op, kept)
        key = kept.tobytes(), *((part.alike, _told_apart(part)) for part in op.parts)
        if key not in self._known:
            self._known[key] = self._asked(op, kept)
        return self._known[key]

    def _asked(self, op: Calls, kept: NDArray[np.bool_]) -> _Encoded:
        """Asks the hooks of an instruction about the calls of an op."""
        encode, entries, configured = op.instruction.encode, [None] * op.count, [0] * op.count
        if encode is None:
            return _Encoded(entries, np.array(configured, np.int64))
        what = f"encode of {op.instruction.name}"
        for numbers in self._groups(op, kept):
            first, count = numbers[0], len(numbers)
            stays = bool(kept[first])
            alone = count == 1
            call = op.call(first, is_kept=stays) if alone else op.calls(numbers, is_kept=stays)
            configurations = self._configured(op.instruction, call, count)
            code = _of_each(what, self._code(what, encode, call), count)
            for number, entry, configuration in zip(numbers, code, configurations, strict=True):
                entries[number], configured[number] = entry, configuration
        return _Encoded(entries, np.array(configured, np.int64))

    def _groups(self, op: Calls, kept: NDArray[np.bool_]) -> Iterator[Sequence[int]]:
        """Yields the numbers of the calls of an op about which hooks are asked together."""
        if not self._in_columns:
            yield from ([number] for number in range(op.count))
            return
        last = op.count - 1
        yield from ([number] for number in sorted({0, last}))
        for _, numbers, _ in op.course.groups:
            inner = numbers[(numbers > 0) & (numbers < last)]
            for stays in (False, True):
                found: list[int] = inner[kept[inner] == stays].tolist()
                if found:
                    yield found

    def _configured(self, instruction: Instruction, call: Call, count: int) -> Sequence[int]:
        """Numbers the configurations that calls need, which are asked about together."""
        hook = instruction.registers
        if hook is None:
            return [self._numbered(instruction, {})] * count
        what = f"registers of {instruction.name}"
        found = _checked(what, _ask(what, hook, call), hook)
        values = _of_each(what, [*found.values()], count)
        pairs = (dict(zip(found, each, strict=True)) for each in values)
        return [self._numbered(instruction, each) for each in pairs]

    def _numbered(self, instruction: Instruction, found: Configuration) -> int:
        """Numbers a configuration: often it is the last one that the instruction needed."""
        last, known = self._last.get(instruction), self._configurations
        if last is not None and found == known[last]:
            return last
        number = self._last[instruction] = len(known)
        known.append(found)
        return number


def _of_each(what: str, found: object, count: int) -> Sequence[Any]:
    """Gives what a hook told of so many calls for each of them: arrays have a number for each, and
    all else is the same for all. Raises ByocirError B270 for arrays of another length.
    """
    if count == 1:
        return [found]
    if isinstance(found, np.ndarray):
        column = cast("NDArray[Any]", found)
        if column.shape != (count,):
            told = f"expected {what} to give arrays of {count} numbers, found {column.shape}"
            raise ByocirError("B270", told)
        return column.tolist()
    if not isinstance(found, (list, tuple)):
        return [found] * count
    parts = [_of_each(what, each, count) for each in cast("Sequence[object]", found)]
    rows: list[Any] = [*zip(*parts, strict=True)] or [()] * count
    return rows if isinstance(found, tuple) else [[*row] for row in rows]


def code_by_call(calls: Iterable[Call]) -> Iterator[tuple[Call, list[Any]]]:
    """Yields each call with its part of the code, for who reads a program command by command: it
    asks the hooks about every call alone. Raises ByocirError B270 for a hook that fails.
    """
    held: dict[Register, Any] = {}
    for call in calls:
        instruction, code = call.instruction, list[Any]()
        if instruction.encode is not None:
            hook = instruction.registers
            found = {} if hook is None else _ask(f"registers of {instruction.name}", hook, call)
            for register, value in _checked(
                f"registers of {instruction.name}", found, hook
            ).items():
                if register not in held or held[register] != value:
                    held[register] = value
                    code.append(_ask(f"encode of register {register.name}", register.encode, value))
            code.append(_ask(f"encode of {instruction.name}", instruction.encode, call))
        yield call, code


def _told_apart(op: Calls) -> Hashable:
    """Gives what tells an op from others with like blocks: where their operands lie, and what they
    wait for."""
    places = [
        (whole.buffer if whole.memory.is_main else (whole.shape, whole.first), starts)
        for whole, starts in op.arrays
    ]
    return (*places, op.op.waits, op.op.pops, op.op.pushes)


def assembled(machine: Machine, function: FuncOp, code: Sequence[Any]) -> Mapping[str, bytes]:
    """Asks the machine for the files of a function's code. Raises ByocirError B270 for a hook that
    fails, or gives no files by name.
    """
    assert machine.assemble is not None
    hook: Callable[[FuncOp, Sequence[Any]], Any] = machine.assemble
    found = _ask(f"assemble of {machine.name}", hook, function, code)
    if isinstance(found, Mapping):
        return cast("Mapping[str, bytes]", found)
    told = f"expected assemble of {machine.name} to give files, as bytes by name, found {found!r}"
    help = "assemble = lambda function, code: {'npu_0.bin': …}"
    raise ByocirError("B270", told, where=place_of(machine.assemble), help=help)


def _ask(what: str, hook: Callable[[*Given], Answer], *given: *Given) -> Answer:
    try:
        return hook(*given)
    except ByocirError:
        raise
    except FAILURES as error:
        raise failed("B270", what, hook, error) from error


def _checked(what: str, found: object, hook: Callable[[Call], object] | None) -> Configuration:
    """Gives the contents of registers, as a hook told them. Raises ByocirError B270 for others."""
    if isinstance(found, Mapping):
        named = cast("Mapping[object, object]", found)
        if all(isinstance(each, Register) for each in named):
            return cast("Configuration", named)
    told = f"expected {what} to give a value for each Register, found {found!r}"
    raise ByocirError("B270", told, where="" if hook is None else place_of(hook))

"""Lists the commands of programs, each with what it was made for and its code in hex: calls of a
described machine's instructions, and VTA's instructions.

A machine's hooks are asked for the code again, as only they know what belongs to which call. What
they give is compared with the code that the package has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from xdsl.dialects.func import FuncOp

from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.machine import Call, Instruction, Machine, Place
from byocir.machine.calls import IssuedCalls, calls_in
from byocir.machine.encoding import code_by_call
from byocir.targets.described import TEXT, functions_of
from byocir.targets.vta_files import Code, streams
from byocir.vta_sim import disassemble

Command = dict[str, Any]


@dataclass(frozen=True)
class Listing:
    """Holds the commands of a program, which are made as they are asked for, and for each
    instruction how many there are, its unit, and the line that declares it.
    """

    machine: str
    count: int
    instructions: Mapping[str, tuple[int, str, str]]
    commands: Iterator[Command]


Listings = Mapping[str, Callable[[], Listing]]
"""The listings of programs, by symbol, each made when it is asked for."""


def listings_of_machine(machine: Machine, blobs: Mapping[str, bytes]) -> Listings:
    """Gives the listings of a described machine's programs."""
    found = functions_of(blobs) if TEXT in blobs else {}
    return {s: partial(_listing, machine, function, blobs) for s, function in found.items()}


def listings_of_vta(blobs: Mapping[str, bytes]) -> Listings:
    """Gives the listings of VTA's programs."""
    return {symbol: partial(_listing_of_vta, code) for symbol, code in streams(blobs).items()}


def _listing_of_vta(code: Code) -> Listing:
    commands = zip(
        disassemble(code.insns, code.config),
        code.locations,
        code.insns.view("<u8").tolist(),
        strict=True,
    )
    told = (
        {
            "number": number,
            "instruction": text,
            "nodes": nodes.partition(", tile ")[0].split(", "),
            "code": hex_of(words),
        }
        for number, (text, nodes, words) in enumerate(commands)
    )
    return Listing(code.config.name, len(code.insns), {}, told)


def _listing(machine: Machine, function: FuncOp, blobs: Mapping[str, bytes]) -> Listing:
    calls = calls_in(machine, function.body.block)
    counts = Counter[Instruction]()
    for op in calls.ops:
        counts[op.instruction] += op.count
    used = {each.name: (count, each.unit.name, each.where) for each, count in counts.items()}
    is_code = machine.assemble is None
    commands = _commands(calls, _Kept(function.sym_name.data, blobs)) if is_code else _bare(calls)
    return Listing(machine.name, len(calls), used, commands)


def _commands(calls: IssuedCalls, kept: _Kept) -> Iterator[Command]:
    for number, (call, code) in enumerate(code_by_call(calls)):
        kept.expect_next(code)
        yield {"number": number, **_told(call), "code": hex_of(code)}
    kept.expect_end()


def _bare(calls: IssuedCalls) -> Iterator[Command]:
    """Yields the commands of a machine that makes files of what its hooks give."""
    for number, call in enumerate(calls):
        yield {"number": number, **_told(call), "code": []}


def _told(call: Call) -> Command:
    return {
        "instruction": call.instruction.name,
        "unit": call.unit.name,
        "where": call.instruction.where,
        **({"form": call.form} if len(call.instruction.forms) > 1 else {}),
        "nodes": list(names(call.op.location)),
        "sizes": dict(call.sizes),
        "numbers": dict(call.numbers),
        "operands": {name: _place(place) for name, place in call.places.items()},
        "waits": dict(call.waits),
        "pops": list(call.pops),
        "pushes": list(call.pushes),
    }


def _place(place: Place) -> dict[str, Any]:
    if place.memory.is_main:
        return {"memory": f"array{place.array}", "address": place.address}
    lane = {"lane": place.lane} if place.lane else {}
    return {"memory": place.memory.called, "address": place.row, **lane}


class _Kept:
    """Reads the code that a package has of a program, in order."""

    def __init__(self, symbol: str, blobs: Mapping[str, bytes]) -> None:
        self.symbol, self.at = symbol, 0
        self.bytes = blobs.get(f"{symbol}.bin", b"")
        self.entries: list[Any] = json.loads(blobs.get(f"{symbol}.json", b"[]"))

    def expect_next(self, code: list[Any]) -> None:
        """Raises ByocirError B330 if other code comes next."""
        binary = all(isinstance(each, bytes) for each in code)
        told: Any = b"".join(code) if binary else json.loads(json.dumps(code))
        next_ = self.at + len(told)
        if told != (self.bytes if binary else self.entries)[self.at : next_]:
            raise self._other_code()
        self.at = next_

    def expect_end(self) -> None:
        """Raises ByocirError B330 if code is left."""
        if self.at < max(len(self.bytes), len(self.entries)):
            raise self._other_code()

    def _other_code(self) -> ByocirError:
        return ByocirError(
            "B330",
            f"expected the code of {self.symbol} that its machine encodes, found other code",
            help="the description was changed, or the package: compile the model again",
        )


def hex_of(code: object) -> Any:
    """Writes the integers and bytes of code in hex."""
    if isinstance(code, bytes):
        return code.hex(" ", 4)
    if isinstance(code, int) and not isinstance(code, bool):
        return f"{code:#018x}" if code >> 32 > 0 else f"{code:#x}"
    if isinstance(code, (list, tuple)):
        return [hex_of(each) for each in cast("list[object]", code)]
    return code

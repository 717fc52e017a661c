"""Checks what a machine declares by itself: kinds of values, names, sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from math import prod
from typing import Any

from byocir.machine.checks.told import wrong
from byocir.machine.description import Machine
from byocir.machine.instructions import Instruction
from byocir.machine.parts import (
    MAIN,
    Channel,
    Interlocked,
    Limit,
    Memory,
    Order,
    Tokens,
    Transfer,
    Unit,
)


def check_kinds(machine: Machine) -> None:
    """Checks declarations against their types, which Python does not do: a wrong one would fail
    later, or mean nothing.
    """
    for what, value, kind in _declared(machine):
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise wrong(machine, f"{what} to be {_CALLED[kind]}", repr(value), _help(value, kind))


def _help(value: object, kind: Any) -> str:
    """Tells what was forgotten: the comma of a tuple of one thing, or the call of a class."""
    if kind is Order:
        is_class = isinstance(value, type) and issubclass(value, Order)
        return f"write {value.__name__}({'…' if fields(value) else ''})" if is_class else ""
    wants_tuple = kind is tuple or (isinstance(kind, tuple) and tuple in kind)
    if wants_tuple and isinstance(value, Memory | Unit | str):
        told = 'Interlocked((near,)), Tokens(((load, core),)) or strided=("x",)'
        return f"a comma makes a tuple of one thing: {told}"
    return ""


_CALLED: Mapping[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    str: "text",
    tuple: "a tuple",
    (tuple, list): "a tuple",
    (tuple, list, AbstractSet): "a tuple of names",
    Channel: "a channel of the machine",
    Limit: "a limit, such as up_to(16)",
    Memory: "a memory of the machine",
    Order: "a kind of order, such as Counted()",
    Transfer: "a transfer, such as Transfer(channel, lead=8)",
    Unit: "a unit of the machine",
    Callable: "a function",
}


def _declared(machine: Machine) -> Iterator[tuple[str, Any, Any]]:
    """Lists all declarations whose type is checked: words for messages, value, type."""
    yield "the machine's name", machine.name, str
    yield from _ordering(machine.ordered)
    yield "in_columns", machine.in_columns, bool
    for name in ("issue", "assemble"):
        value, kind = getattr(machine, name), str if name == "issue" else Callable
        yield from [(f"what {name} is", value, kind)] if value is not None else []
    for unit in machine.units:
        yield "the name of a unit", unit.name, str
        yield f"the queue of unit {unit.name}", unit.queue, int
    yield from (("the name of a channel", channel.name, str) for channel in machine.channels)
    for memory in machine.memories:
        for name in ("fifo", "inside_rows", "interleaved"):
            yield f"{name} of {memory.scope}", getattr(memory, name), bool
        yield f"rows of {memory.scope}", memory.rows, int
        yield f"banks of {memory.scope}", memory.banks, int
        yield f"the granule of {memory.scope}", memory.granule, int
        yield from ((f"a side of a row of {memory.scope}", side, int) for side in memory.row)
    for each in machine.instructions:
        yield f"the unit of {each.name}", each.unit, Unit
        yield f"what {each.name} writes", each.into, Memory
        yield f"cycles of {each.name}", each.cycles, Callable
        yield from _moving(each)
        optional = {"opcode": int, "encode": Callable, "registers": Callable}
        optional |= {"keeps": str, "kept_cycles": Callable}
        for name, kind in optional.items():
            if getattr(each, name) is not None:
                yield f"{name} of {each.name}", getattr(each, name), kind
        yield f"strided of {each.name}", each.strided, (tuple, list, AbstractSet)
        for name, limit in each.limits.items():
            yield f"the limit of {name} of {each.name}", limit, Limit
            yield f"the limit of {name} of {each.name}", limit.most, int
            yield f"steps of {name} of {each.name}", limit.step, int


def _moving(each: Instruction) -> Iterator[tuple[str, Any, Any]]:
    """Lists what the transfer of an instruction declares, as `_declared` does."""
    transfer = each.transfer
    if transfer is not None:
        yield f"the transfer of {each.name}", transfer, Transfer
        yield f"the channel of {each.name}", transfer.channel, Channel
        yield f"the lead of {each.name}", transfer.lead, int
        yield f"the rank of {each.name}", transfer.rank, int


def _ordering(order: Any) -> Iterator[tuple[str, Any, Any]]:
    """Lists what an order declares, as `_declared` does."""
    yield "the order", order, Order
    if isinstance(order, Interlocked):
        yield "memories of Interlocked", order.memories, (tuple, list)
        yield from (("what is Interlocked", each, Memory) for each in order.memories)
    if isinstance(order, Tokens):
        yield "pairs of Tokens", order.pairs, (tuple, list)
        for pair in order.pairs:
            yield "a pair of Tokens", pair, tuple
            yield from (("what exchanges Tokens", each, Unit) for each in pair)
        yield "the capacity of Tokens", order.capacity, int


def check_names(machine: Machine) -> None:
    """Checks that units, memories, channels and instructions have names, each its own."""
    kinds: Sequence[tuple[str, Sequence[str]]] = (
        ("units", [unit.name for unit in machine.units]),
        ("memories", [memory.scope for memory in machine.memories]),
        ("instructions", [each.name for each in machine.instructions]),
        ("units and channels", [each.name for each in (*machine.units, *machine.channels)]),
    )
    for kind, names in kinds:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise wrong(machine, f"{kind} with names of their own", f"two called {twice[0]}")
        if not names:
            raise wrong(machine, kind, "none")
        for name in (machine.name, *(each.removeprefix(f"{machine.name}.") for each in names)):
            if not name.isidentifier():
                raise wrong(machine, f"names such as near_1 for the machine and {kind}", repr(name))


def check_views(machine: Machine) -> None:
    """Checks that views show memories of this machine, as many bytes in each row, which stay there
    when they are read.
    """
    for view in (each for each in machine.memories if each.viewed is not None):
        shown, told = view.storage, f"{view.scope} to be a view of a memory of the machine"
        if shown not in machine.memories:
            raise wrong(machine, told, shown.called)
        if shown.viewed is not None:
            help = f"name {shown.storage.scope}, which has the rows"
            raise wrong(machine, told, f"one of the view {shown.scope}", help)
        if shown.fifo:
            raise wrong(machine, f"{told} whose rows stay in it", f"one of the FIFO {shown.scope}")
        if view.row_bytes != shown.row_bytes:
            expected = f"rows of {view.scope} of {shown.row_bytes} bytes, as {shown.scope} has"
            lanes, left = divmod(shown.row_bytes * prod(view.row), view.row_bytes)
            help = "" if left else f"row=({lanes},) has as many"
            raise wrong(machine, expected, f"{view.row_bytes}", help)


def check_memories(machine: Machine) -> None:
    """Checks that memories have rows, in equal banks of whole granules."""
    for memory in machine.memories:
        numbers = {"rows": memory.rows, "banks": memory.banks, "granule": memory.granule}
        numbers |= {f"row[{i}]": size for i, size in enumerate(memory.row)}
        for name, number in numbers.items():
            if number < 1:
                raise wrong(machine, f"{name} of {memory.scope} of at least 1", repr(number))
        if memory.fifo and (memory.banks, memory.granule) != (1, 1):
            expected = (
                f"{memory.scope}, whose rows leave it as they came, without banks and granules"
            )
            raise wrong(machine, expected, f"banks={memory.banks}, granule={memory.granule}")
        if memory.bank * memory.banks != memory.rows or memory.bank % memory.granule:
            told = f"{memory.banks} equal banks of whole granules of {memory.granule}"
            raise wrong(machine, f"rows of {memory.scope} to be {told}", str(memory.rows))


def check_parts(machine: Machine) -> None:
    """Checks that instructions and the order name units and memories of this machine."""
    for each in machine.instructions:
        if each.unit not in machine.units:
            raise wrong(machine, f"{each.name} to name a unit of the machine", repr(each.unit))
        for memory in (*each.operands.values(), each.into):
            if memory != MAIN and memory not in machine.memories:
                expected = f"{each.name} to name memories of the machine"
                raise wrong(machine, expected, memory.called)
    order = machine.ordered
    capacity = order.capacity if isinstance(order, Tokens) else None
    if capacity is not None and capacity < 1:
        raise wrong(machine, "a capacity of Tokens of at least 1", str(capacity))
    pairs = order.pairs if isinstance(order, Tokens) else ()
    for pair in (each for each in pairs if len(each) != 2):
        raise wrong(machine, "a pair of Tokens to be two units", str(len(pair)))
    named = [unit for pair in pairs for unit in pair]
    parts: Sequence[Unit | Memory] = order.memories if isinstance(order, Interlocked) else named
    for part in parts:
        if part not in machine.units and part not in machine.memories:
            raise wrong(machine, "an order that names parts of the machine", repr(part))


def check_units(machine: Machine) -> None:
    """Checks that each unit has an instruction, and room for one in its queue."""
    used = {each.unit for each in machine.instructions}
    for unit in machine.units:
        if unit not in used:
            raise wrong(machine, f"an instruction of unit {unit.name}", "none")
        if unit.queue < 1:
            raise wrong(machine, f"a queue of unit {unit.name} for one or more", str(unit.queue))


def check_channels(machine: Machine) -> None:
    """Checks that transfers name channels of this machine, and that each channel is named."""
    transfers = [(each, each.transfer) for each in machine.instructions if each.transfer]
    for each, transfer in transfers:
        if transfer.channel not in machine.channels:
            expected = f"{each.name} to name a channel of the machine"
            raise wrong(machine, expected, repr(transfer.channel))
        if transfer.lead < 0:
            raise wrong(machine, f"a lead of {each.name} of at least 0", str(transfer.lead))
    for channel in machine.channels:
        if all(transfer.channel != channel for _, transfer in transfers):
            raise wrong(machine, f"an instruction that moves data over {channel.name}", "none")


def check_opcodes(machine: Machine) -> None:
    """Checks that no two instructions have one opcode."""
    seen: dict[int, Instruction] = {}
    for each in machine.instructions:
        if each.opcode is None:
            continue
        other = seen.setdefault(each.opcode, each)
        if other is not each:
            expected = f"one pattern for opcode {each.opcode}"
            raise wrong(machine, expected, f"{other.name} and {each.name}")

"""Finds mistakes in descriptions of machines when the target is loaded: one message, code B270."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from math import inf
from typing import Any, cast

import numpy as np

from byocir.dialects.types import Shape
from byocir.errors import FAILURES, ByocirError
from byocir.machine.description import Machine
from byocir.machine.instructions import Instruction, init_of
from byocir.machine.parts import (
    MAIN,
    Channel,
    Interlocked,
    Limit,
    Memory,
    Operand,
    Order,
    Tokens,
    Transfer,
    Unit,
)
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.index import Affine, Index

MOST_SIZES = 64
"""The number of sizes of an iterator for which costs are asked."""


def check_machine(machine: Machine) -> None:
    """Raises ByocirError B270 for the first mistake of a description."""
    parts = (_kinds, _names, _memories, _parts, _channels, _fifos, _units, _opcodes)
    for check in (*parts, _limits, _strides, _costs, _tiles, _feeding, _single_numbers, _tokens):
        check(machine)


def _wrong(machine: Machine, expected: str, found: str, help: str = "") -> ByocirError:
    told = f"expected {expected}, found {found}"
    return ByocirError("B270", told, where=f"machine {machine.name}", help=help)


def _kinds(machine: Machine) -> None:
    """Checks declarations against their types, which Python does not do: a wrong one would fail
    later, or mean nothing.
    """
    for what, value, kind in _declared(machine):
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _wrong(machine, f"{what} to be {_CALLED[kind]}", repr(value))


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
    for name in ("issue", "assemble"):
        value, kind = getattr(machine, name), str if name == "issue" else Callable
        yield from [(f"what {name} is", value, kind)] if value is not None else []
    for unit in machine.units:
        yield "the name of a unit", unit.name, str
        yield f"the queue of unit {unit.name}", unit.queue, int
    yield from (("the name of a channel", channel.name, str) for channel in machine.channels)
    for memory in machine.memories:
        for name in ("fifo", "inside_rows"):
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


def _names(machine: Machine) -> None:
    kinds: Sequence[tuple[str, Sequence[str]]] = (
        ("units", [unit.name for unit in machine.units]),
        ("memories", [memory.scope for memory in machine.memories]),
        ("instructions", [each.name for each in machine.instructions]),
        ("units and channels", [each.name for each in (*machine.units, *machine.channels)]),
    )
    for kind, names in kinds:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise _wrong(machine, f"{kind} with names of their own", f"two called {twice[0]}")
        if not names:
            raise _wrong(machine, kind, "none")
        for name in (machine.name, *(each.removeprefix(f"{machine.name}.") for each in names)):
            if not name.isidentifier():
                raise _wrong(
                    machine, f"names such as near_1 for the machine and {kind}", repr(name)
                )


def _memories(machine: Machine) -> None:
    for memory in machine.memories:
        numbers = {"rows": memory.rows, "banks": memory.banks, "granule": memory.granule}
        numbers |= {f"row[{i}]": size for i, size in enumerate(memory.row)}
        for name, number in numbers.items():
            if number < 1:
                raise _wrong(machine, f"{name} of {memory.scope} of at least 1", repr(number))
        if memory.fifo and (memory.banks, memory.granule) != (1, 1):
            expected = (
                f"{memory.scope}, whose rows leave it as they came, without banks and granules"
            )
            raise _wrong(machine, expected, f"banks={memory.banks}, granule={memory.granule}")
        if memory.bank * memory.banks != memory.rows or memory.bank % memory.granule:
            told = f"{memory.banks} equal banks of whole granules of {memory.granule}"
            raise _wrong(machine, f"rows of {memory.scope} to be {told}", str(memory.rows))


def _parts(machine: Machine) -> None:
    for each in machine.instructions:
        if each.unit not in machine.units:
            raise _wrong(machine, f"{each.name} to name a unit of the machine", repr(each.unit))
        for memory in (*each.operands.values(), each.into):
            if memory != MAIN and memory not in machine.memories:
                expected = f"{each.name} to name memories of the machine"
                raise _wrong(machine, expected, memory.called)
    order = machine.ordered
    capacity = order.capacity if isinstance(order, Tokens) else None
    if capacity is not None and capacity < 1:
        raise _wrong(machine, "a capacity of tokens of at least 1", str(capacity))
    pairs = order.pairs if isinstance(order, Tokens) else ()
    for pair in (each for each in pairs if len(each) != 2):
        raise _wrong(machine, "a pair of Tokens to be two units", str(len(pair)))
    named = [unit for pair in pairs for unit in pair]
    parts: Sequence[Unit | Memory] = order.memories if isinstance(order, Interlocked) else named
    for part in parts:
        if part not in machine.units and part not in machine.memories:
            raise _wrong(machine, "an order that names parts of the machine", repr(part))


def _units(machine: Machine) -> None:
    used = {each.unit for each in machine.instructions}
    for unit in machine.units:
        if unit not in used:
            raise _wrong(machine, f"an instruction of unit {unit.name}", "none")
        if unit.queue < 1:
            raise _wrong(machine, f"a queue of unit {unit.name} for one or more", str(unit.queue))


def _channels(machine: Machine) -> None:
    transfers = [(each, each.transfer) for each in machine.instructions if each.transfer]
    for each, transfer in transfers:
        if transfer.channel not in machine.channels:
            expected = f"{each.name} to name a channel of the machine"
            raise _wrong(machine, expected, repr(transfer.channel))
        if transfer.lead < 0:
            raise _wrong(machine, f"a lead of {each.name} of at least 0", str(transfer.lead))
    for channel in machine.channels:
        if all(transfer.channel != channel for _, transfer in transfers):
            raise _wrong(machine, f"an instruction that moves data over {channel.name}", "none")


def _opcodes(machine: Machine) -> None:
    seen: dict[int, Instruction] = {}
    for each in machine.instructions:
        if each.opcode is None:
            continue
        other = seen.setdefault(each.opcode, each)
        if other is not each:
            expected = f"one pattern for opcode {each.opcode}"
            raise _wrong(machine, expected, f"{other.name} and {each.name}")


def _fifos(machine: Machine) -> None:
    """Checks that one unit alone writes a FIFO, and one alone reads it: rows leave in the order in
    which they came, and nothing orders two units.
    """
    for memory in (each for each in machine.memories if each.fifo):
        writing = [each for each in machine.instructions if each.into == memory]
        reads = [(each, _read(form)) for each in machine.instructions for form in each.forms]
        reading = [each for each, memories in reads if memory in memories]
        for what, found in (("writes", writing), ("reads", reading)):
            other = next((each for each in found if each.unit != found[0].unit), None)
            if other is not None:
                expected = f"one unit that {what} {memory.scope}, whose rows leave it as they came"
                units = f"{found[0].unit.name} ({found[0].name}) and {other.unit.name}"
                raise _wrong(machine, expected, f"{units} ({other.name})")


def _limits(machine: Machine) -> None:
    for each in machine.instructions:
        known = {name for form in each.forms for name in _iterators(form.iterators)}
        for name, limit in each.limits.items():
            if name not in known:
                raise _wrong(machine, f"limits of {each.name} for {', '.join(sorted(known))}", name)
            if not 0 < limit.step <= limit.most:
                wanted = f"a limit of {name} of {each.name} that allows a size"
                raise _wrong(machine, wanted, f"multiples of {limit.step} up to {limit.most}")


def _strides(machine: Machine) -> None:
    """Checks that names of `strided` are operands of an alternative: another means nothing."""
    for each in machine.instructions:
        known = [*each.operands, "out"]
        for name in each.strided:
            if name not in known:
                raise _wrong(
                    machine, f"strided of {each.name} among {', '.join(known)}", repr(name)
                )


def _iterators(iterators: Any) -> tuple[str, ...]:
    return (*iterators.parallel, *iterators.reduction, *iterators.groups)


def _costs(machine: Machine) -> None:
    for each in machine.instructions:
        if each.keeps and each.keeps not in each.operands:
            named = f"{each.name} to keep one of its operands: {', '.join(each.operands)}"
            raise _wrong(machine, named, each.keeps)
        if each.keeps and each.kept_cycles is None:
            raise _wrong(machine, f"kept_cycles of {each.name}, which keeps {each.keeps}", "none")
        least = each.transfer.lead if each.transfer else 0
        for name, cycles in (("cycles", each.cycles), ("kept_cycles", each.kept_cycles)):
            for sizes in _sizes(each) if cycles else ():
                _cost(machine, f"{name} of {each.name}", cycles, sizes, least)


def _sizes(each: Instruction) -> Iterator[dict[str, int]]:
    """Yields sizes of an instruction to ask its functions about: the smallest, the largest, and
    those that differ from them in one iterator, a limited number of each, for costs are functions
    that take their time.
    """
    names = [name for form in each.forms for name in _iterators(form.iterators)]
    limits = {name: each.limits.get(name, Limit(1)) for name in names}
    for sizes in (
        {name: limit.least for name, limit in limits.items()},
        {name: limit.most for name, limit in limits.items()},
    ):
        yield sizes
        for name, limit in limits.items():
            between = range(limit.least, limit.most, limit.step)[:MOST_SIZES]
            yield from (sizes | {name: size} for size in between)


def _cost(machine: Machine, told: str, cycles: Any, sizes: dict[str, int], least: int) -> None:
    try:
        found: Any = cycles(sizes)
    except FAILURES as error:
        found = f"{type(error).__name__}: {error}"
    is_number = isinstance(cast(object, found), int | float | np.integer)
    if not is_number or not least <= found < inf:
        raise _wrong(machine, f"{told} of at least {least} at {sizes}", str(found))


def _tiles(machine: Machine) -> None:
    for each in machine.instructions:
        for form in each.forms:
            least = {n: limit.least for n, limit in each.limits.items()}
            accesses = [
                (_memory(r.pattern), i) for r, i in zip(form.reads, form.indices, strict=True)
            ]
            for memory, index in [*accesses, (each.into, form.out)]:
                shape = _reached(index, least)
                rows = memory.rows_of(shape)
                if memory != MAIN and not memory.holds([rows]):
                    told = f"{memory.scope} to hold the smallest tile of {each.name}"
                    size = "x".join(map(str, shape))
                    raise _wrong(machine, told, f"{rows} rows for {size} and {memory.there}")


def _memory(pattern: Any) -> Memory:
    return pattern.memory if isinstance(pattern, Operand) else MAIN


def _read(form: BlockPattern) -> set[Memory]:
    """Lists the memories that a form reads, that of the value which its result starts from
    included.
    """
    start = init_of(form)
    return {_memory(read.pattern) for read in form.reads} | ({start.memory} if start else set())


def _reached(index: Index, sizes: dict[str, int]) -> Shape:
    """Gives the sizes of the box that an index reaches, taking unknown steps for 1."""
    shape: list[int] = []
    for part in index:
        terms = part.terms if isinstance(part, Affine) else ()
        steps = [(name, step if isinstance(step, int) else 1) for name, step in terms]
        shape.append(1 + sum(abs(step) * (sizes.get(name, 1) - 1) for name, step in steps))
    return tuple(shape)


def _feeding(machine: Machine) -> None:
    fed = {MAIN}
    pending = [(each, _read(form)) for each in machine.instructions for form in each.forms]
    while ready := [pair for pair in pending if pair[1] <= fed]:
        fed |= {each.into for each, _ in ready}
        pending = [pair for pair in pending if pair not in ready]
    if pending:
        each, memories = next((p for p in pending if p[0].into in p[1] - fed), pending[0])
        missing = next(memory for memory in machine.memories if memory in memories - fed)
        told = f"an instruction that brings what {each.name} reads into {missing.called}"
        help = "declare a copy into it, copy(…), or for sums a pattern that begins with a number"
        raise _wrong(machine, told, "none that anything feeds", help)
    back = {MAIN}
    for _ in product(machine.memories):
        back |= {
            m for each in machine.instructions if each.into in back for m in each.operands.values()
        }
    for each in machine.instructions:
        if each.into not in back:
            told = (
                f"an instruction that brings what {each.name} writes from {each.into.called} back"
            )
            raise _wrong(machine, told, "none", "declare a copy to MAIN, or a step towards it")


def _single_numbers(machine: Machine) -> None:
    """Checks that instructions read single numbers where they can be: copies bring rows."""
    made = {each.into for each in machine.instructions for form in each.forms if not form.out}
    for each in machine.instructions:
        for form in each.forms:
            for read, index in zip(form.reads, form.indices, strict=True):
                memory = _memory(read.pattern)
                if index or read.whole or not memory.row or memory in {MAIN, *made}:
                    continue
                told = f"{each.name} to read a single number where an instruction writes one"
                help = 'read it in main memory, as in wildcard(…)[""], or a row of them'
                raise _wrong(machine, told, f"it in {memory.called}, which gets rows", help)


def _tokens(machine: Machine) -> None:
    """Checks that tokens lead, if by way of other units, between a unit that writes a memory and
    all that read it, both ways: from what is written, and back for what overwrites it.
    """
    if not isinstance(machine.ordered, Tokens):
        return
    for memory in (each for each in machine.memories if each not in machine.guarded):
        for writer in (each for each in machine.instructions if each.into == memory):
            for reader in machine.instructions:
                if any(memory in _read(form) for form in reader.forms):
                    _expect_tokens(machine, memory, writer, reader)


def _expect_tokens(machine: Machine, memory: Memory, one: Instruction, other: Instruction) -> None:
    assert isinstance(machine.ordered, Tokens)
    for first, then in ((one, other), (other, one)):
        reached = {first.unit}
        for _ in machine.units:
            reached |= {to for unit, to in machine.ordered.pairs if unit in reached}
        if then.unit not in reached:
            expected = f"tokens that lead from unit {first.unit.name} to unit {then.unit.name}, on "
            expected += f"which {first.name} and then {then.name} access {memory.scope}"
            help = f"add ({first.unit.name}, {then.unit.name}) to the pairs of Tokens"
            raise _wrong(machine, expected, "none", help)

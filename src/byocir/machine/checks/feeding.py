"""Checks how data moves between memories: what brings it, takes it away and orders both."""

from __future__ import annotations

from byocir.machine.checks.told import wrong
from byocir.machine.description import Machine
from byocir.machine.instructions import Instruction, init_of, memory_of
from byocir.machine.parts import MAIN, Memory, Tokens
from byocir.patterns.blocks import BlockPattern


def check_fifos(machine: Machine) -> None:
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
                raise wrong(machine, expected, f"{units} ({other.name})")


def check_feeding(machine: Machine) -> None:
    """Checks that something brings what instructions read, and takes what they write back to main
    memory."""
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
        raise wrong(machine, told, "none that anything feeds", help)
    back = {MAIN}
    for _ in machine.memories:
        back |= {
            m for each in machine.instructions if each.into in back for m in each.operands.values()
        }
    for each in machine.instructions:
        if each.into not in back:
            told = (
                f"an instruction that brings what {each.name} writes from {each.into.called} back"
            )
            raise wrong(machine, told, "none", "declare a copy to MAIN, or a step towards it")


def check_single_numbers(machine: Machine) -> None:
    """Checks that instructions read single numbers where they can be: copies bring rows."""
    made = {each.into for each in machine.instructions for form in each.forms if not form.out}
    for each in machine.instructions:
        for form in each.forms:
            for read, index in zip(form.reads, form.indices, strict=True):
                memory = memory_of(read)
                if index or read.whole or not memory.row or memory in {MAIN, *made}:
                    continue
                told = f"{each.name} to read a single number where an instruction writes one"
                help = 'read it in main memory, as in wildcard(…)[""], or a row of them'
                raise wrong(machine, told, f"it in {memory.called}, which gets rows", help)


def check_tokens(machine: Machine) -> None:
    """Checks that tokens lead, if by way of other units, between a unit that writes a memory and
    all that read it, both ways: from what is written, and back for what overwrites it.
    """
    if not isinstance(machine.ordered, Tokens):
        return
    for memory in (each for each in machine.memories if each not in machine.guarded):
        for writer in (each for each in machine.instructions if each.into.storage == memory):
            for reader in machine.instructions:
                read = (each for form in reader.forms for each in _read(form))
                if any(each.storage == memory for each in read):
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
            raise wrong(machine, expected, "none", help)


def _read(form: BlockPattern) -> set[Memory]:
    """Lists the memories that a form reads, that of the value which its result starts from
    included.
    """
    start = init_of(form)
    return {memory_of(read) for read in form.reads} | ({start.memory} if start else set())

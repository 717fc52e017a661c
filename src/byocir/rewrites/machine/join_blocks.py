"""Joins what makes sums with what goes on with them, where one instruction does both."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from byocir.dialects.locations import place
from byocir.dialects.tir import BlockOp, IntrinsicOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.machine import Machine
from byocir.machine.find_instruction import kind_of
from byocir.machine.instructions import Instruction
from byocir.machine.two_blocks import cut_as, iterator_pairs
from byocir.rewrites.schedule.write_out import PaddedBox


def join_blocks(machine: Machine, second: BlockOp) -> list[IntrinsicOp]:
    """Replaces a block that goes on with what ops of the first block of an instruction made: each
    of these ops takes in what the second block does of its part, call by call. Gives these; none
    for another block, which stays. Raises ByocirError B271 where calls cannot do both.
    """
    read, made = _read_inside(machine, second), list[IntrinsicOp]()
    if read is None:
        return made
    home, (instruction, value) = second.parent, read
    assert home is not None
    for use in reversed(list(value.uses)):  # in the order in which they were made
        first, maker = use.operation, use.operation.parent_op()
        if isinstance(first, BlockOp) and isinstance(maker, IntrinsicOp) and maker.parent is home:
            made.append(_joined(machine, instruction, first, second))
            home.insert_op_before(made[-1], second)
    erase(second)
    return made


def _read_inside(machine: Machine, block: BlockOp) -> tuple[Instruction, SSAValue] | None:
    """Finds what a block reads in a hidden memory, and the instruction that has this inside."""
    scopes = [scope_of(value.type) for value in block.ins]
    for each in machine.instructions:
        if each.first is not None and each.first.into.scope in scopes:
            return each, block.ins[scopes.index(each.first.into.scope)]
    return None


def _joined(
    machine: Machine, instruction: Instruction, first: BlockOp, second: BlockOp
) -> IntrinsicOp:
    """Makes the op of both blocks, which takes the first one from the op that has it."""
    maker, work = first.parent_op(), _along(first, second)
    assert isinstance(maker, IntrinsicOp)
    cut, turns = maker.cut_of(first), range(len(first.extents))
    turns = turns if maker.order is None else maker.order.get_values()
    sizes, order = cut_as(first, cut, turns, work)
    kind = kind_of(machine, instruction.name, work, machine.keys.block(work), sizes, None)
    if any(cut[i] < first.extents[i] for i in first.reductions):
        kind = "sums that take several calls"
    if isinstance(kind, str):
        told = f"expected calls of {instruction.name} to do a block and what follows it, found"
        raise ByocirError("B271", f"{told}: {kind}", where=place(second.location))
    numbers = {**maker.fields, **kind.fit.numbers}
    blocks = list(maker.body.block.ops)
    for each in (*blocks, maker):
        each.detach()
    given = numbers, second.location, sizes, order
    return IntrinsicOp.of(instruction.name, [*blocks, work], *given)


def _along(first: BlockOp, second: BlockOp) -> BlockOp:
    """Makes the block that goes on with what the first one makes, and with no more."""
    read = second.in_maps[list(second.ins).index(first.outs[0])]
    pairs = {j: i for i, j in iterator_pairs(first, second).items()}
    sides = [(0, extent) for extent in second.extents]
    for made, used in zip(first.out_maps[0].results, read.results, strict=True):
        one, other = linear(made), linear(used)
        assert one is not None
        assert other is not None
        for j in other.atoms:
            low, size = one.constant - other.constant, first.extents[pairs[j]] if j in pairs else 1
            sides[j] = (low, low + size)
    box = replace(PaddedBox.of(second), sides=tuple(sides))
    return box.made([*second.ins, *second.outs])

"""Finds the unit that passes tokens on between units that exchange none, and makes the instruction
that carries them where that unit has no work in between.

A load that reads what a store wrote to main memory must wait for it. Where no tokens lead from the
unit that stores to the one that loads, they lead to a third one, and from there. That one needs an
instruction for it which leaves its memory as it is: adding zero to a row of what was stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, IntrinsicOp, IteratorAttr, IteratorKind, buffer
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, is_float
from byocir.machine import Machine, Place, Tokens, Unit
from byocir.machine.find_instruction import kind_of
from byocir.machine.instructions import Instruction, Kind


def relay_of(machine: Machine) -> Unit | None:
    """Finds a unit by way of which loads from main memory can wait for stores to it, where no
    tokens lead from those that store to those that load; None where there is none.
    """
    return machine.answer(("relay",), lambda: next(_relays(machine), None))


def _relays(machine: Machine) -> Iterator[Unit]:
    order = machine.ordered
    if not isinstance(order, Tokens):
        return
    pairs = {*order.pairs, *((unit, unit) for unit in machine.units)}
    readers = dict.fromkeys(each.unit for each in machine.instructions if each.reads_main)
    for unit in machine.units:
        apart = [
            each
            for each in machine.instructions
            if each.into.is_main and any((each.unit, other) not in pairs for other in readers)
        ]
        leads = all((each.unit, unit) in pairs for each in apart)
        leads &= all((unit, other) in pairs for other in readers)
        if apart and leads and all(_can_carry(machine, unit, each) for each in apart):
            yield unit


def _can_carry(machine: Machine, unit: Unit, store: Instruction) -> bool:
    """Tells whether a unit can leave a row as it is of all that an instruction stores."""
    memories = [memory for memory in store.operands.values() if not memory.is_main]
    for memory in memories:
        assert memory.element is not None
        outside = Block(arg_types=[buffer(memory.element, memory.row, memory.scope)])
        whole = tuple((0, size) for size in memory.row)
        if carrier(machine, unit, Place(memory, outside.args[0], whole, {}), None) is None:
            return False
    return bool(memories)


def carrier(
    machine: Machine, unit: Unit, place: Place, location: LocationAttr | None
) -> IntrinsicOp | None:
    """Makes an instruction of a unit that leaves the first row of a place as it is; None where the
    unit has none.
    """
    block = _unchanged(place)
    key, found = machine.keys.block(block), list[Kind]()
    for each in machine.instructions:
        if each.unit == unit and each.into == place.memory:
            kind = kind_of(machine, each.name, block, key, block.extents, None)
            found += [kind] if isinstance(kind, Kind) else []
    if not found:
        block.erase()
        return None
    fit = min(found, key=lambda kind: kind.cycles).fit
    block.location = location or block.location
    return IntrinsicOp.of(fit.instruction.name, [block], fit.numbers, location)


def _unchanged(place: Place) -> BlockOp:
    """Makes a block that computes the first row of a place of what it is."""
    element, rank = element_type_of(place.buffer.type), len(place.memory.row)
    exprs, iterators = list[AffineExpr](), list[IteratorAttr]()
    for d, (low, high) in enumerate(place.box):
        at: AffineExpr = AffineExpr.constant(low)
        lanes = place.memory.row[d - len(place.box) + rank] if d >= len(place.box) - rank else 1
        if lanes > 1:
            at = AffineDimExpr(len(iterators)) + low
            size = min(high - low, lanes)
            iterators.append(IteratorAttr.of(f"d{d}", IteratorKind.PARALLEL, size))
        exprs.append(at)

    def body(old: Emitted) -> Emitted:
        return old * 1 if is_float(element) else old + 0

    iterators = iterators or [IteratorAttr.of("d", IteratorKind.PARALLEL, 1)]
    map_ = AffineMap(len(iterators), 0, tuple(exprs))
    return BlockOp(iterators, [], [place.buffer], [map_], emit_body([element], body))

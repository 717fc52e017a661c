"""Copies between memories of a machine: the block that one is, and what it costs."""

from __future__ import annotations

from math import inf, prod

from xdsl.ir import Attribute, Block, Region
from xdsl.ir.affine import AffineMap

from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind, YieldOp, buffer
from byocir.dialects.types import Shape
from byocir.errors import ByocirError
from byocir.machine import Machine, Memory
from byocir.machine.cut_plans import plans_of


def identity(element: Attribute, shape: Shape, source: Memory, into: Memory) -> BlockOp:
    """Gives the block that moves an array from one memory to another, as a program of its own."""
    outside = Block(arg_types=[buffer(element, shape, memory.scope) for memory in (source, into)])
    extents = enumerate(shape)
    iterators = [IteratorAttr.of(f"d{i}", IteratorKind.PARALLEL, n) for i, n in extents]
    body = Block(arg_types=[element, element])
    body.add_op(YieldOp.create(operands=[body.args[0]]))
    maps = [AffineMap.identity(len(shape))] * 2
    made = BlockOp(iterators, outside.args[:1], outside.args[1:], maps, Region(body))
    outside.add_op(made)
    return made


def copy_cost(
    machine: Machine, element: Attribute, shape: Shape, source: Memory, into: Memory
) -> tuple[str, float]:
    """Gives the unit that moves an array in the fewest cycles, and these; infinitely many where no
    instruction moves it."""

    def found() -> tuple[str, float]:
        block = identity(element, shape, source, into)
        plans = plans_of(machine, block, block.extents, "memories", [])
        return (plans[0].instruction.unit.name, plans[0].cycles) if plans else ("", inf)

    return machine.answer(("copy", element, shape, source, into), found)


def whole_rows(
    machine: Machine, memory: Memory, element: Attribute, shape: Shape, source: Memory, into: Memory
) -> bool:
    """Tells whether an array is one block of rows of a memory, and calls that copy it do not part
    these."""

    def found() -> bool:
        block = identity(element, shape, source, into)
        plans = plans_of(machine, block, block.extents, "memories", [])
        lanes = slice(len(shape) - len(memory.row), None)
        return bool(plans) and plans[0].sizes[lanes] == shape[lanes]

    is_block = prod(memory.cut(shape)[1]) == 1
    question = ("whole rows", element, shape, source, into, len(memory.row))
    return is_block and machine.answer(question, found)


def uncopied(
    machine: Machine, element: Attribute, shape: Shape, source: Memory, into: Memory
) -> ByocirError:
    """Says what instructions say to a copy that none of them does."""
    block, reasons = identity(element, shape, source, into), list[str]()
    plans_of(machine, block, block.extents, "memories", reasons)
    told = f"expected an instruction of {machine.name} that copies {'x'.join(map(str, shape))} of "
    told += f"{element} from {source.called} to {into.called}, found none"
    return ByocirError("B271", told, help="; ".join(dict.fromkeys(reasons)))

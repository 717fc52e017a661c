"""Counts the cycles of the pieces of a block, and of all that leads to them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from xdsl.ir import Attribute, Block, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import element_type_of
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.instructions import Instruction
from byocir.machine.nearest_misses import Misfit
from byocir.patterns.blocks import BlockPattern
from byocir.rewrites.machine.pieces import (
    Given,
    Made,
    Piece,
    Source,
    block_of,
    result_type,
    type_of,
)
from byocir.rewrites.machine.whole_blocks import (
    cycles_of_moving,
    done_by,
    home_of,
    why_not_done_by,
)


class PieceCycles:
    """Counts cycles of the pieces of one block; `reads` counts who reads each value of its body."""

    def __init__(self, machine: Machine, op: BlockOp, reads: Mapping[SSAValue, int]) -> None:
        self._machine, self._op, self._reads = machine, op, reads
        self._result = op.out_maps[0].results
        kinds = tuple(it.kind.data for it in op.iterators)
        self._points = machine.number_of((op.extents, kinds, self._result))
        self._homes: dict[SSAValue, Memory] = {}

    def home(self, position: int) -> Memory:
        """Gives the memory in which an input of the block is made."""
        value = self._op.ins[position]
        if value not in self._homes:
            self._homes[value] = home_of(self._machine, value)
        return self._homes[value]

    def timed(
        self, instruction: Instruction, piece: Piece, body: tuple[BlockPattern, str] | None
    ) -> Piece | None:
        """Counts the cycles of a piece and of all that leads to it; None where the instruction does
        not do it after all. Its body is that of a form with these numbers, or adds products.
        """
        read = tuple(self._read_as(source) for source in piece.inputs)
        key = "done", instruction, body, self._points, read, piece.value.type, piece.sums
        found = self._machine.answer(
            key, lambda: done_by(self._machine, self._alone(piece), instruction)
        )
        if found is None:
            return None
        pairs = zip(piece.inputs, found.fit.memories, strict=False)
        before = sum(self._brought(source, memory) for source, memory in pairs)
        before += piece.old.cycles if isinstance(piece.old, Piece) else 0
        return replace(piece, cycles=found.cycles + before)

    def _read_as(self, source: Source) -> tuple[Attribute, Hashable]:
        """Gives the elements of a source, and the index at which a piece reads it."""
        if isinstance(source, Piece):
            return source.value.type, self._result
        if isinstance(source, Made):
            return source.element, source.index
        maps, value = self._op.maps.data, self._op.ins[source.position]
        return element_type_of(value.type), maps[source.position].data.results

    def _alone(self, piece: Piece) -> BlockOp:
        """Makes the block of a piece as a program of its own."""
        types = [type_of(self._op, source) for source in piece.inputs]
        outside = Block(arg_types=[*types, result_type(self._op, piece)])
        block = block_of(self._op, piece, outside.args[:-1], outside.args[-1])
        outside.add_op(block)
        return block

    def _brought(self, source: Source, memory: Memory) -> float:
        """Counts the cycles of the pieces that lead to a source, which all that read it share, or
        of bringing an array once to the memory in which it is read.
        """
        if isinstance(source, Piece):
            return source.cycles / max(self._reads[source.value], 1)
        home = self.home(source.position) if isinstance(source, Given) else MAIN
        type_ = type_of(self._op, source)
        machine, key = self._machine, ("brought", type_, home, memory)
        return machine.answer(key, lambda: cycles_of_moving(machine, type_, home, memory))

    def why_not(self, instruction: Instruction, piece: Piece) -> Misfit | None:
        """Says why an instruction does not do a piece; None where nothing is known."""
        return why_not_done_by(self._machine, self._alone(piece), instruction)

"""Covers what a block computes with instructions, each of which does a part of it: it finds the
chain that takes the fewest cycles.

A part ends in one value of the body and begins with others: what arrays hold, numbers, or results
of other parts, in the memories that the instruction has its operands in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.tir import BlockOp, buffer
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, shape_of, tensor
from byocir.evaluate.scalar import sources
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.cut_plans import Plan, plans_of
from byocir.machine.find_instruction import Misfit, fits, on_its_own, pattern_key
from byocir.machine.instructions import Fit, Instruction, init_of
from byocir.machine.parts import Operand
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.scalars import Part, constant_number, emit_pattern, match_part

LOADED = 1.0
"""The cycles that a number in an array counts for: of two ways the one with fewer arrays is
taken."""


@dataclass(frozen=True, eq=False)
class Given:
    """An input of a piece: an array that the block reads, by its position, or a number of the
    block's body.
    """

    value: SSAValue
    position: int | None = None


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a body that an instruction does, with the pieces in front of it; `cycles` are those
    of all.
    """

    value: SSAValue
    form: BlockPattern
    part: Part
    old: Given | Piece | None
    """The place of what the result begins with, which is its own."""
    inputs: tuple[Given | Piece, ...]
    cycles: float = 0


class Cover:
    """Finds the ways to do a block on tensors that computes element by element."""

    def __init__(self, machine: Machine, op: BlockOp) -> None:
        self.machine, self.op = machine, op
        self.reasons: list[str] = []
        used = sources(op.body.block, op.yielded)
        self._uses = Counter(value for inner in used for value in inner.operands)
        self._uses.update(op.yielded)
        self._inputs: dict[SSAValue, int] = {}
        self._inputs |= {arg: i for i, arg in enumerate(op.body.block.args[: len(op.ins)])}
        self._values = [*(inner.results[0] for inner in used)]
        self._known: dict[tuple[SSAValue, Memory], Piece | None] = {}

    def best(self, memories: Sequence[Memory]) -> Piece | None:
        """Finds the cheapest piece that ends in what the block yields, in one of these memories;
        None where there is none, for which `reasons` are told.
        """
        (root,) = self.op.yielded
        found = [piece for memory in memories if (piece := self._best(root, memory)) is not None]
        if found:
            return min(found, key=lambda piece: piece.cycles)
        lost = next((v for v in self._values if self._is_lost(v)), root)
        if isinstance(lost.owner, Operation):
            self.reasons.insert(0, f"none does {_described(lost.owner)}")
        return None

    @property
    def _memories(self) -> list[Memory]:
        return [MAIN, *self.machine.memories]

    def _is_lost(self, value: SSAValue) -> bool:
        if isinstance(value.owner, arith.ConstantOp):
            return False
        return all(self._best(value, memory) is None for memory in self._memories)

    def _best(self, value: SSAValue, into: Memory) -> Piece | None:
        """Finds the cheapest way to compute a value into a memory."""
        key = value, into
        if key not in self._known:
            self._known[key] = None
            found = (p for form in self._forms(value, into) for p in self._pieces(value, *form))
            self._known[key] = min(found, key=lambda piece: piece.cycles, default=None)
        return self._known[key]

    def _forms(self, value: SSAValue, into: Memory) -> Iterator[tuple[Instruction, BlockPattern]]:
        for instruction in self.machine.instructions:
            if instruction.into != into or into.element not in (None, value.type):
                continue
            for form in instruction.forms:
                sums = form.iterators.reduction or form.iterators.reduction_groups
                whole = any(read.whole for read in form.reads)
                if not sums and not whole and isinstance(form.init, Operand | None):
                    yield instruction, form

    def _pieces(
        self, value: SSAValue, instruction: Instruction, form: BlockPattern
    ) -> Iterator[Piece]:
        for part in match_part(value, form.body, len(form.reads)):
            begun = init_of(form) is not None
            if (part.old is not None) != begun or None in part.inputs:
                continue
            if value in (part.old, *part.inputs) and value not in self._inputs:
                continue
            for sources_ in product(*self._sources(instruction, form, part)):
                old, inputs = (sources_[0], sources_[1:]) if begun else (None, sources_)
                piece = Piece(value, form, part, old, inputs, sum(map(_cycles_of, sources_)))
                cycles = self._cycles(instruction, piece)
                if cycles is not None:
                    yield replace(piece, cycles=piece.cycles + cycles)

    def _sources(
        self, instruction: Instruction, form: BlockPattern, part: Part
    ) -> list[list[Given | Piece]]:
        """Lists, for what the result begins with, if it does, and for each input, where it may come
        from.
        """
        found: list[list[Given | Piece]] = []
        if part.old is not None:
            found.append(list(self._in_place(part.old, instruction.into)))
        for read, value in zip(form.reads, part.inputs, strict=True):
            assert value is not None
            memory = read.pattern.memory if isinstance(read.pattern, Operand) else MAIN
            found.append(list(self._read(value, memory)))
        return found

    def _in_place(self, value: SSAValue, into: Memory) -> Iterator[Given | Piece]:
        """Yields the sources of a value that an instruction overwrites."""
        position = self._inputs.get(value)
        if position is not None:
            if self._is_free(value, position) and self.home(self.op.ins[position]) == into:
                yield Given(value, position)
        elif self._uses[value] > 1 or isinstance(value.owner, arith.ConstantOp):
            return
        piece = self._best(value, into)
        if piece is not None:
            yield piece

    def _is_free(self, value: SSAValue, position: int) -> bool:
        """Tells whether a block before makes an input, element for element, that nothing else
        needs.
        """
        source = self.op.ins[position]
        if not isinstance(source.owner, BlockOp) or self._uses[value] > 1:
            return False
        home = source.owner.parent
        users = {use.operation for use in source.uses if use.operation.parent is home}
        same = self.op.in_maps[position] == self.op.out_maps[0]
        same &= shape_of(source.type) == shape_of(self.op.outs[0].type)
        return same and len(users) == 1 and self.op.pad_values[position] is None

    def _read(self, value: SSAValue, memory: Memory) -> Iterator[Given | Piece]:
        """Yields the sources of a value that an instruction reads in a memory."""
        position, typed = self._inputs.get(value), memory.element in (None, value.type)
        is_number = isinstance(value.owner, arith.ConstantOp)
        if position is None and not is_number:
            piece = self._best(value, memory)
            if piece is not None:
                yield piece
            return
        home = MAIN if position is None else self.home(self.op.ins[position])
        fed = home == memory or (home.is_main and self.machine.path(home, memory) is not None)
        if typed and fed:
            yield Given(value, position)

    def home(self, value: SSAValue) -> Memory:
        """Gives the memory in which an array is made: main memory unless a block before makes
        it.
        """
        if not isinstance(value.owner, BlockOp):
            return MAIN
        plans = plans_of(self.machine, value.owner, value.owner.extents, "pattern", [])
        return plans[0].instruction.into if plans else MAIN

    # -- a piece as a block

    def types(self, piece: Piece) -> list[Attribute]:
        """Gives the types of the arrays that a piece reads or begins with, and of its result."""
        return [*(self.type_of(each) for each in piece.inputs), self.result_type(piece)]

    def result_type(self, piece: Piece) -> TensorType[Attribute]:
        """Gives the type of the array that a piece makes."""
        return tensor(piece.value.type, shape_of(self.op.outs[0].type))

    def type_of(self, source: Given | Piece) -> Attribute:
        """Gives the type of the array of a source."""
        if isinstance(source, Piece):
            return self.result_type(source)
        if source.position is None:
            return tensor(source.value.type, self.row)
        return self.op.ins[source.position].type

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of an array that repeats one number in as many lanes as the result has."""
        return shape_of(self.op.outs[0].type)[-1:]

    def block(self, piece: Piece, ins: Sequence[SSAValue], out: SSAValue) -> BlockOp:
        """Makes the block of a piece on these arrays."""
        maps, pads = list[AffineMap](), list[Attribute | None]()
        out_map = self.op.out_maps[0]
        for source in piece.inputs:
            position = source.position if isinstance(source, Given) else None
            if position is not None:
                maps.append(self.op.in_maps[position])
                pads.append(self.op.pad_values[position])
                continue
            lanes = out_map.results[-1:] if isinstance(source, Given) else out_map.results
            maps.append(AffineMap(out_map.num_dims, 0, lanes))
            pads.append(None)
        elements = [element_type_of(value.type) for value in [*ins, out]]
        numbers = piece.part.numbers

        def body(*arguments: Emitted) -> Emitted:
            return emit_pattern(piece.form.body, arguments, numbers.__getitem__)

        return BlockOp(
            list(self.op.iterators), ins, [out], [*maps, out_map], emit_body(elements, body),
            pads=pads, location=self.op.location,
        )  # fmt: skip

    def _cycles(self, instruction: Instruction, piece: Piece) -> float | None:
        """Counts the cycles of a piece; None where the instruction does not do it after all."""
        outside = Block(arg_types=self.types(piece))
        block = self.block(piece, outside.args[:-1], outside.args[-1])
        outside.add_op(block)
        found = done_by(self.machine, block, instruction)
        if isinstance(found, str):
            self.reasons += [f"{instruction.name}: {found}"] if found else []
            return None
        return found.cycles


def _cycles_of(source: Given | Piece) -> float:
    if isinstance(source, Piece):
        return source.cycles
    return LOADED if source.position is None else 0


def _described(op: Operation) -> str:
    numbers = [constant_number(value) for value in op.operands]
    text = "".join(f" with {number}" for number in numbers if number is not None)
    return f"{op.name} of {op.results[0].type}{text}"


# -- what instructions say to whole blocks, their rules included


def done_by(machine: Machine, block: BlockOp, instruction: Instruction) -> Plan | str:
    """Gives the plan by which an instruction does a block on tensors, its rules included, or says
    why it does not.
    """

    def found() -> Plan | str:
        reasons: list[str] = []
        plans = plans_of(machine, block, block.extents, "pattern", reasons, only=instruction)
        if not plans:
            return "; ".join(reasons[:1]).removeprefix(f"{instruction.name}: ")
        return _broken(machine, block, plans[0].fit) or plans[0]

    return machine.answer(("done", pattern_key(block), block.extents, instruction.name), found)


def _broken(machine: Machine, block: BlockOp, fit: Fit) -> str:
    """Names a rule of an instruction that its smallest call for a block breaks; empty if it breaks
    none.
    """
    extents = [1] * len(block.extents)
    for name, positions in fit.iterators.items():
        limit = fit.instruction.limits.get(name)
        for i in positions:
            extents[i] = min(limit.least if limit else 1, block.extents[i])
    values = zip([*block.ins, *block.outs], fit.memories, strict=True)
    types = [buffer(element_type_of(v.type), shape_of(v.type), m.scope) for v, m in values]
    iterators = [it.resized(n) for it, n in zip(block.iterators, extents, strict=True)]
    maps = [attr.data for attr in block.maps]
    own = on_its_own(block, iterators, types, maps)
    said = next(fits(machine, own, only=fit.instruction))
    return said.reason if isinstance(said, Misfit) else ""


def is_done(machine: Machine, block: BlockOp) -> bool:
    """Tells whether one instruction does a block as a whole."""
    plans = plans_of(machine, block, block.extents, "pattern", [])
    makers = dict.fromkeys(plan.instruction for plan in plans)
    return any(isinstance(done_by(machine, block, each), Plan) for each in makers)

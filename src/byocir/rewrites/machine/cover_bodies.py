"""Covers what a block computes with instructions, each of which does a part of it: it finds the
chain that takes the fewest cycles.

A part ends in one value of the body and begins with others: what arrays hold, numbers, or results
of other parts, in the memories that the instruction has its operands in. Known numbers may be added
by an instruction that adds products, too: those of two constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, permutations, product, takewhile

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.scalar import Emitted, number_op
from byocir.dialects.types import shape_of
from byocir.evaluate.scalar import sources
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.instructions import Instruction, init_of, memory_of
from byocir.machine.nearest_misses import Misfit, Reached
from byocir.machine.parts import Operand
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.differences import computed, step_text
from byocir.patterns.scalars import Part, constant_number, emit_pattern, match_part
from byocir.rewrites.machine.known_numbers import KnownNumbers
from byocir.rewrites.machine.number_products import factors_of
from byocir.rewrites.machine.piece_cycles import PieceCycles
from byocir.rewrites.machine.pieces import (
    Given,
    Piece,
    Source,
    made_again,
)
from byocir.rewrites.machine.restate_bodies import is_signed


@dataclass
class Reasons:
    """Collects why a block is done neither as a whole nor in parts."""

    whole: list[Misfit] = field(default_factory=list[Misfit])
    """The refusals of instructions that do all of its body, and find all that they read."""
    lost: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The first step of each of its forms that nothing does, with how many are done before it."""


class Cover:
    """Finds the ways to do a block on tensors that computes element by element, with products of
    constants or without.
    """

    def __init__(
        self,
        machine: Machine,
        op: BlockOp,
        *,
        products: bool = True,
        reasons: Reasons | None = None,
    ) -> None:
        self.machine, self.op, self.products = machine, op, products
        self._reasons, self._told = reasons, list[str]()
        self._values = _Values(op)
        self._numbers = KnownNumbers(op, self._values.inputs)
        self._cycles = PieceCycles(machine, op, self._values.reads)
        self._known: dict[tuple[SSAValue, Memory], Piece | None] = {}

    def best(self, memories: Sequence[Memory]) -> Piece | None:
        """Finds the cheapest piece that ends in what the block yields, in one of these memories;
        None where there is none.
        """
        (root,) = self.op.yielded
        found = [piece for memory in memories if (piece := self._best(root, memory)) is not None]
        if not found and self._reasons is not None:
            self._reasons.lost += self._first_lost(root)
        self._values.forget()
        return min(found, key=lambda piece: piece.cycles, default=None)

    def _first_lost(self, root: SSAValue) -> Iterator[tuple[int, str]]:
        """Yields what no instruction does of the body, with how many values are computed before
        that.
        """
        values = [each for each in self._values.computed if constant_number(each) is None]
        count = sum(1 for _ in takewhile(lambda value: not self._is_lost(value), values))
        lost = next(iter(values[count:]), root)
        if isinstance(lost.owner, Operation):
            none = f"none does {step_text(lost.owner)}, of the body {computed(self.op)}"
            yield count, next(self._refused(lost), none)
        else:
            yield from ((count, told) for told in self._told[:1])

    def _refused(self, lost: SSAValue) -> Iterator[str]:
        """Yields, of instructions that compute a value, what they refuse or do not find."""
        forms = (self._forms(lost, memory) for memory in (MAIN, *self.machine.memories))
        for instruction, form in chain.from_iterable(forms):
            parts = match_part(lost, form.body, len(form.reads))
            sums = form.iterators.reduction or form.iterators.reduction_groups
            if sums or all(lost in (part.old, *part.inputs) for part in parts):
                continue
            own, start = f"{instruction.name}: ", init_of(form)
            read = [memory_of(each) for each in form.reads] + ([start.memory] if start else [])
            where = " and ".join(dict.fromkeys(memory.called for memory in read))
            found = f"{own}expected what it reads in {where}, found nothing that brings it there"
            yield next((told for told in self._told if told.startswith(own)), found)

    def _is_lost(self, value: SSAValue) -> bool:
        return all(self._best(value, memory) is None for memory in (MAIN, *self.machine.memories))

    def _best(self, value: SSAValue, into: Memory) -> Piece | None:
        """Finds the cheapest way to compute a value into a memory."""
        key = value, into
        if key not in self._known:
            self._known[key] = None
            forms = self._forms(value, into)
            found = [piece for form in forms for piece in self._pieces(value, *form)]
            found += [piece for form in forms for piece in self._products(value, *form)]
            self._known[key] = min(found, key=lambda piece: piece.cycles, default=None)
        return self._known[key]

    def _forms(self, value: SSAValue, into: Memory) -> list[tuple[Instruction, BlockPattern]]:
        def found() -> list[tuple[Instruction, BlockPattern]]:
            return [
                (instruction, form)
                for instruction in self.machine.instructions
                if instruction.into == into and into.element in (None, value.type)
                for form in instruction.forms
                if not any(read.whole for read in form.reads)
                and isinstance(form.init, Operand | None)
            ]

        return self.machine.answer(("forms", into, value.type), found)

    def _pieces(
        self, value: SSAValue, instruction: Instruction, form: BlockPattern, *, copies: bool = False
    ) -> Iterator[Piece]:
        """Yields the ways in which an instruction computes a value of others, or only copies it."""
        if form.iterators.reduction or form.iterators.reduction_groups:
            return
        for part in match_part(value, form.body, len(form.reads)):
            begun = init_of(form) is not None
            if (part.old is not None) != begun or None in part.inputs:
                continue
            is_itself = value in (part.old, *part.inputs) and value not in self._values.inputs
            if is_itself != copies or (copies and begun):
                continue
            for sources_ in product(*self._sources(value, instruction, form, part)):
                old, inputs = (sources_[0], sources_[1:]) if begun else (None, sources_)
                piece = Piece(value, partial(_body_of, value, form, part), old, inputs)
                timed = self._cycles.timed(instruction, piece, (form, repr(part.numbers)))
                if timed is not None:
                    yield timed
                elif self._reasons is not None:
                    self._note_refusal(self._reasons, instruction, piece)

    def _note_refusal(self, reasons: Reasons, instruction: Instruction, piece: Piece) -> None:
        """Notes why an instruction does not do a piece."""
        why = self._cycles.why_not(instruction, piece)
        if why is None:
            return
        self._told.append(str(why))
        is_all = not any(isinstance(source, Piece) for source in (piece.old, *piece.inputs))
        if is_all and piece.value is self.op.yielded[0] and why.reached == Reached.SIZES:
            reasons.whole.append(why)

    def _products(
        self, value: SSAValue, instruction: Instruction, form: BlockPattern
    ) -> Iterator[Piece]:
        """Yields the ways in which an instruction that adds products to what is there adds known
        numbers.
        """
        owner = value.owner
        if not self.products or type(owner) is not arith.AddiOp or not is_signed(value.type):
            return
        body = partial(multiply_accumulate, to=value.type)
        for x, y in permutations(owner.operands):
            numbers = self._numbers.of(y)
            if numbers is None:
                continue
            for old in self._in_place(x, instruction.into, value):
                factors = factors_of(self.op, numbers, instruction, form)
                pieces = (Piece(value, body, old, inputs, count) for inputs, count in factors)
                timed = (self._cycles.timed(instruction, piece, None) for piece in pieces)
                yield from (piece for piece in timed if piece is not None)

    def _sources(
        self, result: SSAValue, instruction: Instruction, form: BlockPattern, part: Part
    ) -> list[list[Source]]:
        """Lists, for what the result begins with, if it does, and for each input, where it may come
        from.
        """
        found: list[list[Source]] = []
        if part.old is not None:
            found.append(list(self._in_place(part.old, instruction.into, result)))
        for read, value in zip(form.reads, part.inputs, strict=True):
            assert value is not None
            found.append(list(self._read(value, memory_of(read))))
        return found

    def _in_place(self, value: SSAValue, into: Memory, result: SSAValue) -> Iterator[Source]:
        """Yields the sources of a value that the instruction which computes a result overwrites."""
        position = self._values.inputs.get(value)
        is_free = position is not None and self._is_free(value, position)
        if position is not None and is_free and self._cycles.home(position) == into:
            yield Given(position)
        if isinstance(value.owner, arith.ConstantOp) and not self._values.is_added_zero(value):
            return
        if not self._values.leads_only_to(value, result):
            yield from self._own(value, into, result)
        elif (piece := self._best(value, into)) is not None:
            yield piece

    def _own(self, value: SSAValue, into: Memory, result: SSAValue) -> Iterator[Piece]:
        """Yields the ways in which a result gets a value that others read, too, in a place of its
        own: it is made again, copied, or added to zeros.
        """
        if self._values.is_plus_zero(result):
            return
        made = self._best(value, into)
        again = None if made is None else made_again(made)
        if again is not None:
            yield again
        for form in self._forms(value, into):
            for piece in self._pieces(value, *form, copies=True):
                yield _copying(value, piece)
        if is_signed(value.type):
            added = self._best(self._values.plus_zero(value, result), into)
            if added is not None:
                yield _copying(value, added)

    def _is_free(self, value: SSAValue, position: int) -> bool:
        """Tells whether a block before makes an input, element for element, that nothing else
        needs.
        """
        source = self.op.ins[position]
        if not isinstance(source.owner, BlockOp) or self._values.reads[value] > 1:
            return False
        home = source.owner.parent
        users = {use.operation for use in source.uses if use.operation.parent is home}
        same = self.op.in_maps[position] == self.op.out_maps[0]
        same &= shape_of(source.type) == shape_of(self.op.outs[0].type)
        return same and len(users) == 1 and self.op.pad_values[position] is None

    def _read(self, value: SSAValue, memory: Memory) -> Iterator[Source]:
        """Yields the sources of a value that an instruction reads in a memory. Known numbers may
        lie there in fewer bits than the body has for them.
        """
        position, numbers = self._values.inputs.get(value), self._numbers.of(value)
        if position is None and numbers is None:
            piece = self._best(value, memory)
            if piece is not None:
                yield piece
            return
        home = MAIN if position is None else self._cycles.home(position)
        element = memory.element or value.type
        if self.machine.path(home, memory) is None:
            return
        if position is not None and element == value.type:
            yield Given(position)
            yield from self._numbers.spread(position)
        elif (made := self._numbers.made(value, element)) is not None:
            yield made


class _Values:
    """Tells who reads the values of a block's body. It makes sums of a value and zero, as which
    another value may get it in a place of its own.
    """

    def __init__(self, op: BlockOp) -> None:
        used = sources(op.body.block, op.yielded)
        self.inputs = dict[SSAValue, int]()
        self.inputs |= {arg: i for i, arg in enumerate(op.body.block.args[: len(op.ins)])}
        """The position of each value that is an element of an input."""
        self.computed = [inner.results[0] for inner in used]
        self.reads = Counter[SSAValue](value for inner in used for value in inner.operands)
        self.reads.update(op.yielded)
        self._readers = {value: inner.results[0] for inner in used for value in inner.operands}
        self._sums: dict[tuple[SSAValue, SSAValue], arith.AddiOp] = {}

    def leads_only_to(self, value: SSAValue, result: SSAValue) -> bool:
        """Tells whether a value is read once, on the way to a result."""
        while value is not result:
            if self.reads[value] != 1:
                return False
            value = self._readers[value]
        return True

    def plus_zero(self, value: SSAValue, result: SSAValue) -> SSAValue:
        """Gives the sum of a value and zero, for a result that is computed of it."""
        if (value, result) not in self._sums:
            zero = number_op(0, value.type).result
            total = self._sums[value, result] = arith.AddiOp(zero, value)
            self.reads[zero], self._readers[zero] = 1, total.result
        return self._sums[value, result].result

    def is_plus_zero(self, value: SSAValue) -> bool:
        """Tells whether a value is such a sum."""
        return value.owner in self._sums.values()

    def is_added_zero(self, value: SSAValue) -> bool:
        """Tells whether a value is the zero of such a sum."""
        return any(total.lhs is value for total in self._sums.values())

    def forget(self) -> None:
        """Makes the sums use the values no more."""
        for total in self._sums.values():
            total.drop_all_references()


def _copying(value: SSAValue, piece: Piece) -> Piece:
    """Says of a piece that it copies the result of the one which computes a value, if one does."""
    pieces = (each for each in piece.inputs if isinstance(each, Piece))
    return replace(piece, copied=next((each for each in pieces if each.value is value), None))


def _body_of(value: SSAValue, form: BlockPattern, part: Part, *arguments: Emitted) -> Emitted:
    known = constant_number(value)
    if known is not None:
        return arguments[-1].constant(known)
    return emit_pattern(form.body, arguments, part.numbers.__getitem__)

"""Defines `Instruction`, what a machine does in one step, and `Call`, one such step in a
program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Attribute

from byocir.dialects.tir import BlockOp, IntrinsicOp
from byocir.dialects.types import Floats, Ints
from byocir.machine.operand_places import Place
from byocir.machine.parts import MAIN, Limit, Memory, Operand, Sizes, Transfer, Unit
from byocir.patterns import Composite, ScalarPattern
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.index import Affine
from byocir.patterns.nodes import Access

WORK = "work"
"""The name of an instruction's block in its matches, unless its pattern names it."""

Cycles = Callable[[Sizes], int | float]
Encode = Callable[["Call"], Any]


@dataclass(frozen=True, eq=False)
class Register:
    """Describes a register that holds configuration. Instructions say what it must hold for them; a
    program sets it only where that changes.
    """

    name: str
    unit: Unit
    encode: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Instruction:
    """Describes a step of a unit: a pattern of blocks on boxes in memories, with limits for the
    extents of its iterators. `into` is the memory that it writes. `pattern.rule` adds rules.
    """

    name: str
    unit: Unit
    pattern: Composite
    into: Memory
    limits: Mapping[str, Limit]
    cycles: Cycles
    transfer: Transfer | None = None
    """The channel that it shares with other instructions."""
    opcode: int | None = None
    encode: Encode | None = None
    """Makes the entry of the machine's code for one call of it. Calls of the same sizes and places
    that wait for the same have the same entry, unless the machine makes files of entries itself."""
    registers: Callable[[Call], Mapping[Register, Any]] | None = None
    """Gives the contents of the machine's registers that one call of it needs."""

    strided: Collection[str] = ()
    """The operands whose rows need not follow each other; the result is "out"."""
    keeps: str = ""
    """The operand that stays in the unit: a call that wants the same elements as the one before it
    on the unit finds them there, if nothing wrote them since."""
    kept_cycles: Cycles | None = None
    """The cycles of a call that finds it there."""
    where: str = ""
    """The line of the description that declares it."""

    first: Instruction | None = None
    """Does the first block of an instruction of two, into a hidden memory; calls of this one do the
    second. All cycles are those of the first."""

    @property
    def rule(self) -> Callable[..., Any]:
        """Decorates a rule of the pattern: see `Composite.rule`."""
        return self.pattern.rule

    @cached_property
    def forms(self) -> tuple[BlockPattern, ...]:
        """Gives the alternatives of the instruction's pattern."""
        found = [each for each in self.pattern.walk() if isinstance(each, BlockPattern)]
        return tuple(found)

    @cached_property
    def operands(self) -> Mapping[str, Memory]:
        """Gives, by name, the memories that the values of its pattern lie in, without that of the
        result.
        """
        started = {each.label for form in self.forms if (each := init_of(form)) is not None}
        values = {each.label: each for each in self.pattern.walk() if isinstance(each, Operand)}
        return {name or "": v.memory for name, v in values.items() if name not in started}

    @cached_property
    def reached(self) -> frozenset[tuple[str, ...]]:
        """Gives the memories that each form reaches: the scopes that it reads, sorted, and then the
        one that it writes.
        """
        found: set[tuple[str, ...]] = set()
        for form in self.forms:
            memories = map(memory_of, form.reads)
            found.add((*sorted(memory.scope for memory in memories), self.into.scope))
        return frozenset(found)

    @property
    def reads_main(self) -> bool:
        """Tells whether it reads main memory."""
        return any(memory_of(read).is_main for form in self.forms for read in form.reads)

    @cached_property
    def pad(self) -> int | float | str | None:
        """Gives the number that the instruction, if it is a copy, reads outside of an array in main
        memory, or the name that it has for any number; None if it reads none."""
        pads = [form.reads[0].pad for form in self.forms if self.moves == MAIN]
        return next((pad for pad in pads if pad is not None), None)

    @cached_property
    def moves(self) -> Memory | None:
        """Gives the memory that the instruction copies from, if it is a copy; else None."""
        for form in self.forms:
            if len(form.reads) == 1 and _moves(form) and _gives_input(form):
                return memory_of(form.reads[0])
        return None

    def cost(self, sizes: Sizes) -> float:
        """Counts the cycles that one call of these sizes keeps its unit busy."""
        return float(self.cycles(sizes))

    def cost_kept(self, sizes: Sizes) -> float:
        """Counts the cycles of a call for which the operand that stays in the unit is there
        already.
        """
        return self.cost(sizes) if self.kept_cycles is None else float(self.kept_cycles(sizes))

    def shares(self, cycles: Floats, calls: Ints) -> dict[str, Floats]:
        """Tells how long so many calls, which take so many cycles, keep its unit and its channel,
        by their names."""
        found, transfer = {self.unit.name: cycles}, self.transfer
        if transfer is not None:
            found[transfer.channel.name] = cycles - transfer.lead * calls
        return found

    def __repr__(self) -> str:
        return f"<instruction {self.name}>"


def _moves(form: BlockPattern) -> bool:
    """Tells whether a form reads each element where it writes it, but for what is around an
    array."""
    read = [replace(each, unknown=None) for each in form.indices[0] if isinstance(each, Affine)]
    return (*read,) == form.out


def _gives_input(form: BlockPattern) -> bool:
    """Tells whether a body gives the element that it reads, unchanged."""
    old, read = ScalarPattern(), ScalarPattern()
    return form.body(old, read) is read


def memory_of(read: Access) -> Memory:
    """Gives the memory that an instruction reads a value from."""
    return read.pattern.memory if isinstance(read.pattern, Operand) else MAIN


def init_of(form: BlockPattern) -> Operand | None:
    """Gives the value that a form's result starts from, if it is a pattern."""
    return form.init if isinstance(form.init, Operand) else None


@dataclass(frozen=True)
class Fit:
    """Says how an instruction does a block. Positions count the block's iterators; operands are its
    ins and then its outs. Names of iterators with one point may be missing, and one may stand for
    several of the block's, the outermost first, that run over lines which follow each other.
    """

    instruction: Instruction
    form: BlockPattern
    iterators: Mapping[str, tuple[int, ...]]
    operands: Mapping[str, int]
    memories: tuple[Memory, ...]
    """The memory in which each operand must lie, by its position."""
    numbers: Mapping[str, int]
    turns: frozenset[int]
    """The iterators with which the operand moves that stays in the unit."""

    def sizes(self, extents: Sequence[int]) -> dict[str, int]:
        """Gives the extents of the instruction's iterators, by name."""
        return {name: prod(extents[i] for i in found) for name, found in self.iterators.items()}


@dataclass(frozen=True, eq=False)
class Kind:
    """Describes calls that differ only in their operands: they do the same number of points of like
    blocks, from the same start.
    """

    fit: Fit
    block: BlockOp
    """The block that one call computes, but for where its boxes begin."""
    start: Attribute | None
    sizes: Mapping[str, int]
    cycles: float
    kept_cycles: float
    """The cycles of a call that finds in the unit the operand that stays there."""

    @cached_property
    def reads_old(self) -> bool:
        """Tells whether a call reads what its result was before."""
        return self.start is None and self.block.body.block.args[-1].first_use is not None

    @cached_property
    def macs(self) -> int:
        """Counts the multiply-accumulates of a call; 0 for one of an instruction that sums no
        products, nor adds them to what was there.
        """
        names, body = self.fit.form.iterators, self.block.body.block
        total, products = self.block.yielded[0].owner, (arith.MuliOp, arith.MulfOp)
        terms = [*total.operands] if isinstance(total, arith.AddiOp | arith.AddfOp) else []
        if body.args[-1] in terms and any(isinstance(each.owner, products) for each in terms):
            return prod(self.block.extents)
        sums = names.reduction or names.reduction_groups
        multiplies = any(isinstance(op, products) for op in body.ops)
        return prod(self.block.extents) if sums and multiplies else 0


@dataclass(frozen=True, eq=False)
class Call:
    """Describes one call of an instruction in a program: its sizes, numbers and operands by the
    names that its pattern gives them; the result is called as what it starts from, or `out`."""

    op: IntrinsicOp
    """The op that it is part of: one call, or several in a row."""
    kind: Kind
    own: dict[str, Place]
    """The places of the operands of its last block, by name."""
    is_first: bool = True
    is_last: bool = True
    """Tell if it is the first, and the last, call of its op."""
    is_kept: bool = False
    """Tells if its unit still holds the operand that stays there: `Instruction.keeps`."""
    first: Call | None = None
    """The part of the call that does the first block, if its instruction has two."""

    @cached_property
    def places(self) -> dict[str, Place]:
        """Gives the places of the operands, by name, the result last."""
        return self.own if self.first is None else joined_places(self.first.own, self.own)

    @property
    def parts(self) -> list[Call]:
        """Lists what it does of each block of its instruction."""
        return [self] if self.first is None else [self.first, self]

    @property
    def instruction(self) -> Instruction:
        return self.kind.fit.instruction

    @property
    def unit(self) -> Unit:
        return self.kind.fit.instruction.unit

    @property
    def sizes(self) -> Mapping[str, int]:
        own = self.kind.sizes
        return own if self.first is None else {**self.first.sizes, **own}

    @property
    def start(self) -> Attribute | None:
        """Gives the number that the result, or that of its first block, begins with in place of its
        old values; None where it keeps them."""
        return self.parts[0].kind.start

    @property
    def numbers(self) -> Mapping[str, int]:
        """Gives the numbers that the pattern left open, by name."""
        own = self.kind.fit.numbers
        return own if self.first is None else {**self.first.numbers, **own}

    @property
    def form(self) -> int:
        """Tells which alternative of the instruction's pattern the call is, from 0."""
        return self.instruction.forms.index(self.kind.fit.form)

    @property
    def cycles(self) -> float:
        kinds = [part.kind for part in self.parts]
        return sum(kind.kept_cycles if self.is_kept else kind.cycles for kind in kinds)

    @property
    def result(self) -> Place:
        """Gives the place of the result."""
        return next(reversed(self.places.values()))

    @property
    def read(self) -> list[Place]:
        """Lists the places that the call reads: its operands and, unless it begins anew, its
        result."""
        *inputs, result = self.places.values()
        return [*inputs, result] if self.kind.reads_old else inputs

    @property
    def waits(self) -> Mapping[str, int]:
        """Gives the most calls of each other unit that may be outstanding when the call begins."""
        return self.op.counts if self.is_first else {}

    @property
    def pops(self) -> Sequence[str]:
        """Lists the units whose tokens the call pops before it begins."""
        return [unit.data for unit in self.op.pops or ()] if self.is_first else []

    @property
    def pushes(self) -> Sequence[str]:
        """Lists the units that the call pushes tokens to when it has ended."""
        return [unit.data for unit in self.op.pushes or ()] if self.is_last else []

    @property
    def registers(self) -> Mapping[Register, Any]:
        """Gives the contents of the machine's registers that the call needs."""
        return self.instruction.registers(self) if self.instruction.registers else {}


def joined_places(first: Mapping[str, Place], second: Mapping[str, Place]) -> dict[str, Place]:
    """Joins the places that the two blocks of an instruction reach, without those in its hidden
    memory; the result comes last.
    """
    found = [*first.items(), *second.items()]
    return {name: place for name, place in found if not place.memory.hidden}

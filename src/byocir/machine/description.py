"""Defines `Machine`, which holds the declarations of a machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from byocir.dialects.memos import Memo
from byocir.dialects.types import Floats, Shape, holds_numbers
from byocir.errors import ByocirError
from byocir.machine.block_keys import BlockKeys
from byocir.machine.instructions import (
    WORK,
    Call,
    Cycles,
    Encode,
    Instruction,
    Register,
    init_of,
    memory_of,
)
from byocir.machine.parts import (
    MAIN,
    Channel,
    InOrder,
    Interlocked,
    Limit,
    Memory,
    Order,
    Tokens,
    Transfer,
    Unit,
)
from byocir.machine.two_blocks import FIRST, first_of, names_in, names_twice, second_of
from byocir.patterns import Composite, Pattern, block
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.composite import composite
from byocir.vendor.places import caller, place_of

Answer = TypeVar("Answer")

MOST_ANSWERS = 4096
"""A ResNet-18 asks for about twice as many."""

MOST_INSIDE = 1 << 20
"""The elements of a tile that go from the first to the second blocks of instructions at most, more
than memories hold."""


def _expect(wanted: bool, told: str, found: object) -> None:
    """Raises ByocirError B270 for what is not as wanted."""
    if not wanted:
        shown = str(found) if isinstance(found, Attribute) else repr(found)
        raise ByocirError("B270", f"expected {told}, found {shown}", where=caller())


def _expect_rows(scope: str, element: object, row: object) -> None:
    """Raises ByocirError B270 for rows that no memory can have."""
    is_number = isinstance(element, Attribute) and holds_numbers(element)
    _expect(is_number, f"element of {scope} to be a type, such as i8", element)
    is_shape = isinstance(row, (tuple, list))
    _expect(is_shape, f"row of {scope} to be a tuple, such as (16,)", row)


def _among(number: float | None, pads: set[int | float | str]) -> bool:
    return number in pads or any(isinstance(pad, str) for pad in pads)


@dataclass(eq=False)
class Machine:
    """Describes a machine: memories, units, the channels that these share, instructions and what
    orders its units. Methods declare them."""

    name: str
    units: list[Unit] = field(default_factory=list[Unit])
    memories: list[Memory] = field(default_factory=list[Memory])
    channels: list[Channel] = field(default_factory=list[Channel])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    ordered: Order = field(default_factory=InOrder)
    issue: str | None = None
    """C for exported projects: what it includes, `static void NAME_issue(const uint64_t *entry,
    void *const *arrays)` for the machine's name, which issues an entry of code, and `static void
    NAME_finish(void)`, which waits until all have ended. Entries are tuples of integers, all as
    long; arrays are numbered as `Place.array` says."""
    assemble: Callable[[FuncOp, Sequence[Any]], Mapping[str, bytes]] | None = None
    """Makes the files of a function's code from the entries of its calls, where more than one call
    shares something: tables, the addresses of arrays, an end. Without it, code is the entries."""
    in_columns: bool = False
    """Tells that hooks which encode may be asked once about many calls that differ in their
    addresses alone: `address`, `row` and `lane` of an operand are an array then, with a number for
    each call, and so are the numbers of the code that follow from them."""
    _answers: Memo[Any, Any] = field(
        default_factory=lambda: Memo[Any, Any](MOST_ANSWERS), repr=False
    )
    _keys: BlockKeys = field(default_factory=BlockKeys, repr=False)
    _lines: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """The lines of the description that declare units, channels and memories, by their names, and
    its order, by the words that stand for that."""

    def unit(self, name: str, *, queue: int = 1) -> Unit:
        """Declares a unit, in front of which up to `queue` instructions may wait."""
        self._lines[f"unit {name}"] = caller()
        self.units.append(Unit(name, queue))
        return self.units[-1]

    def channel(self, name: str) -> Channel:
        """Declares a channel, which instructions of several units share: see `Transfer`."""
        self._lines[f"channel {name}"] = caller()
        self.channels.append(Channel(name))
        return self.channels[-1]

    def memory(
        self,
        name: str,
        element: Attribute,
        *,
        row: Shape,
        rows: int,
        banks: int = 1,
        granule: int = 1,
        fifo: bool = False,
        inside_rows: bool = False,
        interleaved: bool = False,
    ) -> Memory:
        """Declares a memory of `rows` rows, each of shape `row`; buffers in it are in scope
        "machine.name". See `Memory` for `banks`, `granule`, `fifo`, `inside_rows` and
        `interleaved`.
        """
        scope = f"{self.name}.{name}"
        own, self._lines[scope] = (banks, granule, fifo, inside_rows, interleaved), caller()
        _expect_rows(scope, element, row)
        self.memories.append(Memory(scope, element, tuple(row), rows, *own))
        return self.memories[-1]

    def view(self, name: str, memory: Memory, element: Attribute, *, row: Shape) -> Memory:
        """Declares a view of a memory, in scope "machine.name": the same rows, as many bytes each,
        with elements of another type or in another shape. All else is as for the memory.
        """
        scope = f"{self.name}.{name}"
        is_memory, self._lines[scope] = isinstance(cast("object", memory), Memory), caller()
        _expect(is_memory, f"the memory of {scope} to be a memory of the machine", memory)
        _expect_rows(scope, element, row)
        told = {"scope": scope, "element": element, "row": tuple(row), "viewed": memory}
        self.memories.append(replace(memory, **told))
        return self.memories[-1]

    def order(self, kind: Order) -> None:
        """Declares what keeps instructions of several units in order: `InOrder()`, the default,
        `Interlocked(memories)`, `Tokens(pairs)` or `Counted()`."""
        self.ordered = kind
        self._lines |= dict.fromkeys(("order", "Tokens", "Interlocked"), caller())

    def instruction(
        self,
        unit: Unit,
        *,
        cycles: Cycles,
        into: Memory | None = None,
        transfer: Transfer | None = None,
        opcode: int | None = None,
        encode: Encode | None = None,
        registers: Callable[[Call], Mapping[Register, Any]] | None = None,
        strided: Collection[str] = (),
        keeps: str = "",
        kept_cycles: Cycles | None = None,
        inside: Attribute | None = None,
        **limits: Limit,
    ) -> Callable[[Callable[[], Any]], Instruction]:
        """Decorates a function that gives the pattern of an instruction, or alternatives: declares
        it. Values of the pattern lie in the memory that they are made of (`near("a")`), other
        wildcards in main memory. `into` is the memory that it writes, by default the one that its
        result starts from, else main memory. `transfer` says which channel it shares with others.
        Limits are given by the names of iterators. `strided` names the operands whose rows need not
        follow each other, as the instruction's code says how far apart they are; the result is
        "out". `keeps` names an operand that stays in the unit, as weights do in an array: a call
        that finds it there takes `kept_cycles`.

        A block may read, at the index of its own result, what another block makes, of element type
        `inside`: one call does both, with all sums of the first. A rule is asked about
        the one whose names it looks up.
        """

        def build(function: Callable[[], Any]) -> Instruction:
            if not callable(function):
                told = f"expected a function that gives the pattern, found {function!r}"
                raise ByocirError("B270", told, where=caller())
            pattern = composite(f"{self.name}.{function.__name__}")(function)
            hooks = (transfer, opcode, encode, registers, strided, keeps, kept_cycles)
            given = into, (unit, limits, cycles), hooks
            if inside is None:
                return self._add(pattern, function, *given)
            return self._add_two(pattern, function, inside, *given)

        return build

    def copy(
        self,
        name: str,
        source: Memory,
        into: Memory,
        *,
        unit: Unit,
        cycles: Cycles,
        transfer: Transfer | None = None,
        opcode: int | None = None,
        encode: Encode | None = None,
        registers: Callable[[Call], Mapping[Register, Any]] | None = None,
        strided: Collection[str] = (),
        rows: Limit,
        lanes: Limit,
    ) -> Instruction:
        """Declares an instruction that moves up to `rows` runs of `lanes` elements. `transfer` and
        `strided` as for `instruction`; runs may be anywhere in main memory."""

        for each in cast("Sequence[object]", (source, into)):
            if not isinstance(each, Memory):
                told = f"expected {name} to copy from a memory into one, found {each!r}"
                raise ByocirError("B270", told, where=caller(), help="main memory is MAIN")
        if source == into:
            told = f"expected {name} to copy into another memory, found {into.called} twice"
            raise ByocirError("B270", told, where=caller())

        def moved() -> Pattern:
            return block("rows lanes", source("x")["rows lanes"], lambda _, x: x)

        pattern = composite(f"{self.name}.{name}")(moved)
        limits = {"rows": rows, "lanes": lanes}
        hooks = (transfer, opcode, encode, registers, strided)
        return self._add(pattern, moved, into, (unit, limits, cycles), hooks)

    def _add(
        self,
        pattern: Composite,
        function: Callable[..., Any],
        into: Memory | None,
        time: tuple[Unit, Mapping[str, Limit], Cycles],
        hooks: tuple[Any, ...],
        first: Instruction | None = None,
    ) -> Instruction:
        """Adds an instruction; the other parameters are fields of `Instruction`, in their order."""
        forms = [each for each in pattern.walk() if isinstance(each, BlockPattern)]
        if not forms or any(form.label not in (None, WORK) for form in forms):
            told = f"expected instruction {pattern.name} to be one block without a name, or several"
            raise ByocirError("B270", f"{told} alternatives of that", where=place_of(function))
        for form in forms:
            form.label = WORK
        inits = [init.memory for form in forms if (init := init_of(form)) is not None]
        memory = into or next(iter(inits), MAIN)
        unit, limits, cycles = time
        told = pattern.name, unit, pattern, memory, limits, cycles
        made = Instruction(*told, *hooks, first=first, where=caller())
        self.instructions.append(made)
        return made

    def _add_two(
        self,
        pattern: Composite,
        function: Callable[..., Any],
        inside: Attribute,
        into: Memory | None,
        time: tuple[Unit, Mapping[str, Limit], Cycles],
        hooks: tuple[Any, ...],
    ) -> Instruction:
        """Adds an instruction of two blocks, as `_add` does, and in front of it one that does the
        first of them.
        """
        made, wrong = first_of(pattern)
        if made is None:
            told = f"expected {pattern.name} to go on with what a block makes, at the same index"
            raise ByocirError("B270", f"{told}, found {wrong}", where=place_of(function))
        if twice := names_twice(made, pattern):
            told = f"expected each name of {pattern.name} in one of its blocks"
            told += f", found {twice[0]} in both"
            raise ByocirError("B270", told, where=place_of(function))
        name, (unit, limits, cycles) = f"{pattern.name}_{FIRST}", time
        transfer, opcode, encode, registers, strided, keeps, kept_cycles = hooks
        _expect_rows(name, inside, (1,))
        memory = Memory(name, inside, (1,), MOST_INSIDE, hidden=True)
        self.memories.append(memory)
        before, after = Composite(name, (made,)), second_of(pattern, memory)
        before.rules = after.rules
        read, looped = names_in(before)
        time = unit, {each: limits[each] for each in limits if each in looped}, cycles
        own = [*(each for each in strided if each in read), "out"]
        of_first = transfer, None, None, None, own, keeps, kept_cycles
        first = self._add(before, function, memory, time, of_first)
        kept = {*names_in(after)[1], *limits.keys() - looped}
        time = unit, {each: limits[each] for each in limits if each in kept}, lambda _: 0
        own = [*(each for each in strided if each not in read), FIRST]
        return self._add(after, function, into, time, (None, opcode, encode, registers, own), first)

    # What follows from the declarations.

    @property
    def guarded(self) -> frozenset[Memory]:
        """Lists the memories where the hardware holds back what must not overlap."""
        named = self.ordered.memories if isinstance(self.ordered, Interlocked) else ()
        watched = {memory.storage for memory in named}
        return frozenset(each for each in self.memories if each.fifo or each.storage in watched)

    @property
    def hands_on(self) -> bool:
        """Tells whether a program may read what it wrote to main memory. If units are ordered by
        tokens, that needs tokens from all units that write there to all that read there.
        """
        if not isinstance(self.ordered, Tokens):
            return True
        writers = {each.unit for each in self.instructions if each.into.is_main}
        readers = {each.unit for each in self.instructions if each.reads_main}
        pairs = {*self.ordered.pairs, *((unit, unit) for unit in self.units)}
        return all((one, other) in pairs for one in writers for other in readers)

    def of_units(self, busy: Mapping[str, Floats]) -> Floats:
        """Sums the cycles of units among those of units and channels: the cycles of a channel are
        part of those of the units that use it.
        """
        channels = {channel.name for channel in self.channels}
        found = (cycles for name, cycles in busy.items() if name not in channels)
        return sum(found, start=np.zeros(()))

    def memory_of(self, scope: str) -> Memory | None:
        """Gives the memory that buffers of a scope lie in; None for another machine's."""
        return MAIN if not scope else next((m for m in self.memories if m.scope == scope), None)

    def declared_at(self, text: str) -> str:
        """Gives the line of the description that declares the first of its instructions, memories,
        units, channels and its order that a text names; empty if it names none.
        """
        lines = {**self._lines, **{each.name: each.where for each in self.instructions}}
        tried = ((re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text), name) for name in lines)
        named = {match.start(): name for match, name in tried if match is not None}
        return lines[named[min(named)]] if named else ""

    def called(self, name: str) -> Instruction:
        """Finds the instruction of this name."""
        return next(each for each in self.instructions if each.name == name)

    @property
    def pads(self) -> set[int | float | str]:
        """Gives the numbers that copies of arrays in main memory read outside of these, and the
        names that they have for any number.
        """
        return {each.pad for each in self.instructions if each.pad is not None}

    @property
    def pads_read(self) -> set[int | float | str]:
        """Gives the numbers with which instructions pad what they read in one of the machine's
        memories, and the names that they have for any number.
        """
        forms = (form for each in self.instructions for form in each.forms)
        reads = (read for form in forms for read in form.reads if not memory_of(read).is_main)
        return {read.pad for read in reads if read.pad is not None}

    def sets_pad(self, number: float | None) -> bool:
        """Tells whether a copy of an array in main memory reads a number outside of it; None stands
        for any number.
        """
        return _among(number, self.pads)

    def pads_with(self, number: float | None) -> bool:
        """Tells whether images of the machine have a number around them, None for any number: its
        copies set it, or instructions read it.
        """
        return self.sets_pad(number) or _among(number, self.pads_read)

    def path(self, source: Memory, into: Memory) -> Sequence[Memory] | None:
        """Finds the shortest way from one memory to another along copies, as the memories on it;
        None where no copies lead there, or only by way of main memory.
        """
        paths = [[source]]
        seen = {source}
        for path in paths:
            if path[-1] == into:
                return path
            for following in self._copied(path[-1]):
                if following not in seen and (following == into or not following.is_main):
                    seen.add(following)
                    paths.append([*path, following])
        return None

    def stores(self, element: Attribute) -> bool:
        """Tells whether copies bring elements of a type from a memory to main memory as they
        are."""
        holders = [memory for memory in self.memories if memory.element == element]
        return any(self.path(memory, MAIN) is not None for memory in holders)

    def _copied(self, source: Memory) -> Iterator[Memory]:
        for each in self.instructions:
            if each.moves == source:
                yield each.into

    def answer(self, key: tuple[Hashable, ...], found: Callable[[], Answer]) -> Answer:
        """Remembers the answer to a question about blocks, which is found once: the same is asked
        for each tile. The first part of the key says what is asked, the rest all that decides the
        answer. Answers that nobody asked for lately are forgotten.
        """
        return self._answers.of(key, found)

    @property
    def turns(self) -> int:
        """Counts how often answers were forgotten: what answers share is to be begun anew then."""
        return self._answers.turns

    @property
    def keys(self) -> BlockKeys:
        """Gives what tells blocks apart in such keys, by numbers."""
        return self._keys

    def number_of(self, key: Hashable) -> int:
        """Numbers a long part of such keys: a number is found more quickly."""
        return self._keys.number_of(key)

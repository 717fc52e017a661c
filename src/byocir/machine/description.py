"""`Machine`: the declarations of a machine, and `Instruction`: what it does in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute

from byocir.dialects.types import Shape
from byocir.errors import ByocirError
from byocir.machine.parts import MAIN, InOrder, Limit, Memory, Operand, Order, Sizes, Unit
from byocir.patterns import Composite, Pattern, ScalarPattern, block
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.composite import composite
from byocir.patterns.mistakes import place_of

if TYPE_CHECKING:
    from byocir.machine.calls import Call
    from byocir.machine.fits import Fit, Misfit
    from byocir.machine.plans import Plan

WORK = "work"
"""What the block of an instruction is called in its matches, unless its pattern names it."""

Cycles = Callable[[Sizes], int | float]
Encode = Callable[["Call"], Any]


@dataclass(frozen=True, eq=False)
class Register:
    """A register that holds configuration. Instructions say what they need it to hold; what sets it
    is part of a program only where that changes."""

    name: str
    unit: Unit
    encode: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Instruction:
    """A step of a unit: a pattern of blocks on boxes in memories, with limits for the
    extents of its iterators. `into` is the memory that it writes. `pattern.rule` adds rules."""

    name: str
    unit: Unit
    pattern: Composite
    into: Memory
    limits: Mapping[str, Limit]
    cycles: Cycles
    opcode: int | None = None
    encode: Encode | None = None
    """Makes the entry of the machine's code for one call of it."""
    registers: Callable[[Call], Mapping[Register, Any]] | None = None
    """Gives the contents of the machine's registers that one call of it needs."""

    @property
    def rule(self) -> Callable[..., Any]:
        """Decorator: adds a rule, see `Composite.rule`."""
        return self.pattern.rule

    @cached_property
    def forms(self) -> tuple[BlockPattern, ...]:
        """The alternatives of its pattern."""
        found = [each for each in self.pattern.walk() if isinstance(each, BlockPattern)]
        return tuple(found)

    @cached_property
    def operands(self) -> Mapping[str, Memory]:
        """The memories that its pattern's values lie in, by name; without the one it makes."""
        started = {each.label for form in self.forms if (each := _init(form)) is not None}
        values = {each.label: each for each in self.pattern.walk() if isinstance(each, Operand)}
        return {name or "": v.memory for name, v in values.items() if name not in started}

    @property
    def starts(self) -> bool:
        """Tells whether it can begin with a number, in place of what was there before."""
        return any(
            not isinstance(form.init, Pattern) and form.init is not None for form in self.forms
        )

    @cached_property
    def moves(self) -> Memory | None:
        """The memory from which it may move elements as they are, if it is a copy."""
        for form in self.forms:
            if len(form.reads) == 1 and form.indices[0] == form.out and _gives_input(form):
                pattern = form.reads[0].pattern
                return pattern.memory if isinstance(pattern, Operand) else MAIN
        return None

    def cost(self, sizes: Sizes) -> float:
        """The cycles that one call of these sizes keeps its unit busy."""
        return float(self.cycles(sizes))

    def __repr__(self) -> str:
        return f"<instruction {self.name}>"


def _gives_input(form: BlockPattern) -> bool:
    """Tells whether a body gives the element that it reads."""
    old, read = ScalarPattern(), ScalarPattern()
    return form.body(old, read) is read


def _init(form: BlockPattern) -> Operand | None:
    return form.init if isinstance(form.init, Operand) else None


@dataclass
class Plans:
    """Answers about blocks, by the facts that decide them, as the same is asked for each tile. Each
    entry is what was found, or why nothing was."""

    blocks: dict[Any, Plan | tuple[str, ...]] = field(default_factory=dict[Any, Any])
    fits: dict[Any, Fit | tuple[str, ...]] = field(default_factory=dict[Any, Any])
    calls: dict[Any, Fit | Misfit | None] = field(default_factory=dict[Any, Any])
    copies: dict[Any, tuple[str, float]] = field(default_factory=dict[Any, Any])


@dataclass(eq=False)
class Machine:
    """A machine: memories, units, instructions and what orders its units. Methods declare them."""

    name: str
    units: list[Unit] = field(default_factory=list[Unit])
    memories: list[Memory] = field(default_factory=list[Memory])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    ordered: Order = field(default_factory=InOrder)
    plans: Plans = field(default_factory=lambda: Plans())

    def unit(self, name: str, *, queue: int = 1) -> Unit:
        """Declares a unit, in front of which up to `queue` instructions may wait."""
        self.units.append(Unit(name, queue))
        return self.units[-1]

    def memory(
        self,
        name: str,
        element: Attribute,
        *,
        row: Shape,
        rows: int,
        banks: int = 1,
        granule: int = 1,
    ) -> Memory:
        """Declares a memory of `rows` rows, each of shape `row`; buffers in it are in scope
        "machine.name". See `Memory` for `banks` and `granule`."""
        scope = f"{self.name}.{name}"
        self.memories.append(Memory(scope, element, tuple(row), rows, banks, granule))
        return self.memories[-1]

    def order(self, kind: Order) -> None:
        """Declares what keeps instructions of several units in order: `InOrder()`, the default,
        `Interlocked(memories)`, `Tokens(pairs)` or `Counted()`."""
        self.ordered = kind

    def instruction(
        self,
        unit: Unit,
        *,
        cycles: Cycles,
        into: Memory | None = None,
        opcode: int | None = None,
        encode: Encode | None = None,
        registers: Callable[[Call], Mapping[Register, Any]] | None = None,
        **limits: Limit,
    ) -> Callable[[Callable[[], Any]], Instruction]:
        """Decorator: declares an instruction. The function gives its pattern, or alternatives.
        Values of the pattern lie in the memory that they are made of (`near("a")`), other wildcards
        in main memory. `into` is the memory it writes, by default that of what it starts from, else
        main memory. Limits are given by the names of iterators."""

        def build(function: Callable[[], Any]) -> Instruction:
            pattern = composite(f"{self.name}.{function.__name__}")(function)
            return self._add(
                pattern, unit, cycles, into, opcode, encode, registers, limits, function
            )

        return build

    def copy(
        self,
        name: str,
        source: Memory,
        into: Memory,
        *,
        unit: Unit,
        cycles: Cycles,
        opcode: int | None = None,
        encode: Encode | None = None,
        registers: Callable[[Call], Mapping[Register, Any]] | None = None,
        rows: Limit,
        lanes: Limit,
    ) -> Instruction:
        """Declares an instruction that moves up to `rows` runs of `lanes` elements."""

        def moved() -> Pattern:
            return block("rows lanes", source("x")["rows lanes"], lambda _, x: x)

        pattern = composite(f"{self.name}.{name}")(moved)
        limits = {"rows": rows, "lanes": lanes}
        return self._add(pattern, unit, cycles, into, opcode, encode, registers, limits, moved)

    def _add(
        self,
        pattern: Composite,
        unit: Unit,
        cycles: Cycles,
        into: Memory | None,
        opcode: int | None,
        encode: Encode | None,
        registers: Callable[[Call], Mapping[Register, Any]] | None,
        limits: Mapping[str, Limit],
        function: Callable[..., Any],
    ) -> Instruction:
        forms = [each for each in pattern.walk() if isinstance(each, BlockPattern)]
        if not forms or any(form.label not in (None, WORK) for form in forms):
            told = f"expected instruction {pattern.name} to be one block without a name, or several"
            raise ByocirError("B270", f"{told} alternatives of that", where=place_of(function))
        for form in forms:
            form.label = WORK
        inits = [init.memory for form in forms if (init := _init(form)) is not None]
        memory = into or next(iter(inits), MAIN)
        made = Instruction(
            pattern.name, unit, pattern, memory, limits, cycles, opcode, encode, registers
        )
        self.instructions.append(made)
        return made

    # What follows from the declarations.

    def memory_of(self, scope: str) -> Memory | None:
        """The memory that buffers of a scope lie in; None for another machine's."""
        return MAIN if not scope else next((m for m in self.memories if m.scope == scope), None)

    def called(self, name: str) -> Instruction:
        """The instruction of this name."""
        return next(each for each in self.instructions if each.name == name)

    def path(self, source: Memory, into: Memory) -> Sequence[Memory] | None:
        """The memories from one to another along copies, with as few steps as there can be; None
        where no copies lead there."""
        paths = [[source]]
        seen = {source}
        for path in paths:
            if path[-1] == into:
                return path
            for following in self._copied(path[-1]):
                if following not in seen:
                    seen.add(following)
                    paths.append([*path, following])
        return None

    def _copied(self, source: Memory) -> Iterator[Memory]:
        for each in self.instructions:
            if each.moves == source:
                yield each.into

    def check(self) -> None:
        """Raises ByocirError B270 for a description that cannot be of a machine."""
        from byocir.machine.checks import check_machine

        check_machine(self)

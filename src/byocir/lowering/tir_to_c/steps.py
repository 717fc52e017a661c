"""Defines the steps of a program on buffers, which become C one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Attribute, Operation

from byocir.dialects.array import Array
from byocir.dialects.tir import IntrinsicOp, LoopKind
from byocir.dialects.types import nbytes, shape_of
from byocir.evaluate.routines import Routine
from byocir.lowering.tir_to_c.arena import Arena, plan
from byocir.lowering.tir_to_c.block_parts import Kernel
from byocir.lowering.tir_to_c.unwritten import Runs
from byocir.rewrites.memory_rows import Life
from byocir.toolchain.calling import ALIGN

INPUT, OUTPUT, CONSTANT, ARENA = "input", "output", "constant", "arena"
LOCAL, KEPT, SIZES = "local", "kept", "sizes"


@dataclass(eq=False)
class Buffer:
    """Describes memory for an array: `place` says where, `index` is the number of an input, output,
    constant or local array, or the offset in bytes in the arena. The place `SIZES` is that of an
    output's sizes.
    """

    type: Attribute
    place: str
    index: int = 0
    sizes: Buffer | None = None
    """The buffer that has the shape, as i64, of an array whose shape only a run tells: `type` is
    then that of the largest, and the array lies at the start."""
    copies: int = 1
    """Its copies in the arena: one for each thread that may use it at once."""

    @property
    def count(self) -> int:
        """Counts the buffer's elements."""
        return prod(shape_of(self.type))

    @property
    def nbytes(self) -> int:
        return nbytes(self.type)

    @property
    def stride(self) -> int:
        """Counts the bytes from one copy to the next."""
        return self.nbytes if self.copies == 1 else _aligned(self.nbytes)


@dataclass(frozen=True)
class Compute:
    """Runs a kernel on buffers, inputs first."""

    kernel: Kernel
    buffers: list[Buffer]
    nodes: tuple[str, ...]
    """The names of the model's nodes that it computes."""
    bases: list[str] = field(default_factory=list[str])
    """The starts of iterators, as C expressions: the kernel's last parameters."""


@dataclass(frozen=True)
class Fill:
    """Sets elements of a buffer to a number, given as a C expression: all of them, or those that
    the next kernel, which does not read them, leaves unwritten.
    """

    buffer: Buffer
    number: str
    runs: list[Runs]

    @property
    def is_partial(self) -> bool:
        return self.runs != [Runs(0, prod(shape_of(self.buffer.type)))]


def all_of(buffer: Buffer) -> list[Runs]:
    """Describes all elements of a buffer, as one run."""
    return [Runs(0, buffer.count)]


@dataclass(frozen=True)
class Copy:
    """Copies a buffer to another of its type."""

    source: Buffer
    target: Buffer


@dataclass(frozen=True)
class CallStep:
    """Calls what runs elsewhere: a region function, or an op without a form in C. Inputs are its
    operands, then what the graphs of a foreign op capture. For the end of a graph of an If, the
    operands are the outputs.
    """

    op: Operation
    inputs: list[Buffer]
    outputs: list[Buffer]


@dataclass(frozen=True)
class Extern:
    """Calls a routine on buffers, with the integers that it takes."""

    routine: Routine
    inputs: list[Buffer]
    outputs: list[Buffer]
    numbers: list[int]
    nodes: tuple[str, ...]


TextOf = Callable[[IntrinsicOp], str | None]
"""Gives the C of a target's instruction; None for one that runs as the block that says what it
does."""


@dataclass(frozen=True)
class BufferElement:
    """Describes an element of a buffer that C calls by a name; its offset is a C expression."""

    name: str
    buffer: Buffer
    offset: str


@dataclass(frozen=True)
class Instruct:
    """Runs an instruction of a target, by its text in C, which names these places."""

    text: str
    places: list[BufferElement]
    helpers: dict[str, str]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Local:
    """Declares an array of the C block that the step stands in."""

    buffer: Buffer


@dataclass(frozen=True)
class Repeat:
    """Runs steps for each value of a C variable from 0 on, as its kind says."""

    name: str
    extent: int
    steps: list[Step]
    kind: LoopKind = LoopKind.SERIAL
    threads: int = 1
    """The threads that share a parallel loop."""
    condition: Buffer | None = None
    """The condition of a next iteration."""


@dataclass(frozen=True)
class Branch:
    """Runs steps where a condition of one element holds, and others where it does not."""

    condition: Buffer
    steps: list[Step]
    otherwise: list[Step]


Step = Branch | Compute | Fill | Copy | CallStep | Extern | Instruct | Repeat | Local


def buffers_of(step: Step) -> list[Buffer]:
    """Lists all buffers that a step touches, without those of the steps inside it."""
    named = _named(step)
    return [*named, *(buffer.sizes for buffer in named if buffer.sizes is not None)]


def _named(step: Step) -> list[Buffer]:
    match step:
        case Compute():
            return step.buffers
        case Fill() | Local():
            return [step.buffer]
        case Copy():
            return [step.source, step.target]
        case CallStep() | Extern():
            return [*step.inputs, *step.outputs]
        case Instruct():
            return [place.buffer for place in step.places]
        case Branch():
            return [step.condition]
        case Repeat():
            return [] if step.condition is None else [step.condition]


def inside(step: Step) -> list[list[Step]]:
    """Lists the lists of steps inside a step."""
    if isinstance(step, Branch):
        return [step.steps, step.otherwise]
    return [step.steps] if isinstance(step, Repeat) else []


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yields the steps and those inside them, in order."""
    for step in steps:
        yield step
        for inner in inside(step):
            yield from all_steps(inner)


@dataclass
class CProgram:
    """Holds the steps of a function, with its arguments and results, its constants with their
    offsets where they lie in one image, and its arena.
    """

    steps: list[Step] = field(default_factory=list[Step])
    arguments: list[Buffer] = field(default_factory=list[Buffer])
    results: list[Buffer] = field(default_factory=list[Buffer])
    constants: list[tuple[int, Array]] = field(default_factory=list[tuple[int, Array]])
    constant_bytes: int = 0
    arena: Arena = field(default_factory=lambda: plan([]))
    _numbers: dict[Array, int] = field(default_factory=dict[Array, int])

    def constant(self, array: Array, type_: Attribute) -> Buffer:
        """Gives the buffer of a constant; equal constants share one."""
        if array not in self._numbers:
            self._numbers[array] = len(self.constants)
            offset = _aligned(self.constant_bytes)
            self.constants.append((offset, array))
            self.constant_bytes = offset + Buffer(type_, CONSTANT).nbytes
        return Buffer(type_, CONSTANT, self._numbers[array])


def arena_of(steps: Sequence[Step]) -> Arena:
    """Places a program's buffers in an arena, which gives them their offsets."""
    spans: dict[Buffer, tuple[int, int]] = {}
    _live(steps, 0, spans)
    arena = plan([Life(_aligned(b.stride * b.copies), *span) for b, span in spans.items()])
    for buffer, offset in zip(spans, arena.offsets, strict=True):
        buffer.index = offset
    return arena


def _aligned(count: int) -> int:
    """Rounds bytes up to where the next array may begin."""
    return -(-count // ALIGN) * ALIGN


def _live(steps: Sequence[Step], start: int, spans: dict[Buffer, tuple[int, int]]) -> int:
    """Notes the first and the last step at which each buffer of the arena is touched, counting
    steps from `start`; gives the count behind the last. A buffer that is there before a loop and
    used in it must last until the loop's end.
    """
    for step in steps:
        for buffer in buffers_of(step):
            if buffer.place == ARENA:
                spans[buffer] = (spans.get(buffer, (start, start))[0], start)
        if isinstance(step, Branch):
            start = _live([*step.steps, *step.otherwise], start + 1, spans)
        if isinstance(step, Repeat):
            end = _live(step.steps, start + 1, spans)
            for buffer, (first, last) in spans.items():
                if first <= start < last:
                    spans[buffer] = (first, end)
            start = end
        start += 1
    return start

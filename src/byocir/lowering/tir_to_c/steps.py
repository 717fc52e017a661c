"""The steps of a program on buffers, as they become C one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Attribute, Operation

from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.evaluate.routines import Routine
from byocir.lowering.tir_to_c.loops import Kernel
from byocir.lowering.tir_to_c.margins import Runs

INPUT, OUTPUT, CONSTANT, ARENA, KEPT = "input", "output", "constant", "arena", "kept"
SIZES = "sizes"


@dataclass(eq=False)
class Buffer:
    """Memory for a tensor: `place` says where, `index` is the number of an input or output, or the
    offset in bytes among the constants or in the arena. `SIZES` are those of an output."""

    type: Attribute
    place: str
    index: int = 0
    sizes: Buffer | None = None
    """Of an array whose shape only a run tells, where that shape is, as i64: `type` is then that of
    the largest, and the array lies at the start."""

    @property
    def nbytes(self) -> int:
        return prod(shape_of(self.type)) * dtype_of(element_type_of(self.type)).itemsize


@dataclass(frozen=True)
class Compute:
    """A kernel on buffers, inputs first."""

    kernel: Kernel
    buffers: list[Buffer]
    nodes: tuple[str, ...]
    """The names of the model's nodes that it computes."""
    bases: list[str] = field(default_factory=list[str])
    """Where iterators start, as C expressions: the kernel's last parameters."""


@dataclass(frozen=True)
class Fill:
    """Elements of a buffer are a number, given as a C expression: all of them, or the margins of
    what the next kernel writes, which does not read them."""

    buffer: Buffer
    number: str
    runs: list[Runs]

    @property
    def is_margin(self) -> bool:
        return self.runs != [Runs(0, prod(shape_of(self.buffer.type)))]


@dataclass(frozen=True)
class Copy:
    """A buffer's bytes to another of its type."""

    source: Buffer
    target: Buffer


@dataclass(frozen=True)
class Call:
    """What runs elsewhere: a call of a region function, or an op that has no form in C. Inputs are
    its operands, then what the graphs of a foreign op capture. For the end of a graph of an If, the
    operands are the outputs."""

    op: Operation
    inputs: list[Buffer]
    outputs: list[Buffer]


@dataclass(frozen=True)
class Extern:
    """A routine on buffers, and the integers that it takes."""

    routine: Routine
    inputs: list[Buffer]
    outputs: list[Buffer]
    numbers: list[int]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Repeat:
    """Steps that run for each value of a C variable from 0."""

    name: str
    extent: int
    steps: list[Step]


@dataclass(frozen=True)
class Branch:
    """Steps that run where a condition of one element holds, and others where it does not."""

    condition: Buffer
    steps: list[Step]
    otherwise: list[Step]


Step = Branch | Compute | Fill | Copy | Call | Extern | Repeat


def buffers_of(step: Step) -> list[Buffer]:
    """All buffers that a step touches, but for those of the steps inside it."""
    named = _named(step)
    return [*named, *(buffer.sizes for buffer in named if buffer.sizes is not None)]


def _named(step: Step) -> list[Buffer]:
    match step:
        case Compute():
            return step.buffers
        case Fill():
            return [step.buffer]
        case Copy():
            return [step.source, step.target]
        case Call() | Extern():
            return [*step.inputs, *step.outputs]
        case Branch():
            return [step.condition]
        case Repeat():
            return []


def inside(step: Step) -> list[list[Step]]:
    """The lists of steps inside a step."""
    if isinstance(step, Branch):
        return [step.steps, step.otherwise]
    return [step.steps] if isinstance(step, Repeat) else []


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps and those inside them, in order."""
    for step in steps:
        yield step
        for inner in inside(step):
            yield from all_steps(inner)

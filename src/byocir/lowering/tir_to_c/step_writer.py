"""Writes the steps of a program as statements in C, and collects the functions that they call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.lowering.tir_to_c.block_parts import Kernel
from byocir.lowering.tir_to_c.conditions import APART, either, when
from byocir.lowering.tir_to_c.literals import stored_type
from byocir.lowering.tir_to_c.openmp import DIRECTIVES, teamed
from byocir.lowering.tir_to_c.repeats import THREAD, repeated
from byocir.lowering.tir_to_c.routine_sources import HALF, with_includes
from byocir.lowering.tir_to_c.steps import (
    CONSTANT,
    INPUT,
    KEPT,
    LOCAL,
    OUTPUT,
    SIZES,
    Branch,
    Buffer,
    CallStep,
    Compute,
    Copy,
    Extern,
    Fill,
    Instruct,
    Local,
    Repeat,
    Step,
    inside,
)
from byocir.lowering.tir_to_c.tree import Block, Declare, For, Node, Nodes, definition, names_in
from byocir.toolchain.calling import OUTSIDE

PART = {
    "part": (
        "#if defined(__GNUC__)\n"
        "#define PART __attribute__((noinline))\n"
        "#else\n#define PART\n#endif\n"
    )
}
"""Keeps a kernel, or a part of the program, a function of its own. Where gcc 12 has put two kernels
into their caller it may give the second other sums than the first has left in memory."""


class StepWriter:
    """Writes steps, in which arrays have these names. The names of functions that it makes begin
    with the prefix.
    """

    def __init__(
        self, inputs: Sequence[str], outputs: Sequence[str], threads: int = 1, prefix: str = "k"
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.threads, self.prefix = threads, prefix
        self.definitions: list[str] = []
        """The functions that are called."""
        self.helpers: dict[str, str] = {}
        """Definitions that come before them, in the order of their names."""
        self.files: dict[str, str] = {}
        """Files that ship with byocir, by name."""
        self._kernels: dict[str, str] = {}
        self._calls = 0

    @property
    def shared(self) -> list[str]:
        """Gives the definitions that stand before the functions, the same in each program that
        needs them.
        """
        directives = [DIRECTIVES] if self.threads > 1 else []
        helpers = [text for _, text in sorted(self.helpers.items())]
        return [*directives, *helpers, *self.files.values()]

    def nodes(self, steps: Sequence[Step]) -> Nodes:
        """Writes the statements of steps; on several threads a team runs them."""
        if self.threads > 1:
            return teamed(steps, self.threads, self._step)
        return [node for step in steps for node in self._step(step)]

    def _step(self, step: Step) -> Nodes:
        if isinstance(step, Compute):
            arguments = ", ".join([*map(self._pointer, step.buffers), *step.bases])
            told = f" /* {comment(step.nodes)} */" if step.nodes else ""
            call = f"{self._kernel(step.kernel)}({arguments})"
            if step.kernel.can_fail:
                return [f"if ({call} != 0) return {OUTSIDE};{told}"]
            return [f"{call};{told}"]
        if isinstance(step, Copy):
            target, source = self._pointer(step.target), self._pointer(step.source)
            return [f"memcpy({target}, {source}, {step.source.nbytes});"]
        if isinstance(step, Branch):
            return self._branch(step)
        if isinstance(step, Repeat):
            return self._repeat(step)
        if isinstance(step, Extern):
            return self._extern(step)
        if isinstance(step, Instruct):
            return self._instruct(step)
        if isinstance(step, Local):
            kind = stored_type(element_type_of(step.buffer.type))
            return [f"{kind} l{step.buffer.index}[{step.buffer.count}];"]
        return self._fill(step) if isinstance(step, Fill) else self._call(step)

    def _repeat(self, step: Repeat) -> Nodes:
        if step.threads == 1:
            held = "" if step.condition is None else f"*{self._pointer(step.condition)}"
            return repeated(step, self.nodes(step.steps), held)
        self.helpers |= THREAD
        return repeated(step, [node for each in step.steps for node in self._step(each)])

    def _branch(self, step: Branch) -> Nodes:
        self.helpers |= APART
        then, otherwise = (self.nodes(steps) for steps in inside(step))
        condition = f"*{self._pointer(step.condition)}"
        return [either(condition, then, otherwise) if otherwise else when(condition, then)]

    def _fill(self, step: Fill) -> Nodes:
        kind = stored_type(element_type_of(step.buffer.type))
        nodes: list[Node] = [f"{kind} *const y = {self._pointer(step.buffer)};"]
        is_zero = step.number in ("0", "0x0.0p+0", "0x0.0p+0f")
        for runs in step.runs:
            at = f"{runs.start} + {runs.step} * i" if runs.count > 1 else str(runs.start)
            filled: Node = f"memset(y + {at}, 0, {runs.length} * sizeof *y);"
            if not is_zero:
                filled = For("j", runs.length, [f"y[{at} + j] = {step.number};"])
            nodes.append(filled if runs.count == 1 else For("i", runs.count, [filled]))
        return [Block(nodes)] if step.runs else []

    def _call(self, step: CallStep) -> Nodes:
        index, self._calls = self._calls, self._calls + 1
        given = [b for i in step.inputs for b in (i, i.sizes) if b is not None]
        inputs = ", ".join(self._pointer(buffer) for buffer in given) or "NULL"
        outputs = ", ".join(self._pointer(buffer) for buffer in step.outputs) or "NULL"
        arrays = f"const void *const in[] = {{{inputs}}};", f"void *const out[] = {{{outputs}}};"
        return [Block([*arrays, *checked(f"region(context, {index}, in, out)")])]

    def _extern(self, step: Extern) -> Nodes:
        files = dict(with_includes(step.routine.file))
        if "half.h" in files:
            del files["half.h"]
            self.helpers |= HALF
        self.files |= files
        numbers = ", ".join(map(str, step.numbers)) or "0"
        arrays = [
            f"const routine_in in[] = {{{self._arrays(step.inputs)}}};",
            f"const routine_out out[] = {{{self._arrays(step.outputs)}}};",
            f"const int64_t numbers[] = {{{numbers}}};",
        ]
        call = checked(f"{step.routine.name}(in, out, numbers)")
        return [Block([*arrays, *call], comment(step.nodes))]

    def _instruct(self, step: Instruct) -> Nodes:
        self.helpers |= step.helpers
        named, pointers = names_in(step.text), list[Node]()
        for place in (place for place in step.places if place.name in named):
            kind = stored_type(element_type_of(place.buffer.type))
            const = "const " if place.name.startswith("x") else ""
            offset = f" + {place.offset}" if place.offset != "0" else ""
            at = f"{self._pointer(place.buffer)}{offset}"
            pointers.append(f"{const}{kind} *const {place.name} = {at};")
        return [Block([*pointers, *step.text.splitlines()], comment(step.nodes))]

    def _arrays(self, buffers: Sequence[Buffer]) -> str:
        """Writes the rows of a table of arrays."""
        rows: list[str] = []
        for buffer in buffers:
            shape, kind = shape_of(buffer.type), dtype_of(element_type_of(buffer.type)).name.upper()
            sizes = f"(int64_t[]){{{', '.join(map(str, shape)) or '1'}}}"
            if buffer.sizes is not None:
                sizes = self._pointer(buffer.sizes)
            rows.append(f"{{{self._pointer(buffer)}, ROUTINE_{kind}, {len(shape)}, {sizes}}}")
        return ", ".join(rows)

    def _pointer(self, buffer: Buffer) -> str:
        if buffer.place == KEPT:
            return "NULL"
        if buffer.place == SIZES:
            return f"{self.outputs[buffer.index]}_shape"
        if buffer.place in (INPUT, OUTPUT):
            return (self.inputs if buffer.place == INPUT else self.outputs)[buffer.index]
        kind = stored_type(element_type_of(buffer.type))
        if buffer.place == CONSTANT:
            return f"(const {kind} *)w[{buffer.index}]"
        if buffer.place == LOCAL:
            return f"l{buffer.index}"
        own = f" + thread * {buffer.stride}" if buffer.copies > 1 else ""
        return f"({kind} *)(void *)(m + {buffer.index}{own})"

    def _kernel(self, kernel: Kernel) -> str:
        """Gives the name of a kernel's function; equal functions are written once."""
        text = definition(f"({', '.join(kernel.parameters)})", kernel.body)
        if text not in self._kernels:
            made = self._kernels[text] = f"{self.prefix}{len(self._kernels)}"
            self.helpers |= {**kernel.helpers, **PART}
            gives = "int" if kernel.can_fail else "void"
            self.definitions.append(f"static PART {gives} {made}{text}")
        return self._kernels[text]


def checked(call: str) -> Nodes:
    """Writes a call that ends the run with its code if that is not 0."""
    return [Declare("int", "code", call), "if (code != 0) return code;"]


def comment(nodes: Sequence[str]) -> str:
    """Writes names as a comment, without characters that would end it, nest it or be a trigraph."""
    text = re.sub(r"[^ -~]|[?\\\\]", "_", ", ".join(nodes))
    return text.replace("*/", "* /").replace("/*", "/ *")

"""The C source and header of a program.

C99 without heap, input or output, and with no globals: weights and arena are the caller's, region
functions are reached through a function pointer. The same function gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.evaluate.ports import names_of
from byocir.lowering.tir_to_c.conditions import APART, either, when
from byocir.lowering.tir_to_c.files import HALF, with_includes
from byocir.lowering.tir_to_c.host import CHost
from byocir.lowering.tir_to_c.kernels import Kernel
from byocir.lowering.tir_to_c.literals import stored_type
from byocir.lowering.tir_to_c.openmp import DIRECTIVES, teamed
from byocir.lowering.tir_to_c.program import program_of
from byocir.lowering.tir_to_c.repeats import THREAD, repeated
from byocir.lowering.tir_to_c.steps import (
    ARENA,
    CONSTANT,
    INPUT,
    KEPT,
    LOCAL,
    OUTPUT,
    SIZES,
    Branch,
    Buffer,
    Call,
    Compute,
    Copy,
    Extern,
    Fill,
    Local,
    Program,
    Repeat,
    Step,
    all_steps,
    buffers_of,
    inside,
)
from byocir.lowering.tir_to_c.tree import TAB, Block, Declare, For, Node, Nodes, definition
from byocir.toolchain.calling import ALIGN, OUTSIDE, UNFIT, aligned

ANY = CHost("generic")

C_BEGINS = '#ifdef __cplusplus\nextern "C" {\n#endif\n'
"""The text of headers before their declarations, so that C++ may include them."""
C_ENDS = "#ifdef __cplusplus\n}\n#endif\n"

MOST_STEPS = 64
"""Steps of one function in C: gcc takes time that grows with the square of what is in one."""
_PART = {
    "part": (
        "#if defined(__GNUC__)\n"
        "#define PART __attribute__((noinline))\n"
        "#else\n#define PART\n#endif\n"
    )
}
"""Keeps a kernel, or a part of the program, a function of its own. Where gcc 12 has put two kernels
into their caller it may give the second other sums than the first has left in memory."""

_GIVEN = ("inputs", "outputs", "constants", "arena", "region", "context")
"""The arguments of the functions that run the program."""

_KEYWORDS = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|"
    "inline|int|long|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|"
    "union|unsigned|void|volatile|while"
)


@dataclass(frozen=True)
class Port:
    """An input or output of a model: its name there and in C. If its shape is open, the member's
    name with `_shape` has it, and the type is that of the largest."""

    name: str
    member: str
    type: Attribute
    is_open: bool = False


@dataclass(frozen=True)
class HostCode:
    """The code of the host: C text, and the constants of its program."""

    source: str
    header: str
    inputs: list[Port]
    outputs: list[Port]
    host: CHost
    program: Program = field(repr=False)
    name: str = "model"
    """The beginning of all names that the header declares."""

    @property
    def weights(self) -> bytearray:
        """The constants as `run` takes them: one image."""
        image = bytearray(self.program.constant_bytes)
        for offset, array in self.program.constants:
            data = array.values().reshape(-1).view(np.uint8)
            image[offset : offset + data.size] = data.data
        return image

    @property
    def constants(self) -> list[np.ndarray]:
        """The constants as `run_at` takes them, each at an address that the code asks for."""
        return [aligned(array.values()) for _, array in self.program.constants]

    @property
    def calls(self) -> list[Call]:
        """The steps that run elsewhere, by the index that the region function is given."""
        return [step for step in all_steps(self.program.steps) if isinstance(step, Call)]

    @property
    def is_worth_it(self) -> bool:
        """Tells if it computes anything itself, or there is nothing that it cannot hold."""
        kept = any(b.place == KEPT for call in self.calls for b in buffers_of(call))
        steps = all_steps(self.program.steps)
        return not kept or any(isinstance(step, Compute | Extern) for step in steps)


def emit_host(function: FuncOp, name: str = "model", host: CHost = ANY) -> HostCode:
    """C for a function on tensors. `name` begins the names of what the header declares."""
    program = program_of(function, host)
    inputs, outputs = names_of(function)
    inputs, outputs = _ports(inputs, program.arguments), _ports(outputs, program.results)
    writer = _Writer(name, program, inputs, outputs, host.threads)
    texts = writer.source(), writer.header()
    return HostCode(*texts, inputs, outputs, host, program, name)


def _ports(names: Sequence[str], buffers: Iterable[Buffer]) -> list[Port]:
    """Those that are arrays."""
    ports: list[Port] = []
    taken: set[str] = set()
    for name, buffer in zip(names, buffers, strict=True):
        if buffer.place == KEPT:
            continue
        base = re.sub(r"[^A-Za-z0-9_]", "_", name)
        base = f"_{base}" if not base or base[0].isdigit() or _KEYWORDS.fullmatch(base) else base
        member, count = base, 1
        while not taken.isdisjoint((member, f"{member}_shape")):
            count += 1
            member = f"{base}_{count}"
        is_open = buffer.sizes is not None
        taken.update([member, f"{member}_shape"] if is_open else [member])
        ports.append(Port(name, member, buffer.type, is_open))
    return ports


class _Writer:
    def __init__(
        self,
        name: str,
        program: Program,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        threads: int,
    ) -> None:
        self.name, self.program, self.threads = name, program, threads
        self.inputs, self.outputs = inputs, outputs
        self._kernels: dict[str, str] = {}
        self._definitions: list[str] = []
        self._helpers: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._parts: list[str] = []
        self._calls = 0

    def header(self) -> str:
        name, upper = self.name, self.name.upper()
        return "\n".join(
            [
                "/* Written by byocir. Not thread-safe on one arena; safe on several. */",
                f"#ifndef {upper}_H",
                f"#define {upper}_H",
                "",
                "#include <stdint.h>",
                "",
                C_BEGINS,
                f"#define {upper}_ALIGN {ALIGN} /* of weights and arena, in bytes */",
                f"#define {upper}_WEIGHTS_BYTES {self.program.constant_bytes}",
                f"#define {upper}_ARENA_BYTES {self.program.arena.nbytes}",
                "",
                "/* Row-major arrays, which must not overlap. */",
                *_struct(f"{name}_inputs", "const ", self.inputs),
                "",
                *_struct(f"{name}_outputs", "", self.outputs),
                "",
                "/* Runs what has no form in C, by its index; gives 0, or what ends the run. Of",
                "   arrays whose size is not known here it gets NULL, and keeps them itself.",
                "   Behind an array of open shape comes its shape. */",
                f"typedef int (*{name}_region)(void *context, int index,",
                f"{' ' * (len(name) + 22)}const void *const *inputs, void *const *outputs);",
                "",
                f"#define {upper}_OUTSIDE {OUTSIDE} /* an index leads outside of its array */",
                f"#define {upper}_UNFIT {UNFIT} /* sizes do not fit each other */",
                "",
                f"/* Gives 0, {upper}_OUTSIDE, {upper}_UNFIT, or what a region gave. Without",
                "   regions, `region` may be NULL. */",
                *self._head("run", "void *weights", ");"),
                "",
                "/* The same with each constant at its own, aligned, place. */",
                *self._head("run_at", "void *const *constants", ");"),
                "",
                C_ENDS,
                "#endif",
                "",
            ]
        )

    def source(self) -> str:
        name = self.name
        body = self._body()
        return "\n".join(
            [
                "/* Written by byocir. */",
                f'#include "{name}.h"',
                "",
                "#include <math.h>",
                "#include <stddef.h>",
                "#include <stdint.h>",
                "#include <string.h>",
                "",
                "/* The arena holds every buffer that lies in it. */",
                f"typedef char {name}_arena_holds_all[",
                f"{TAB}{self._end()} <= {name.upper()}_ARENA_BYTES ? 1 : -1];",
                "",
                *([DIRECTIVES] if self.threads > 1 else []),
                *(text for _, text in sorted(self._helpers.items())),
                *self._files.values(),
                *self._definitions,
                *self._parts,
                self._function(self._head("run_at", "void *const *constants"), body),
                *self._head("run", "void *weights"),
                "{",
                f"{TAB}const unsigned char *const w = weights;",
                f"{TAB}const void *const constants[] = {{",
                *(f"{TAB}{TAB}w + {offset}," for offset, _ in self.program.constants),
                *([] if self.program.constants else [f"{TAB}{TAB}w,"]),
                f"{TAB}}};",
                f"{TAB}return {name}_run_at(inputs, outputs, constants, arena, region, context);",
                "}",
                "",
            ]
        )

    def _body(self) -> Nodes:
        """Writes the body of `run_at`: all steps, or calls of functions with some of them each."""
        steps = self.program.steps
        shared = self.threads > 1 or any(isinstance(step, Local) for step in steps)
        if shared or len(steps) <= MOST_STEPS:
            return self._steps(steps)
        self._helpers |= _PART
        calls: list[Node] = []
        for start in range(0, len(steps), MOST_STEPS):
            name = f"part{len(self._parts)}"
            head = self._head_of(f"static PART int {name}(", "void *const *constants", ")")
            body = self._steps(steps[start : start + MOST_STEPS])
            self._parts.append(self._function(head, body))
            calls.append(Block(_checked(f"{name}({', '.join(_GIVEN)})")))
        return calls

    def _function(self, head: Sequence[str], body: Nodes) -> str:
        """A function that does some of the steps, and gives 0 or what ends the run."""
        given = [
            "const void *const *const w = constants;",
            "unsigned char *const m = arena;",
            *(f"(void){v};" for v in ("inputs", "outputs", "w", "m", "region", "context")),
        ]
        return definition("\n".join(head), [*given, *body, "return 0;"])

    def _head(self, what: str, weights: str, end: str = ")") -> list[str]:
        """Writes the head of a function of the header."""
        return self._head_of(f"int {self.name}_{what}(", weights, end)

    def _head_of(self, head: str, weights: str, end: str) -> list[str]:
        return [
            f"{head}const struct {self.name}_inputs *inputs,",
            f"{' ' * len(head)}const struct {self.name}_outputs *outputs,",
            f"{' ' * len(head)}const {weights}, void *arena,",
            f"{' ' * len(head)}{self.name}_region region, void *context{end}",
        ]

    def _end(self) -> int:
        """Finds the end of the arena's last buffer."""
        buffers = [b for step in all_steps(self.program.steps) for b in buffers_of(step)]
        ends = [b.index + b.stride * b.copies for b in buffers if b.place == ARENA]
        return max(ends, default=0)

    def _steps(self, steps: Sequence[Step]) -> Nodes:
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
        if isinstance(step, Local):
            kind = stored_type(element_type_of(step.buffer.type))
            return [f"{kind} l{step.buffer.index}[{step.buffer.count}];"]
        return self._fill(step) if isinstance(step, Fill) else self._call(step)

    def _repeat(self, step: Repeat) -> Nodes:
        if step.threads == 1:
            held = "" if step.condition is None else f"*{self._pointer(step.condition)}"
            return repeated(step, self._steps(step.steps), held)
        self._helpers |= THREAD
        return repeated(step, [node for each in step.steps for node in self._step(each)])

    def _branch(self, step: Branch) -> Nodes:
        self._helpers |= APART
        then, otherwise = (self._steps(steps) for steps in inside(step))
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

    def _call(self, step: Call) -> Nodes:
        index, self._calls = self._calls, self._calls + 1
        given = [b for i in step.inputs for b in (i, i.sizes) if b is not None]
        inputs = ", ".join(self._pointer(buffer) for buffer in given) or "NULL"
        outputs = ", ".join(self._pointer(buffer) for buffer in step.outputs) or "NULL"
        arrays = f"const void *const in[] = {{{inputs}}};", f"void *const out[] = {{{outputs}}};"
        return [Block([*arrays, *_checked(f"region(context, {index}, in, out)")])]

    def _extern(self, step: Extern) -> Nodes:
        files = dict(with_includes(step.routine.file))
        if "half.h" in files:
            del files["half.h"]
            self._helpers |= HALF
        self._files |= files
        numbers = ", ".join(map(str, step.numbers)) or "0"
        arrays = [
            f"const routine_in in[] = {{{self._arrays(step.inputs)}}};",
            f"const routine_out out[] = {{{self._arrays(step.outputs)}}};",
            f"const int64_t numbers[] = {{{numbers}}};",
        ]
        call = _checked(f"{step.routine.name}(in, out, numbers)")
        return [Block([*arrays, *call], comment(step.nodes))]

    def _arrays(self, buffers: Sequence[Buffer]) -> str:
        """Rows of a table of arrays."""
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
            return f"outputs->{self.outputs[buffer.index].member}_shape"
        if buffer.place == INPUT:
            return f"inputs->{self.inputs[buffer.index].member}"
        if buffer.place == OUTPUT:
            return f"outputs->{self.outputs[buffer.index].member}"
        kind = stored_type(element_type_of(buffer.type))
        if buffer.place == CONSTANT:
            return f"(const {kind} *)w[{buffer.index}]"
        if buffer.place == LOCAL:
            return f"l{buffer.index}"
        own = f" + thread * {buffer.stride}" if buffer.copies > 1 else ""
        return f"({kind} *)(void *)(m + {buffer.index}{own})"

    def _kernel(self, kernel: Kernel) -> str:
        """The name of a kernel's function; equal ones share one."""
        text = definition(f"({', '.join(kernel.parameters)})", kernel.body)
        if text not in self._kernels:
            made = self._kernels[text] = f"k{len(self._kernels)}"
            self._helpers |= {**kernel.helpers, **_PART}
            gives = "int" if kernel.can_fail else "void"
            self._definitions.append(f"static PART {gives} {made}{text}")
        return self._kernels[text]


def _checked(call: str) -> Nodes:
    """A call whose code, if it is not 0, ends the run."""
    return [Declare("int", "code", call), "if (code != 0) return code;"]


def comment(nodes: Sequence[str]) -> str:
    """Names in a comment, without what would end it, nest it or be a trigraph."""
    text = re.sub(r"[^ -~]|[?\\\\]", "_", ", ".join(nodes))
    return text.replace("*/", "* /").replace("/*", "/ *")


def _struct(name: str, qualifier: str, ports: Sequence[Port]) -> list[str]:
    rows: list[str] = []
    for port in ports:
        shape, most = list(shape_of(port.type)), "at most " if port.is_open else ""
        told = f"{comment([port.name])} {most}{shape}"
        kind = stored_type(element_type_of(port.type))
        rows.append(f"{TAB}{qualifier}{kind} *{port.member}; /* {told} */")
        if port.is_open:
            rows.append(f"{TAB}int64_t *{port.member}_shape; /* [{len(shape)}] */")
    # C has no structs without members.
    return [f"struct {name} {{", *(rows or [f"{TAB}const void *none;"]), "};"]

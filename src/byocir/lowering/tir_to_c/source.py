"""Writes the C source and header of a program.

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

from byocir.dialects.types import element_type_of, shape_of
from byocir.evaluate.ports import names_of
from byocir.lowering.tir_to_c.literals import stored_type
from byocir.lowering.tir_to_c.program import program_of
from byocir.lowering.tir_to_c.step_writer import PART, StepWriter, checked, comment
from byocir.lowering.tir_to_c.steps import (
    ARENA,
    KEPT,
    Buffer,
    CallStep,
    Compute,
    CProgram,
    Extern,
    Local,
    all_steps,
    buffers_of,
)
from byocir.lowering.tir_to_c.tree import TAB, Block, Node, Nodes, definition
from byocir.rewrites.host.c_host import CHost
from byocir.toolchain.calling import ALIGN, OUTSIDE, UNFIT, aligned

ANY = CHost("generic")

C_BEGINS = '#ifdef __cplusplus\nextern "C" {\n#endif\n'
"""The text of headers before their declarations, so that C++ may include them."""
C_ENDS = "#ifdef __cplusplus\n}\n#endif\n"

MOST_STEPS = 64
"""Steps of one function in C. gcc takes time that grows with the square of the calls in one: gcc 12
at -O3 takes 0.4 s for 4,000 nodes and 1.6 s for 16,000, in one function 1.5 s and 10 s."""
_GIVEN = ("inputs", "outputs", "constants", "arena", "region", "context")
"""The arguments of the functions that run the program."""

_KEYWORDS = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|"
    "inline|int|long|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|"
    "union|unsigned|void|volatile|while"
)


@dataclass(frozen=True)
class CPort:
    """Describes an input or output of a model: its name there and in C. If its shape is open, the
    member of its name with `_shape` has the sizes, and the type is that of the largest.
    """

    name: str
    member: str
    type: Attribute
    is_open: bool = False


@dataclass(frozen=True)
class HostCode:
    """Holds the code of the host: C text, and the constants of its program."""

    source: str
    header: str
    inputs: list[CPort]
    outputs: list[CPort]
    host: CHost
    program: CProgram = field(repr=False)
    name: str = "model"
    """The beginning of all names that the header declares."""

    @property
    def weights(self) -> bytearray:
        """Gives the constants as `run` takes them: in one image."""
        image = bytearray(self.program.constant_bytes)
        for offset, array in self.program.constants:
            data = array.values().reshape(-1).view(np.uint8)
            image[offset : offset + data.size] = data.data
        return image

    @property
    def constants(self) -> list[np.ndarray]:
        """Gives the constants as `run_at` takes them, each at an address that the code asks for."""
        return [aligned(array.values()) for _, array in self.program.constants]

    @property
    def calls(self) -> list[CallStep]:
        """Lists the steps that run elsewhere, by the index that the region function gets."""
        return [step for step in all_steps(self.program.steps) if isinstance(step, CallStep)]

    @property
    def is_worth_it(self) -> bool:
        """Tells if the code computes anything itself, or holds all values of the program."""
        kept = any(b.place == KEPT for call in self.calls for b in buffers_of(call))
        steps = all_steps(self.program.steps)
        return not kept or any(isinstance(step, Compute | Extern) for step in steps)


def emit_host(function: FuncOp, name: str = "model", host: CHost = ANY) -> HostCode:
    """Writes C for a function on tensors. `name` begins the names of what the header declares."""
    program = program_of(function, host)
    inputs, outputs = names_of(function)
    inputs, outputs = _ports(inputs, program.arguments), _ports(outputs, program.results)
    writer = _Writer(name, program, inputs, outputs, host.threads)
    texts = writer.source(), writer.header()
    return HostCode(*texts, inputs, outputs, host, program, name)


def _ports(names: Sequence[str], buffers: Iterable[Buffer]) -> list[CPort]:
    """Selects the values that are arrays."""
    ports: list[CPort] = []
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
        ports.append(CPort(name, member, buffer.type, is_open))
    return ports


class _Writer:
    def __init__(
        self,
        name: str,
        program: CProgram,
        inputs: Sequence[CPort],
        outputs: Sequence[CPort],
        threads: int,
    ) -> None:
        self.name, self.program, self.threads = name, program, threads
        self.inputs, self.outputs = inputs, outputs
        arrays = [f"inputs->{i.member}" for i in inputs], [f"outputs->{o.member}" for o in outputs]
        self.steps = StepWriter(*arrays, threads)
        self._parts: list[str] = []

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
                *self.steps.shared,
                *self.steps.definitions,
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
            return self.steps.nodes(steps)
        self.steps.helpers |= PART
        calls: list[Node] = []
        for start in range(0, len(steps), MOST_STEPS):
            name = f"part{len(self._parts)}"
            head = self._head_of(f"static PART int {name}(", "void *const *constants", ")")
            body = self.steps.nodes(steps[start : start + MOST_STEPS])
            self._parts.append(self._function(head, body))
            calls.append(Block(checked(f"{name}({', '.join(_GIVEN)})")))
        return calls

    def _function(self, head: Sequence[str], body: Nodes) -> str:
        """Writes a function that does some of the steps; it returns 0 or the code that ends the
        run.
        """
        given = [
            "const void *const *const w = constants;",
            "unsigned char *const m = arena;",
            *(f"(void){v};" for v in ("inputs", "outputs", "w", "m", "region", "context")),
        ]
        return definition("\n".join(head), [*given, *body, "return 0;"])

    def _head(self, what: str, weights: str, end: str = ")") -> list[str]:
        """Writes the head of a function as in the header."""
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


def _struct(name: str, qualifier: str, ports: Sequence[CPort]) -> list[str]:
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

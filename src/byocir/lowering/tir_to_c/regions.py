"""Writes functions in memory as C that stands alone: for targets that give no more than the text of
their instructions."""

from __future__ import annotations

import hashlib

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from byocir.dialects.types import element_type_of
from byocir.lowering.tir_to_c.literals import defined_array, stored_type
from byocir.lowering.tir_to_c.program import in_memory
from byocir.lowering.tir_to_c.step_writer import StepWriter
from byocir.lowering.tir_to_c.steps import CONSTANT, CProgram, TextOf, all_steps, buffers_of
from byocir.lowering.tir_to_c.tree import Declare, If, Nodes, definition
from byocir.rewrites.host.c_host import CHost

_INCLUDES = "".join(f"#include <{n}.h>\n" for n in ("math", "stddef", "stdint", "stdlib", "string"))


def region_in_c(function: FuncOp, name: str, parameters: str, text_of: TextOf) -> str:
    """Writes `int NAME(parameters)`, with all that it calls under names of its own. Of its
    parameters the arrays `inputs` and `outputs` are those of the function. `text_of` gives the C of
    an instruction or None. Raises NoC for what has no form in C.
    """
    program = in_memory(function, CHost("generic"), text_of)
    inputs = [f"(const {_kind(b.type)} *)inputs[{i}]" for i, b in enumerate(program.arguments)]
    outputs = [f"({_kind(b.type)} *)outputs[{i}]" for i, b in enumerate(program.results)]
    writer = StepWriter(inputs, outputs, prefix=f"{name}_k")
    body = writer.nodes(program.steps)
    constants = _constants(program, name)
    table = [f"static const void *const w[] = {{{', '.join(n for n, _ in constants)}}};"]
    body = [*(table if constants else []), "(void)inputs;", "(void)outputs;", *body, "return 0;"]
    shared = map(_once, [_INCLUDES, *writer.shared])
    main = _functions(name, parameters, body, program.arena.nbytes)
    return "\n".join([*shared, *(text for _, text in constants), *writer.definitions, main])


def _functions(name: str, parameters: str, body: Nodes, size: int) -> str:
    """Writes the function of a body, with memory for its buffers where they need some."""
    if not size:
        return definition(f"int {name}({parameters})", body)
    inner = definition(f"static int {name}_in({parameters}, unsigned char *const m)", body)
    outer: Nodes = [
        f"unsigned char *const m = malloc({size});",
        If("m == NULL", ["return 1;"]),
        Declare("int", "code", f"{name}_in(inputs, outputs, m)"),
        "free(m);",
        "return code;",
    ]
    return f"{inner}\n{definition(f'int {name}({parameters})', outer)}"


def _kind(type_: Attribute) -> str:
    return stored_type(element_type_of(type_))


def _once(text: str) -> str:
    """Makes a text take effect once, however many functions of a file have it."""
    guard = f"BYOCIR_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"#ifndef {guard}\n#define {guard}\n{text}#endif\n"


def _constants(program: CProgram, name: str) -> list[tuple[str, str]]:
    """Gives the name and the definition of each constant."""
    used = [b for step in all_steps(program.steps) for b in buffers_of(step)]
    types = {buffer.index: buffer.type for buffer in used if buffer.place == CONSTANT}
    arrays = [array for _, array in program.constants]
    names = [f"{name}_c{i}" if i in types else "NULL" for i in range(len(arrays))]
    return [
        (n, defined_array(n, types[i], arrays[i]) if i in types else "")
        for i, n in enumerate(names)
    ]

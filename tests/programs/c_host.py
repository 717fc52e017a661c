"""Functions run as C in this process."""

from __future__ import annotations

import re
from collections.abc import Sequence

from byocir.evaluate.interpreter import Interpreter
from byocir.lowering.tir_to_c import HostCode
from byocir.runtime.native import HostProgram, host_code
from byocir.toolchain import built_and_loaded

STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-ffp-contract=off", "-lm")
SANITIZED = (*STRICT, "-fsanitize=undefined", "-fno-sanitize-recover")


def run_c(module, arrays, flags=STRICT):
    """@main as C: its code, and its outputs for these inputs."""
    code, interpreter = host_code(module), Interpreter(module)
    program = HostProgram(code, interpreter, flags)
    return code, program.run(arrays)


def build_together(programs: Sequence[HostProgram]) -> None:
    """Builds programs for one host, with names of their own, as one library: in a fraction of the
    time that one library each takes. Raises ByocirError B401 to B404."""
    if programs:
        files = joined([program.code for program in programs])
        library = built_and_loaded("hosts", files, programs[0].function.all_flags())
        for program in programs:
            program.function.library = library


def joined(codes: Sequence[HostCode]) -> dict[str, str]:
    """The files of programs with names of their own as one source that includes them: most of a C
    compiler's time goes into beginning. Functions that two of them have are told apart."""
    files: dict[str, str] = {}
    lines: list[str] = []
    for code in codes:
        files[f"{code.name}.h"] = code.header
        if "routine_" in code.source:  # it has types, too
            files[f"{code.name}.c"] = code.source
            continue
        files[f"{code.name}.inc"] = code.source
        own = dict.fromkeys(_FUNCTION.findall(code.source))
        lines += [f"#define {name} {code.name}_{name}" for name in own]
        lines += [f'#include "{code.name}.inc"', *(f"#undef {name}" for name in own)]
    return {"hosts.c": "\n".join([*lines, ""]), **files}


_FUNCTION = re.compile(r"^static [^;={(]*?(\w+)\(", re.MULTILINE)

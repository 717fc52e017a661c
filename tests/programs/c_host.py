"""Functions run as C in this process."""

from __future__ import annotations

from byocir.evaluate.interpreter import Interpreter
from byocir.runtime.native import HostProgram, host_code

STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-ffp-contract=off", "-lm")
SANITIZED = (*STRICT, "-fsanitize=undefined", "-fno-sanitize-recover")


def run_c(module, arrays, flags=STRICT):
    """@main as C: its code, and its outputs for these inputs."""
    code, interpreter = host_code(module), Interpreter(module)
    program = HostProgram(code, interpreter, flags)
    return code, program.run(arrays)

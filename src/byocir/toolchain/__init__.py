"""The C toolchain: finds a compiler, builds shared libraries, keeps them by content.

    path = build_shared("digits", {"digits.c": text}, ["-O3", "-march=native"])
    library = load_shared(path)

| code | subject |
| --- | --- |
| B401 | there is no C compiler |
| B402 | `$CC` names no program |
| B403 | the compiler failed: C sources it refuses, or a compiler that does not work |
| B404 | a library that was built cannot be loaded |
| B405 | code is for another processor than this machine's |
"""

from byocir.toolchain.build import build_shared, load_shared, takes
from byocir.toolchain.compiler import Compiler, find_compiler
from byocir.toolchain.machine import x86_64_level

__all__ = ["Compiler", "build_shared", "find_compiler", "load_shared", "takes", "x86_64_level"]

"""The C toolchain finds a compiler, builds shared libraries and keeps them by content.

    library = built_and_loaded("digits", {"digits.c": text}, ["-O3", "-march=native"])

| code | subject |
| --- | --- |
| B401 | there is no C compiler |
| B402 | `$CC` names no program, or `$BYOCIR_CFLAGS` are no flags |
| B403 | the compiler failed: C sources it refuses, or a compiler that does not work |
| B404 | a library that was built cannot be loaded |
| B405 | code is for another processor than this machine's |
| B406 | no temporary file can be written |
| B407 | a library that a target links is nowhere |

Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byocir.lazy import exports

if TYPE_CHECKING:
    from byocir.toolchain.build import build_shared, built_and_loaded, load_shared, takes
    from byocir.toolchain.compiler import Compiler, find_compiler
    from byocir.toolchain.libraries import Libraries
    from byocir.toolchain.machine import x86_64_features, x86_64_level

__all__ = [
    "Compiler",
    "Libraries",
    "build_shared",
    "built_and_loaded",
    "find_compiler",
    "load_shared",
    "takes",
    "x86_64_features",
    "x86_64_level",
]


__getattr__, __dir__ = exports(
    __name__,
    build="build_shared built_and_loaded load_shared takes",
    compiler="Compiler find_compiler",
    libraries="Libraries",
    machine="x86_64_features x86_64_level",
)

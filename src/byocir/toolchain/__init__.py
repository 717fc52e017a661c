"""The C toolchain: finds a compiler, builds shared libraries, keeps them by content.

    path = build_shared("digits", {"digits.c": text}, ["-O3", "-march=native"])
    library = ctypes.CDLL(str(path))

| code | subject |
| --- | --- |
| B401 | there is no C compiler |
| B402 | `$CC` names no program |
| B403 | the compiler failed: C sources it refuses, or a compiler that does not work |
"""

from byocir.toolchain.build import build_shared
from byocir.toolchain.compiler import Compiler, find_compiler

__all__ = ["Compiler", "build_shared", "find_compiler"]

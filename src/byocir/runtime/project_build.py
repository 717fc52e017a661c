"""Names the parts of an exported project, and writes its Makefile, CMakeLists.txt and weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byocir.errors import ByocirError
from byocir.lowering.tir_to_c.source import C_BEGINS, C_ENDS
from byocir.runtime.c_function import NAME
from byocir.toolchain import Libraries
from byocir.toolchain.calling import ALIGN

BYTES_PER_LINE = 24
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_OTHERS = ("blob", "clean", "device", "main", "npy", "project", "regions", "sha256")


@dataclass(frozen=True)
class Names:
    """Holds the names of a model's files and symbols."""

    model: str

    @property
    def macro(self) -> str:
        return self.model.upper()

    @property
    def regions(self) -> str:
        return "regions" if self.model == NAME else f"{self.model}_regions"

    @property
    def arrays(self) -> str:
        """Gives the name of the C file with the weights, without its ending."""
        return "blob" if self.model == NAME else f"{self.model}_blob"

    @property
    def blob(self) -> str:
        return f"{self.model}.bin"

    def check(self, others: Iterable[str]) -> None:
        """Raises ByocirError B354 for a model whose name C does not allow, or that another file
        has.
        """
        taken = {*_OTHERS, *others}
        if _NAME.fullmatch(self.model) is None or self.model in taken:
            raise ByocirError(
                "B354",
                "expected a name of small letters, digits and _ that no other file or target of a "
                f"project has, found {self.model!r}",
                help="files and symbols in C begin with it, e.g. detector",
            )


def makefile(sources: Sequence[str], flags: str, name: str, libraries: Sequence[Libraries]) -> str:
    """Writes the Makefile of a program of this name, which links what its targets need."""
    found = "".join(map(_library_in_make, libraries))
    linked = "".join(f"$({each.variable}_FLAGS) " for each in libraries)
    return f"""# Written by byocir. make && ./{name} IN.npy… OUT.npy…
CC ?= cc
CFLAGS ?= -O3
# Floats are rounded after every operation, so that results are those of byocir's evaluator.
MODEL_FLAGS = {flags}
SOURCES = {" ".join(sources)}
{found}
{name}: $(SOURCES) $(wildcard *.h */*.h)
\t$(CC) $(MODEL_FLAGS) $(CFLAGS) -o $@ $(SOURCES) {linked}-lm

.PHONY: clean
clean:
\trm -f {name}
"""


def _library_in_make(libraries: Libraries) -> str:
    root, linked = libraries.variable, " ".join(libraries.linked)
    packages = " ".join(libraries.packages)
    told = f"$(shell pkg-config --cflags --libs {packages} 2>/dev/null) " if packages else ""
    return f"""
# A library of target {libraries.owner}: make {root}=FOLDER, which has it in include and lib.
ifdef {root}
{root}_FLAGS = -isystem $({root})/include -L$({root})/lib -Wl,-rpath,$({root})/lib {linked}
else
{root}_FLAGS := {told}{linked}
endif
"""


def _library_in_cmake(libraries: Libraries, name: str) -> str:
    root = libraries.variable
    hints = f"HINTS ${{{root}}} $ENV{{{root}}} PATH_SUFFIXES include lib lib64"
    text = f"# A library of target {libraries.owner}: cmake -D{root}=FOLDER (include and lib)\n"
    found: list[str] = []
    for i, header in enumerate(libraries.headers):
        found.append(f"{root}_HEADERS_{i}")
        text += f"find_path({found[-1]} {header} {hints})\n"
        text += f"target_include_directories({name} SYSTEM PRIVATE ${{{found[-1]}}})\n"
    for i, each in enumerate(libraries.names):
        linked = each
        if not each.startswith("-"):
            found.append(f"{root}_LIBRARY_{i}")
            text += f"find_library({found[-1]} {each} {hints})\n"
            linked = f"${{{found[-1]}}}"
        text += f"target_link_libraries({name} PRIVATE {linked})\n"
    for each in found:
        told = f"set {root} to a folder that has it in include and lib"
        text += f'if(NOT {each})\n  message(FATAL_ERROR "{told}")\nendif()\n'
    return text


def cmake_lists(
    sources: Sequence[str],
    flags: str,
    blob: str | None,
    name: str,
    libraries: Sequence[Libraries],
) -> str:
    """Writes CMakeLists.txt for a program of this name, which links what its targets need; `blob`
    is a file that the program finds beside itself, if there is one.
    """
    options = " ".join(flag for flag in flags.split() if not flag.startswith("-std="))
    copied = f"configure_file({blob} {blob} COPYONLY)\n" if blob is not None else ""
    linked = "".join(_library_in_cmake(each, name) for each in libraries)
    return f"""# Written by byocir. cmake -B build && cmake --build build
cmake_minimum_required(VERSION 3.10)
project({name} C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Floats are rounded after every operation, so that results are those of byocir's evaluator.
set(CMAKE_C_FLAGS "${{CMAKE_C_FLAGS}} {options}")
add_executable({name} {" ".join(sources)})
target_link_libraries({name} PRIVATE m)
{copied}{linked}"""


def blob_as_c(blob: bytes, name: str, file: str) -> str:
    """Writes blob.c: the bytes of a model's weights, at an aligned address where the compiler can
    be told so.
    """
    rows = [
        f"    {','.join(map(str, blob[i : i + BYTES_PER_LINE]))},\n"
        for i in range(0, len(blob), BYTES_PER_LINE)
    ]
    return f"""/* Written by byocir: weights, and each region's program and constants. */
#include "{file}.h"

#if defined(__GNUC__)
__attribute__((aligned({ALIGN})))
#endif
const unsigned char {name}_bytes[] = {{
{"".join(rows) or "    0,"}}};
"""


def blob_header(name: str, file: str) -> str:
    """Writes blob.h: the declaration of that array."""
    return f"""/* Written by byocir: what {name}.bin would hold, as an array. */
#ifndef {file.upper()}_H
#define {file.upper()}_H

{C_BEGINS}
extern const unsigned char {name}_bytes[];

{C_ENDS}
#endif
"""

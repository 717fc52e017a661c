"""How an exported project is built by CMake, and its weights as C."""

from __future__ import annotations

from collections.abc import Sequence

from byocir.lowering.tir_to_c.arena import ALIGN

BYTES_PER_LINE = 24


def cmake_lists(sources: Sequence[str], flags: str, blob: str | None) -> str:
    """CMakeLists.txt; `blob` is a file that the program finds beside itself, if there is one."""
    options = " ".join(flag for flag in flags.split() if not flag.startswith("-std="))
    copied = f"configure_file({blob} {blob} COPYONLY)\n" if blob is not None else ""
    return f"""# Written by byocir. cmake -B build && cmake --build build
cmake_minimum_required(VERSION 3.10)
project(model C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Floats are rounded after every operation, so that results are those of byocir's evaluator.
set(CMAKE_C_FLAGS "${{CMAKE_C_FLAGS}} {options}")
add_executable(model {" ".join(sources)})
target_link_libraries(model PRIVATE m)
{copied}"""


def blob_as_c(blob: bytes) -> str:
    """blob.c: the bytes of the blob, at an address that the model wants where the compiler can be
    told."""
    rows = [
        f"    {','.join(map(str, blob[i : i + BYTES_PER_LINE]))},\n"
        for i in range(0, len(blob), BYTES_PER_LINE)
    ]
    return f"""/* Written by byocir: weights, and each region's program and constants. */
#include "blob.h"

#if defined(__GNUC__)
__attribute__((aligned({ALIGN})))
#endif
const unsigned char project_bytes[] = {{
{"".join(rows) or "    0,"}}};
"""


BLOB_HEADER = """/* Written by byocir: what model.bin would hold, as an array. */
#ifndef BLOB_H
#define BLOB_H

extern const unsigned char project_bytes[];

#endif
"""

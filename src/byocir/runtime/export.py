"""Exports a compiled model as a C project that needs neither Python nor byocir.

| file | what |
| --- | --- |
| model.c, model.h | the host's part of the model: C99, no heap, no globals |
| regions.c, regions.h | the regions, by index: which target runs which; absent without regions |
| regions_TARGET.c | the regions of a target with a device |
| TARGET/ | what a target brings along: its default device, or its regions as C |
| device.h | the five functions that an accelerator must offer |
| project.h | inputs and outputs, for main.c |
| main.c, npy.c, npy.h | a program that runs the model on .npy files |
| model.bin | weights, and each region's program and constants |
| blob.c, blob.h | the same as C, in place of model.bin, on request |
| sha256.c, sha256.h | the digest that model.bin must have |
| Makefile, CMakeLists.txt | build the program |

The same package gives the same bytes.

Files and symbols of a model begin with its name: `model`, or one that is given, so that several fit
into one program. (The regions and weights of `model` are called so alone.) The others are the same
for all models.

| code | what is wrong |
| --- | --- |
| B350 | an op that has no form in C |
| B351 | a target without a device or functions in C |
| B352 | an input or output of a type that .npy files do not have |
| B353 | a place for weights that there is not |
| B354 | a name that files and symbols in C cannot begin with |
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from importlib import resources

from byocir.dialects.byoc import CallOp
from byocir.dialects.graph import ForeignOp
from byocir.dialects.locations import names
from byocir.dialects.open_values import how_to_close, listed
from byocir.dialects.types import dtype_of, element_type_of, nbytes, shape_of
from byocir.errors import ByocirError, did_you_mean
from byocir.lowering.tir_to_c import HostCode
from byocir.lowering.tir_to_c.source import CPort
from byocir.lowering.tir_to_c.step_writer import comment
from byocir.lowering.tir_to_c.steps import KEPT
from byocir.runtime.c_function import NAME
from byocir.runtime.callbacks import callback_reason, open_origins
from byocir.runtime.native import code_without_evaluator, made_for
from byocir.runtime.package import Package
from byocir.runtime.project_build import Names, blob_as_c, blob_header, cmake_lists, makefile
from byocir.runtime.project_regions import add_programs, names_of, parts_of, region_files
from byocir.targets.device import CFunctions
from byocir.toolchain.calling import ALIGN

FILE = "file"
WEIGHTS = (FILE, "c")
"""Places for the weights of an exported program."""
MOST_IN_C = 2**28
"""The most bytes of weights as C arrays: as text they are five times as many, and C compilers need
some hundred bytes for each."""
LITTLE_ENDIAN = """#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights of this model are little-endian"
#endif
"""
"""The beginning of the model's source: its weights were written on another machine."""
FLAGS = "-std=c99 -Wall -Wextra -ffp-contract=off -fno-math-errno -fno-trapping-math"


def export_project(package: Package, *, weights: str = FILE, name: str = NAME) -> dict[str, bytes]:
    """Makes the files of a project, by name. `weights` are a "file" beside the program, or "c",
    arrays that are compiled in; with `name` the names of files and symbols begin with it. Raises
    ByocirError B350 to B352 for what it cannot hold, B353 and B354 for other `weights` and names.
    """
    called = Names(name)
    called.check(())
    if weights not in WEIGHTS:
        raise ByocirError(
            "B353",
            f"expected weights as {' or '.join(WEIGHTS)}, found '{weights}'",
            help=did_you_mean(weights, list(WEIGHTS)),
        )
    code = _checked_code(package, name)
    parts = parts_of(package, code)
    blob = code.weights
    offsets = add_programs(blob, parts)
    files = {
        f"{name}.c": (LITTLE_ENDIAN + code.source).encode(),
        f"{name}.h": code.header.encode(),
        "project.h": _project(code, bytes(blob), bool(parts), weights, called).encode(),
    }
    files |= _blob_files(bytes(blob), weights, called)
    folder = resources.files("byocir.runtime") / "project"
    for file in ("main.c", "npy.c", "npy.h", "device.h", "sha256.c", "sha256.h"):
        files[file] = (folder / file).read_bytes()
    if parts:
        called.check(names_of(parts))
        files |= region_files(parts, code, offsets, called)
    sources = sorted(file for file in files if file.endswith(".c"))
    flags = " ".join((FLAGS, *made_for(code.host)))
    made = [part.made for part in parts if isinstance(part.made, CFunctions)]
    libraries = [each.libraries for each in made if each.libraries is not None]
    files["Makefile"] = makefile(sources, flags, name, libraries).encode()
    beside = called.blob if called.blob in files else None
    files["CMakeLists.txt"] = cmake_lists(sources, flags, beside, name, libraries).encode()
    return dict(sorted(files.items()))


def _blob_files(blob: bytes, weights: str, called: Names) -> dict[str, bytes]:
    """Makes the files with the weights: one file of data, or C."""
    if weights == FILE:
        return {called.blob: blob}
    if len(blob) > MOST_IN_C:
        raise ByocirError(
            "B353",
            f"expected weights of at most {MOST_IN_C} bytes as C, found {len(blob)}",
            help="leave them in a file, as without --weights-as",
        )
    return {
        f"{called.arrays}.c": blob_as_c(blob, called.model, called.arrays).encode(),
        f"{called.arrays}.h": blob_header(called.model, called.arrays).encode(),
    }


# -- what can be exported


def _checked_code(package: Package, name: str) -> HostCode:
    code = code_without_evaluator(package.module, name)
    found = open_origins(code)
    ports = (*code.program.arguments, *code.program.results)
    if found or any(port.place == KEPT for port in ports):
        raise ByocirError(
            "B350",
            f"expected values of known sizes and types, found {listed(found) or 'inputs'}",
            help=how_to_close(found),
        )
    for call in code.calls:
        if not isinstance(call.op, CallOp):
            kind = call.op.kind if isinstance(call.op, ForeignOp) else call.op.name
            raise ByocirError(
                "B350",
                f"expected ops with a form in C, found {kind}: it {callback_reason(call.op)}",
                where=", ".join(names(call.op.location)),
                help="exported projects have no evaluator: give the op to a target, or replace it",
            )
    for port in (*code.inputs, *code.outputs):
        dtype = dtype_of(element_type_of(port.type))
        if dtype.isbuiltin != 1:
            raise ByocirError("B352", f"expected a type of numpy for {port.name}, found {dtype}")
    return code


# -- files


def _project(code: HostCode, blob: bytes, with_regions: bool, weights: str, called: Names) -> str:
    run = _run_with_regions(called) if with_regions else _run(called)
    return f"""/* Written by byocir: inputs and outputs, for main.c. */
#ifndef PROJECT_H
#define PROJECT_H

#include "{called.model}.h"
#include "npy.h"
{f'#include "{called.regions}.h"' if with_regions else ""}
{_blob_of(called, weights)}
{_sizes(code, blob, called)}
{_port_table("project_inputs", code.inputs)}
{_port_table("project_outputs", code.outputs)}
/* Whether the shape of an output is open: the table has that of the largest. */
static const unsigned char project_open[] = {{{_flags(code.outputs)}}};

/* The model on arrays in the order of the tables; it sets open shapes. 0, or what the device
   gave. */
static int project_run(const void *const *in, void *const *out,
                       int64_t (*shapes)[PROJECT_RANK], const unsigned char *blob,
                       unsigned char *arena)
{{
    const struct {called.model}_inputs inputs = {{{_members("in", code.inputs)}}};
    const struct {called.model}_outputs outputs = {{{_members("out", code.outputs)}}};
    (void)shapes;
{run}}}

#endif
"""


def _sizes(code: HostCode, blob: bytes, called: Names) -> str:
    """Writes the C macros for the memory that main.c provides, and for its usage line."""
    ports = [*code.inputs, *code.outputs]
    room = sum(-(-nbytes(port.type) // ALIGN) * ALIGN for port in ports)
    usage = "".join(f" {_word(port.name)}.npy" for port in ports)
    return f"""#define PROJECT_ALIGN {called.macro}_ALIGN
#define PROJECT_OUTSIDE {called.macro}_OUTSIDE
#define PROJECT_UNFIT {called.macro}_UNFIT
#define PROJECT_ARENA_BYTES {called.macro}_ARENA_BYTES
#define PROJECT_BLOB_BYTES {len(blob)}
#define PROJECT_BLOB_SHA256 "{sha256(blob).hexdigest()}"
#define PROJECT_INPUTS {len(code.inputs)}
#define PROJECT_OUTPUTS {len(code.outputs)}
#define PROJECT_RANK {max([1, *(len(shape_of(port.type)) for port in code.outputs)])}
#define PROJECT_PORT_BYTES {room} /* of all inputs and outputs, each aligned */
#define PROJECT_ROOM(bytes) (((bytes) + {ALIGN - 1}) / {ALIGN} * {ALIGN})
#define PROJECT_USAGE "{usage}"
"""


def _blob_of(called: Names, weights: str) -> str:
    """Writes the C lines by which main.c finds the weights."""
    if weights == FILE:
        return f'#define PROJECT_BLOB "{called.blob}"'
    return f'#include "{called.arrays}.h"\n#define PROJECT_BYTES {called.model}_bytes'


def _run(called: Names) -> str:
    return f"    return {called.model}_run(&inputs, &outputs, blob, arena, NULL, NULL);\n"


def _run_with_regions(called: Names) -> str:
    run, name = f"{called.model}_run", called.regions
    return f"""    {name} r;
    int code = {name}_open(&r, blob);
    if (code == 0) code = {run}(&inputs, &outputs, blob, arena, {name}_run, &r);
    {name}_close(&r);
    return code;
"""


def _members(array: str, ports: Sequence[CPort]) -> str:
    members = [f"{array}[{i}]" + (f", shapes[{i}]" * p.is_open) for i, p in enumerate(ports)]
    return ", ".join(members) or f"{array}[0]"


def _flags(ports: Sequence[CPort]) -> str:
    return ", ".join(str(int(port.is_open)) for port in ports) or "0"


def _word(name: str) -> str:
    """Makes a name one word in a C string."""
    return comment([name]).replace('"', "_").replace(" ", "_").replace("%", "_")


def _port_table(table: str, ports: Sequence[CPort]) -> str:
    shapes, rows = "", ""
    for i, port in enumerate(ports):
        shape = shape_of(port.type)
        sizes = ", ".join(map(str, shape)) or "0"
        shapes += f"static const size_t {table}_shape_{i}[] = {{{sizes}}};\n"
        descr = dtype_of(element_type_of(port.type)).newbyteorder("<").str
        rows += (
            f'    {{"{_word(port.name)}", "{descr}", {len(shape)}, {table}_shape_{i}, '
            f"{nbytes(port.type)}}},\n"
        )
    # C has no arrays without elements.
    rows = rows or '    {"", "", 0, NULL, 0},\n'
    return f"{shapes}static const npy_type {table}[] = {{\n{rows}}};\n"

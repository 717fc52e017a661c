"""Collects the regions of an exported project: whose they are, in which files, and under which
names in C.

Each target has a folder of its own for what it brings along, and names that hold its own: five
functions of a device become `device_TARGET_open` and so on, by the `device.h` of that folder, which
those files include; functions in C become `regions_TARGET_0` and so on. Files in different folders
may be called alike, for `#include "…"` looks beside the including file first.

| code | what is wrong |
| --- | --- |
| B351 | a target without a device or functions in C, or with other than it said |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byocir.dialects.byoc import CallOp
from byocir.errors import ByocirError
from byocir.lowering.tir_to_c import HostCode
from byocir.lowering.tir_to_c.source import C_BEGINS, C_ENDS
from byocir.lowering.tir_to_c.step_writer import comment
from byocir.machine import Machine
from byocir.runtime.package import Package
from byocir.runtime.project_build import Names
from byocir.targets.base import Target
from byocir.targets.device import CFunctions, Device, DeviceRegion
from byocir.toolchain.calling import ALIGN
from byocir.vendor.hooks import ask

INTERFACE = "device.h"
_FUNCTIONS = ("open", "load", "run", "wait", "close")
_ARRAYS = "const void *const *inputs, void *const *outputs"


@dataclass(frozen=True)
class Part:
    """Lists the regions of one target: symbols in the order of their first call. `word` is the
    target's name as a part of names in C, `folder` the place of the files that it brings along.
    """

    target: str
    word: str
    folder: str
    symbols: Sequence[str]
    made: Device | CFunctions

    @property
    def has_states(self) -> bool:
        """Tells if it has functions in C, each with a state."""
        return isinstance(self.made, CFunctions) and bool(self.made.data)

    @property
    def stored(self) -> Mapping[str, Sequence[bytes]]:
        """Gives the bytes that the blob holds for the part's regions, by symbol."""
        if isinstance(self.made, CFunctions):
            return {s: (self.made.data[s],) for s in self.symbols if self.made.data}
        return {symbol: (each.code, each.image) for symbol, each in self.regions.items()}

    @property
    def regions(self) -> Mapping[str, DeviceRegion]:
        """Gives the programs for the target's device, by symbol."""
        if isinstance(self.made, CFunctions):
            return {}
        return {symbol: self.made.regions[symbol] for symbol in self.symbols}


def parts_of(package: Package, code: HostCode) -> list[Part]:
    """Collects the part of each target that has regions, in the order of first calls. Raises
    ByocirError B351 for a target that gives nothing for a project, B219 where it fails.
    """
    owner = {region.symbol: region.target for region in package.report.regions}
    symbols: dict[str, list[str]] = {}
    for symbol in _called(code):
        own = symbols.setdefault(owner[symbol], [])
        if symbol not in own:
            own.append(symbol)
    parts: list[Part] = []
    for target, own in symbols.items():
        made = _made(package, target, own)
        word = _word(target, [part.word for part in parts])
        parts.append(Part(target, word, _folder(word, made, parts), own, made))
    return parts


def names_of(parts: Sequence[Part]) -> set[str]:
    """Lists the beginnings of names, of files and in C, that are taken, so that a model cannot have
    them.
    """
    own = {name for p in parts for name in (p.folder, f"device_{p.folder}", f"regions_{p.word}")}
    return own | {file.rpartition(".")[0] for part in parts for file in part.made.files}


def add_programs(blob: bytearray, parts: Sequence[Part]) -> dict[str, Sequence[int]]:
    """Appends the data of regions to the weights: code and image of a program, or the data of a
    function with a state. Gives the offset of each piece, by symbol."""
    offsets: dict[str, Sequence[int]] = {}
    for part in parts:
        for symbol, pieces in part.stored.items():
            starts: list[int] = []
            for data in pieces:
                blob += bytes(-len(blob) % ALIGN)
                starts.append(len(blob))
                blob += data
            offsets[symbol] = starts
    return offsets


def region_files(
    parts: Sequence[Part], code: HostCode, offsets: Mapping[str, Sequence[int]], called: Names
) -> dict[str, bytes]:
    """Makes the files of all regions by path: the model's own, and those that targets bring
    along.
    """
    name = called.regions
    texts = {
        f"{name}.h": _header(parts, called),
        f"{name}.c": _dispatch(parts, code, offsets, called),
    }
    files: dict[str, bytes] = {}
    for part in parts:
        files |= {f"{part.folder}/{file}": data for file, data in part.made.files.items()}
        if isinstance(part.made, CFunctions):
            files[f"{part.folder}/{name}.c"] = _renamed(part, part.made, called)
        else:
            texts[f"{part.folder}/{INTERFACE}"] = _interface(part.folder)
            texts[f"{name}_{part.word}.c"] = _on_device(part, offsets, called)
    return {**files, **{path: text.encode() for path, text in texts.items()}}


# -- what targets give


def _called(code: HostCode) -> Iterator[str]:
    """Yields the symbol of each region that is called."""
    return (c.op.callee.string_value() for c in code.calls if isinstance(c.op, CallOp))


def expect_device(target: Target) -> None:
    """Raises ByocirError B351 for a target whose class has nothing for a project, which is known
    before there is code.
    """
    machine = target.machine
    issues = isinstance(machine, Machine) and machine.issue is not None
    if type(target).device is Target.device and not issues:
        raise _no_device(target)


def _no_device(target: Target) -> ByocirError:
    told = f"expected a target with a device or functions in C, found {target.name}"
    if type(target).device is not Target.device:
        help_ = "`device` of its class gave None: let it give programs and C files, or C functions"
        return ByocirError("B351", told, help=help_)
    machine = target.machine
    wanted = "define `device` in its class: programs and C files, or C functions"
    if isinstance(machine, Machine) and machine.assemble is None:
        own = (each for each in machine.instructions if not each.into.hidden)
        silent = [each.name for each in own if each.encode is None]
        wanted += f"; or declare `issue` of machine {machine.name}"
        wanted += f", and `encode` of {', '.join(silent)}" if silent else ""
    return ByocirError("B351", told, help=wanted)


def _made(package: Package, name: str, symbols: Sequence[str]) -> Device | CFunctions:
    target = package.target(name)
    made: Any = ask(target, "device", package.blobs.get(name, {}))
    if made is None:
        raise _no_device(target)
    if not isinstance(made, Device | CFunctions):
        kind = type(made).__name__
        raise _refused(name, f"a Device or CFunctions from `device`, found {kind}")
    held = made.functions if isinstance(made, CFunctions) else made.regions
    missing = [symbol for symbol in symbols if symbol not in held]
    if isinstance(made, CFunctions) and made.data:
        missing += [symbol for symbol in symbols if symbol not in made.data]
    if missing:
        raise _refused(name, f"each of its regions from `device`, found no {', '.join(missing)}")
    taken = {INTERFACE} if isinstance(made, Device) else set[str]()
    odd = [file for file in made.files if file in taken or not re.fullmatch(r"[\w.+-]+", file)]
    if odd:
        raise _refused(name, f"files of plain names other than {INTERFACE}, found {odd[0]!r}")
    return made


def _refused(target: str, expected: str) -> ByocirError:
    return ByocirError("B351", f"expected of target '{target}' {expected}")


def _word(target: str, taken: Sequence[str]) -> str:
    """Makes a target's name a part of names in C and of a folder's, other than those taken."""
    word = wanted = re.sub(r"[^a-z0-9_]", "_", target.lower())
    while word in taken:
        word = f"{wanted}_{1 + sum(each.startswith(wanted) for each in taken)}"
    return word


def _folder(word: str, made: Device | CFunctions, parts: Sequence[Part]) -> str:
    """Names the folder of a target's files: targets on one kind of device share its files,
    and names."""
    if isinstance(made, Device) and made.files:
        for part in parts:
            if isinstance(part.made, Device) and part.made.files == made.files:
                return part.folder
    return word


# -- files


def _header(parts: Sequence[Part], called: Names) -> str:
    name, guard = called.regions, called.regions.upper()
    devices = [part for part in parts if part.regions]
    members = "".join(
        f"    struct {{\n        device *device;\n        device_region region[{len(p.regions)}];\n"
        f"    }} on_{p.word};\n"
        for p in devices
    )
    members += "".join(
        f"    void *state_{p.word}[{len(p.symbols)}];\n" for p in parts if p.has_states
    )
    members = members or "    int nothing; /* functions in C need no device */\n"
    include = f'#include "{INTERFACE}"\n\n' if devices else ""
    return f"""/* Written by byocir: the model's regions on {", ".join(p.word for p in parts)}. */
#ifndef {guard}_H
#define {guard}_H

#include <stdint.h>

{include}{C_BEGINS}
typedef struct {name} {{
{members}}} {name};

/* Opens all devices and loads all regions from {called.blob}; 0, or what a device gave. */
int {name}_open({name} *r, const unsigned char *blob);

/* What {called.model}_run calls: `context` is a {name}. */
int {name}_run(void *context, int index, const void *const *inputs, void *const *outputs);

void {name}_close({name} *r);

{C_ENDS}
#endif
"""


def _cases(parts: Sequence[Part], code: HostCode, name: str) -> str:
    place = {s: (part, i) for part in parts for i, s in enumerate(part.symbols)}
    return "".join(
        f"    case {index}: return {_call(*place[symbol], name)};\n"
        for index, symbol in enumerate(_called(code))
    )


def _dispatch(
    parts: Sequence[Part], code: HostCode, offsets: Mapping[str, Sequence[int]], called: Names
) -> str:
    """Writes the C function that hands each call to its target."""
    name = called.regions
    opened = [part for part in parts if part.regions or part.has_states]
    declared = "".join(_declared(part, called) for part in parts)
    states = "".join(_states(part, offsets, name) for part in opened if part.has_states)
    unset = "".join(f"    {_unset(part)}\n" for part in opened)
    opens = "".join(
        f"    if (code == 0) code = {name}_{part.word}_open(r, blob);\n" for part in opened
    )
    closed = "".join(f"    {name}_{part.word}_close(r);\n" for part in opened)
    cases = _cases(parts, code, name)
    context = f"    {name} *const r = context;\n" if opened else "    (void)context;\n"
    return f"""/* Written by byocir. */
#include "{name}.h"

#include <stddef.h>

{declared}{states}
int {name}_open({name} *r, const unsigned char *blob)
{{
    int code = 0;
    (void)r, (void)blob;
{unset}{opens}    return code;
}}

int {name}_run(void *context, int index, {_ARRAYS})
{{
{context}    switch (index) {{
{cases}    default: return 1;
    }}
}}

void {name}_close({name} *r)
{{
    (void)r;
{closed}}}
"""


def _unset(part: Part) -> str:
    if not part.has_states:
        return f"r->on_{part.word}.device = NULL;"
    count = len(part.symbols)
    return f"for (int i = 0; i < {count}; i++) r->state_{part.word}[i] = NULL;"


def _states(part: Part, offsets: Mapping[str, Sequence[int]], name: str) -> str:
    """Writes the functions that open and close the states of a target's functions."""
    target, count = f"{name}_{part.word}", len(part.symbols)
    state = f"r->state_{part.word}"
    opened = "".join(
        f"    if (code == 0) code = {target}_{i}_open(&{state}[{i}], blob + {offsets[s][0]});\n"
        for i, s in enumerate(part.symbols)
    )
    closed = "".join(
        f"    if ({state}[{i}] != NULL) {target}_{i}_close({state}[{i}]);\n" for i in range(count)
    )
    return f"""
static int {target}_open({name} *r, const unsigned char *blob)
{{
    int code = 0;
{opened}    return code;
}}

static void {target}_close({name} *r)
{{
{closed}    {_unset(part)}
}}
"""


def _declared(part: Part, called: Names) -> str:
    name = f"{called.regions}_{part.word}"
    if isinstance(part.made, CFunctions):
        return "".join(_function(f"{name}_{i}", part) for i in range(len(part.symbols)))
    return (
        f"int {name}_open({called.regions} *r, const unsigned char *blob);\n"
        f"int {name}_run({called.regions} *r, int index, {_ARRAYS});\n"
        f"void {name}_close({called.regions} *r);\n"
    )


def _function(name: str, part: Part) -> str:
    """Writes the declarations of a function, and of those of its state."""
    if not part.has_states:
        return f"int {name}({_ARRAYS});\n"
    return (
        f"int {name}_open(void **state, const void *data);\n"
        f"int {name}(void *state, {_ARRAYS});\n"
        f"void {name}_close(void *state);\n"
    )


def _call(part: Part, index: int, name: str) -> str:
    if isinstance(part.made, CFunctions):
        state = f"r->state_{part.word}[{index}], " if part.has_states else ""
        return f"{name}_{part.word}_{index}({state}inputs, outputs)"
    return f"{name}_{part.word}_run(r, {index}, inputs, outputs)"


def _renamed(part: Part, made: CFunctions, called: Names) -> bytes:
    """Rewrites the C of a target's functions with names that no other target and no model has."""
    endings = ("", "_open", "_close") if made.data else ("",)
    lines = "".join(
        f"#define {made.functions[symbol]}{ending} {called.regions}_{part.word}_{i}{ending}\n"
        for i, symbol in enumerate(part.symbols)
        for ending in endings
    )
    head = f"/* Names in this program, given by byocir; the rest is {part.word}'s. */\n{lines}"
    return head.encode() + b"#line 1\n" + made.source


def _interface(folder: str) -> str:
    """Writes the `device.h` of a target's folder."""
    guard = f"DEVICE_{folder.upper()}_H"
    names = "".join(f"#define device_{f} device_{folder}_{f}\n" for f in _FUNCTIONS)
    return f"""/* Written by byocir: {INTERFACE} under names of this device. */
#ifndef {guard}
#define {guard}

{names}
#include "../{INTERFACE}"

#endif
"""


def _on_device(part: Part, offsets: Mapping[str, Sequence[int]], called: Names) -> str:
    name, device = f"{called.regions}_{part.word}", f"r->on_{part.word}.device"
    tables = "".join(_tables(i, region) for i, region in enumerate(part.regions.values()))
    loads = "".join(
        _load(i, symbol, part, offsets[symbol]) for i, symbol in enumerate(part.symbols)
    )
    return f"""/* Written by byocir: the model's regions on {part.word}. */
#include "{part.folder}/{INTERFACE}"

#include "{called.regions}.h"

{tables}int {name}_open({called.regions} *r, const unsigned char *blob)
{{
    int code = 0;
    {device} = device_open();
    if ({device} == NULL) return 1;
{loads}    return 0;
}}

int {name}_run({called.regions} *r, int index, {_ARRAYS})
{{
    const int code = device_run({device}, index, inputs);
    return code != 0 ? code : device_wait({device}, index, outputs);
}}

void {name}_close({called.regions} *r)
{{
    if ({device} != NULL) device_close({device});
    {device} = NULL;
}}
"""


def _tables(index: int, region: DeviceRegion) -> str:
    lines: list[str] = []
    for name, ports in (("inputs", region.inputs), ("outputs", region.outputs)):
        rows = ", ".join(f"{{{address}u, {nbytes}u}}" for address, nbytes in ports)
        lines.append(f"static const device_port {name}_{index}[] = {{{rows or '{0, 0}'}}};\n")
    numbers = ", ".join(f"{number}u" for number in region.config) or "0"
    lines.append(f"static const uint32_t config_{index}[] = {{{numbers}}};\n\n")
    return "".join(lines)


def _load(index: int, symbol: str, part: Part, offsets: Sequence[int]) -> str:
    region, (code, image) = part.regions[symbol], offsets
    place = f"r->on_{part.word}.region[{index}]"
    return f"""    {place} = (device_region){{
        "{comment([symbol])}", blob + {code}, {len(region.code)}u, blob + {image},
        {len(region.image)}u, {region.memory_bytes}u, config_{index}, {len(region.config)}u,
        inputs_{index}, outputs_{index}, {len(region.inputs)}u, {len(region.outputs)}u}};
    code = device_load(r->on_{part.word}.device, {index}, &{place});
    if (code != 0) return code;
"""

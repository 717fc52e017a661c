"""Writes the references from the classes and functions that they are of.

    python docs/reference.py     # rewrites, in place, what stands between the marks of each page

What is said is said in docstrings: of classes, of methods and below fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import MISSING, Field, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from byocir import machine
from byocir.cli.ops import DIALECTS, describe_op, wrapped
from byocir.dialects.docstrings import fields_of, fields_of_module
from byocir.frontend.onnx.table import TABLE
from byocir.patterns import policy
from byocir.patterns.policy import Quantisation, RegionPolicy
from byocir.targets import base as targets
from byocir.targets.base import Profile, Target
from byocir.targets.c import CTarget
from byocir.targets.device import CFunctions, Device, DeviceRegion
from byocir.targets.json import JsonTarget
from byocir.targets.loader import Loader
from byocir.targets.onnx import OnnxTarget

DOCS = Path(__file__).parent
PAGES = tuple(DOCS / f"{name}.md" for name in ("ops", "targets-reference", "machine-reference"))
MARKED = re.compile(
    r"(?<=<!-- reference: )(?P<name>\w+) -->\n.*?(?=<!-- end of reference -->)", re.DOTALL
)

DECLARED = (
    "name",
    "patterns",
    "instructions",
    "dialects",
    "operators",
    "codegen_level",
    "machine",
    "constants",
    "signed_bytes",
    "unsigned_bytes",
    "channels_last",
    "reassociates",
    "rounds_operands",
    "channel_multiple",
    "split_groups",
    "gathers_windows",
    "non_finite",
    "tolerance",
    "tables",
)
BEFORE = ("quantisation", "candidates", "settings", "varied", "resources", "read_files")
"""The hooks that no compilation calls, but `byocir quantise`, `byocir tune` and `byocir sweep`, and
that of the class, which is called before there is an instance."""
CALLED = (
    "fixed_point",
    "passes",
    "composites",
    "refusal",
    "cost",
    "region_policy",
    "transform",
    "lower",
    "schedule",
    "knobs",
    "emit",
    "profile",
    "load",
    "load_checked",
    "device",
)
"""The hooks of a target in the order in which a compilation, a run, a run with checks and an export
call each for the first time; a test calls them."""

ADDED: dict[type, Sequence[str]] = {
    CTarget: ("library", "preamble", "define", "instruction"),
    JsonTarget: ("kernels",),
    OnnxTarget: ("suffix", "build", "open"),
    Loader: (),
}
"""The base classes for kinds of code and what a target declares or defines for each."""


def render(page: str) -> str:
    """The page with what its marks ask for, as it is now."""
    return MARKED.sub(lambda found: f"{found['name']} -->\n{SECTIONS[found['name']]()}\n", page)


def ops() -> Iterator[str]:
    """All ops, by dialect."""
    for name, (dialect, told) in DIALECTS.items():
        yield f"## {name}"
        yield told
        if name == "graph":
            yield wrapped(
                f"Operators of ONNX that become several ops, others or constants: {others()}."
            )
        yield from (describe_op(op.name, "###") for op in dialect.operations)


def others() -> str:
    """The operators that are read as ops which have another operator, or none, of their own."""
    return ", ".join(sorted(entry.onnx for entry in TABLE if entry.onnx and entry.op is None))


def declarations() -> Iterator[str]:
    """The fields of a target's class, and what follows from them."""
    for name in DECLARED:
        yield from section_of(Target, name)


def hooks() -> Iterator[str]:
    """The methods and properties that byocir calls."""
    for name in (*BEFORE, *CALLED):
        yield from member_section(Target, name)


def bases() -> Iterator[str]:
    """The base classes for kinds of code, with what they add."""
    for kind, names in ADDED.items():
        yield f"### {kind.__name__}"
        yield f"`from {kind.__module__.removesuffix('.target')} import {kind.__name__}`"
        yield wrapped(inspect.getdoc(kind) or "")
        for name in names:
            owner = next(k for k in kind.__mro__ if name in vars(k) or name in declared(k))
            yield from section_of(owner, name, "####")


def section_of(kind: type, name: str, *heading: str) -> Iterator[str]:
    """The section of a field, method or property that a class itself has."""
    section = field_section if name in declared(kind) else member_section
    yield from section(kind, name, *heading)


def declared(kind: type) -> Container[str]:
    """The names of the fields that a class itself declares."""
    return vars(kind).get("__annotations__", {})


def values() -> Iterator[str]:
    """What hooks take and give."""
    for name, module in (("Point", targets), ("ConstantPolicy", policy)):
        yield from name_section(module, name)
    for kind in (RegionPolicy, Quantisation, Profile, CFunctions, Device, DeviceRegion):
        yield from class_section(kind)


def machines() -> Iterator[str]:
    """All that `byocir.machine` declares, the machine first."""
    for name in sorted(machine.__all__, key=lambda name: (name != "Machine", name.lower())):
        each = getattr(machine, name)
        if isinstance(each, type):
            yield from class_section(each)
            yield from members(each)
        elif inspect.isfunction(each):
            yield from function_section(each)
        else:
            yield from name_section(machine.parts, name)


def name_section(module: ModuleType, name: str) -> Iterator[str]:
    """A name that a module defines, but a function or a class."""
    value = re.sub(r"\b(?:typing|byocir(?:\.\w+)*)\.", "", str(getattr(module, name)))
    yield f"### {name}"
    yield f"```py\n{name} = {value}\n```"
    yield wrapped(fields_of_module(module)[name])


def class_section(kind: type) -> Iterator[str]:
    """A class: its words and its fields."""
    yield f"### {kind.__name__}"
    yield wrapped(inspect.getdoc(kind) or "")
    rows = [field_row(kind, each) for each in fields(kind) if not each.name.startswith("_")]
    if rows:
        yield "\n".join(["| field | type | default | |", "| --- " * 4 + "|", *rows])


def members(kind: type) -> Iterator[str]:
    """The public methods and properties of a class, in the order in which they are defined."""
    for name, member in vars(kind).items():
        is_member = isinstance(member, property | cached_property) or inspect.isfunction(member)
        if is_member and not name.startswith("_") and member.__doc__:
            yield from member_section(kind, name, "####")


def field_row(kind: type, field: Field[Any]) -> str:
    """A field of a dataclass, as a row."""
    default = "" if field.default is MISSING else f"`{field.default!r}`"
    if field.default_factory is not MISSING:
        made = field.default_factory()
        default = f"`{made!r}`" if made else "empty"
    told = fields_of(kind).get(field.name, "")
    cells = [f"`{field.name}`", f"`{field.type}`", default, told]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def field_section(kind: type, name: str, level: str = "###") -> Iterator[str]:
    """A field of a class that is no option, with its type and default."""
    default = f" = {shown(vars(kind)[name])}" if name in vars(kind) else ""
    yield f"{level} {name}"
    yield f"```py\n{name}: {kind.__annotations__[name]}{default}\n```"
    yield wrapped(fields_of(kind)[name])


def shown(value: object) -> str:
    """A default in short."""
    return "{…}" if isinstance(value, dict) and value else repr(value)


def member_section(kind: type, name: str, level: str = "###") -> Iterator[str]:
    """A method, or a property, with its types and words."""
    member: Any = inspect.getattr_static(kind, name)
    function = getattr(member, "fget", None) or getattr(member, "func", None)
    method = getattr(member, "__func__", member)  # of a class
    yield from function_section(function or method, level, is_property=function is not None)


def function_section(
    function: Callable[..., Any], level: str = "###", *, is_property: bool = False
) -> Iterator[str]:
    """A function with its types and words."""
    yield f"{level} {function.__name__}"
    yield f"```py\n{typed(function, is_property=is_property)}\n```"
    yield wrapped(inspect.getdoc(function) or "")


def typed(function: Callable[..., Any], *, is_property: bool) -> str:
    """The head of a function, without what a method is called on."""
    signature = inspect.signature(function)
    if is_property:
        return f"{function.__name__}: {signature.return_annotation}"
    own = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    text = f"{function.__name__}{signature.replace(parameters=own)}".replace("'", "")
    if len(text) <= 96:
        return text
    keywords = next((i for i, p in enumerate(own) if p.kind is p.KEYWORD_ONLY), len(own))
    given = [str(p).replace("'", "") for p in own]
    if keywords < len(own):
        given.insert(keywords, "*")
    lines = ",\n    ".join(given)
    return f"{function.__name__}(\n    {lines},\n) -> {signature.return_annotation}"


SECTIONS: dict[str, Callable[[], str]] = {
    each.__name__: lambda each=each: "\n\n".join(each())
    for each in (ops, declarations, hooks, bases, values, machines)
}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(render(page.read_text()))

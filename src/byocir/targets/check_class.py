"""Checks the class of a target before it is used: its name, options, composites, dialects and
operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.ir import Dialect

from byocir.dialects.byoc import FOLDED, HOST, LEVELS
from byocir.dialects.context import BASE_DIALECTS, OWN_DIALECTS
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns import Composite
from byocir.patterns.mistakes import check_distinct
from byocir.patterns.policy import CONSTANT_POLICIES
from byocir.targets.base import Target
from byocir.vendor.blame import place_in_class

SPELT_ALIKE = 0.88
"""The least likeness, of 1, of names that are taken for one: machin and machine have 0.92."""


def _wrong(target: type[Target], name: str, told: str, help: str) -> ByocirError:
    """Makes the error B216 that says what a class has in place of what is expected, with the line
    at which it gives this name its value.
    """
    return ByocirError("B216", f"expected {told}", where=place_in_class(target, name), help=help)


def check_target(target: type[Target]) -> None:
    """Refuses classes that lack what every target has; raises ByocirError B216, and B208 for two
    composites of one name.
    """
    name = getattr(target, "name", None)
    if name in (HOST, FOLDED):
        raise _wrong(
            target,
            "name",
            f"class {target.__name__} to have a name of its own, found '{name}'",
            "in reports and placements this name stands for what no target takes"
            if name == HOST
            else "in reports this name stands for what is computed when a model is imported",
        )
    if not isinstance(name, str) or not name.isidentifier():
        told = f"class {target.__name__} to have a name like 'npu', found {name!r}"
        raise _wrong(target, "name", told, 'write name = "npu" in the class')
    for attribute, allowed in (("codegen_level", LEVELS), ("constants", CONSTANT_POLICIES)):
        value = getattr(target, attribute)
        if value not in allowed:
            told = f"{attribute} of target '{name}' among {', '.join(allowed)}, found {value!r}"
            raise _wrong(target, attribute, told, did_you_mean(str(value), list(allowed)))
    _check_options(target)
    _check_spelling(target)
    _check_words(target)
    for attribute in ("patterns", "instructions"):
        listed = _composites(target, attribute)
        check_distinct([pattern.of_target(name).name for pattern in listed], name)


def _check_spelling(target: type[Target]) -> None:
    """Raises ByocirError B216 for an attribute, other than an option or a method, that all but has
    the name of one that targets have, which it would not set.
    """
    from difflib import get_close_matches  # which takes a while to import

    known = [name for name in dir(Target) if not name.startswith("_")]
    for kind in target.__mro__[: target.__mro__.index(Target)]:
        options = vars(kind).get("__annotations__", {})
        for name, value in vars(kind).items():
            if name.startswith("_") or name in known or name in options or callable(value):
                continue
            meant = get_close_matches(name, known, n=1, cutoff=SPELT_ALIKE)
            if meant and meant[0] not in vars(kind):
                told = f"attributes of target '{target.name}' that targets have, found '{name}'"
                help = f"did you mean '{meant[0]}'? Write _{name} for one of your own"
                raise _wrong(kind, name, told, help)


def _check_words(target: type[Target]) -> None:
    """Raises ByocirError B216 for dialects that are none or have the name of one of byocir's, and
    for operators that are no entries or belong to ONNX.
    """
    _check_listed(target, "dialects", target.dialects, Dialect, "xdsl.ir.Dialect")
    for dialect in target.dialects:
        if dialect.name in (*OWN_DIALECTS, *BASE_DIALECTS):
            told = f"dialects of target '{target.name}' with names of their own, found "
            help = f"byocir has one of that name; call it '{target.name}'"
            raise _wrong(target, "dialects", f"{told}'{dialect.name}'", help)
    if not target.operators:
        return
    from byocir.frontend.onnx.entry import Entry

    made_by = "regular('com.foo.Magic', MagicOp)"
    _check_listed(target, "operators", target.operators, Entry, made_by)
    for entry in target.operators:
        if "." not in entry.onnx or entry.onnx.startswith("ai.onnx"):
            told = f"operators of target '{target.name}' with a domain of their own, found "
            raise _wrong(target, "operators", f"{told}'{entry.onnx}'", f"write {made_by}")


def _check_listed(
    target: type[Target], attribute: str, found: object, kind: type, made_by: str
) -> None:
    listed = cast("Sequence[object]", found) if isinstance(found, (list, tuple)) else [found]
    others = [each for each in listed if not isinstance(each, kind)]
    if others or not isinstance(found, (list, tuple)):
        seen = type((others or [found])[0]).__name__
        told = f"{attribute} of target '{target.name}' to be a tuple of {kind.__name__}"
        raise _wrong(target, attribute, f"{told}, found {seen}", f"each is {made_by}")


def _composites(target: type[Target], attribute: str) -> Sequence[Composite]:
    """Lists the composites in an attribute of a class; raises ByocirError B216 for other things."""
    found: Any = getattr(target, attribute)
    help_ = f"write {attribute} = (conv,), or leave it out"
    seen = type(found).__name__
    if isinstance(found, (list, tuple)):
        listed = cast("Sequence[object]", found)
        others = [each for each in listed if not isinstance(each, Composite)]
        if not others:
            return cast("Sequence[Composite]", listed)
        seen = type(others[0]).__name__
        help_ = 'decorate the pattern\'s function with @composite("name")'
    elif isinstance(found, Composite):
        seen, help_ = "one alone", f"write a comma after it: {attribute} = (conv,)"
    told = f"{attribute} of target '{target.name}' to be composites, found {seen}"
    raise _wrong(target, attribute, told, help_)


def _check_options(target: type[Target]) -> None:
    """Raises ByocirError B216 for a class that declares options but is no dataclass, so that they
    have no effect.
    """
    for kind in target.__mro__[: target.__mro__.index(Target)]:
        if "__dataclass_fields__" in vars(kind) or not issubclass(kind, Target):
            continue
        annotations: Mapping[str, object] = vars(kind).get("__annotations__", {})
        for option, type_ in annotations.items():
            if "ClassVar" not in str(type_) and option != "name" and not hasattr(Target, option):
                told = f"class {kind.__name__} to be a dataclass, as it has the option {option}"
                help = "write @dataclass(frozen=True) above the class"
                raise _wrong(kind, "", f"{told}, found none", help)

"""Converts targets between attributes of modules, text, and instances with their options.

Passes find a target, and its patterns, here by the `#byoc.target` that the module carries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, ParseError, VerifyException

from byocir.dialects.byoc import OBJECTIVE, TARGETS, TargetAttr
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns.composite import Composite
from byocir.patterns.match import python_value
from byocir.patterns.mistakes import check_distinct
from byocir.patterns.target_classes import (
    TargetProtocol,
    find_class,
    names,
    unknown_target,
)
from byocir.vendor.hooks import ask, expect_given, mistakes_of
from byocir.vendor.user_code import IN_A_FILE

OBJECTIVES = ("latency", "energy", "bytes")
"""The costs on which targets compete: seconds, joules, bytes."""


def instantiate(spec: ArgSpec) -> TargetProtocol:
    """Makes an instance of a target with these options; raises ByocirError B210 (name) or B213
    (options).
    """
    kind = find_class(spec.name)
    known = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    for option in spec.parameters:
        if option.replace("-", "_") not in known:
            raise ByocirError(
                "B213",
                f"expected an option of target '{spec.name}', found '{option}'",
                help=did_you_mean(option, known),
            )
    check = getattr(kind, "__post_init__", None)
    with mistakes_of(spec.name, cast("type[Any]", kind), "its options", check):
        try:
            return kind.from_spec(_with_floats(kind, spec))
        except ValueError as error:
            raise ByocirError(
                "B213",
                _wrong_option(kind, spec) or f"target '{spec.name}': {error}",
                help="`byocir targets` lists the options of every target",
            ) from error


def _with_floats(kind: type[Any], spec: ArgSpec) -> ArgSpec:
    """Converts whole numbers to floats in options whose type is float."""
    types = _types_of(kind) if spec.parameters else {}

    def read(option: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        wanted = types.get(option.replace("-", "_"))
        kinds = {wanted, *get_args(wanted)}
        if float not in kinds or int in kinds:
            return values
        return tuple(float(value) if type(value) is int else value for value in values)

    return ArgSpec(spec.name, {name: read(name, v) for name, v in spec.parameters.items()})


@lru_cache(maxsize=64)
def _types_of(kind: type[Any]) -> dict[str, Any]:
    """Reads the types of a target's options, which takes longer than to make one."""
    return get_type_hints(kind)


def _wrong_option(kind: type[TargetProtocol], spec: ArgSpec) -> str:
    """Words the message about an option whose value has another type; empty if none has."""
    types = _types_of(kind)
    for option, values in spec.parameters.items():
        expected = types.get(option.replace("-", "_"))
        if expected is None:
            continue
        try:
            kind.from_spec(ArgSpec(spec.name, {option: values}))
        except ValueError as error:
            if str(error).startswith("Incompatible types"):
                found = ", ".join(map(str, values)) or "nothing"
                words = get_args(expected) if get_origin(expected) is Literal else ()
                known = ", ".join(word or "''" for word in words)
                shown = known or getattr(expected, "__name__", str(expected))
                return f"expected option {option} of target '{spec.name}' as {shown}, found {found}"
    return ""


def find(attribute: TargetAttr) -> TargetProtocol:
    """Gives an instance of the target that an attribute of a module names, with its options. Raises
    ByocirError B210 for a target that is not installed, as one from a file is not.
    """
    name = attribute.target_name.data
    if name not in names():
        near = did_you_mean(name, names())
        typo = f"{near}; " if near.startswith("did") else ""
        raise unknown_target(
            name, f"{typo}the module names it: one that was in a file is {IN_A_FILE}"
        )
    kind = find_class(name)
    # One that cannot change may be one object for all that ask.
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    return _found(kind, attribute) if frozen else _made(attribute)


@lru_cache(maxsize=256)
def _found(kind: type[TargetProtocol], attribute: TargetAttr) -> TargetProtocol:
    return _made(attribute)


def _made(attribute: TargetAttr) -> TargetProtocol:
    return instantiate(ArgSpec(attribute.target_name.data, _options_of(attribute)))


def _options_of(attribute: TargetAttr) -> dict[str, tuple[Any, ...]]:
    return {name: _values(value) for name, value in attribute.options.data.items()}


def machine_name(attribute: TargetAttr) -> str:
    """Gives the name of the machine that the target of an attribute describes; empty where the
    target is not known, or describes none.
    """
    name = attribute.target_name.data
    machine: Any = find(attribute).machine if name in names() else ""
    return machine if isinstance(machine, str) else machine.name


def composites_of(attribute: TargetAttr) -> tuple[Composite, ...]:
    """Gives the composites of the target that an attribute names, in order of priority. Raises
    ByocirError B208 for two of one name."""
    return _given(attribute, "composites")


def instructions_of(attribute: TargetAttr) -> tuple[Composite, ...]:
    """Gives the instructions of the target that an attribute names, as patterns. Raises ByocirError
    B208 for two of one name."""
    return _given(attribute, "instructions")


def _given(attribute: TargetAttr, hook: str) -> tuple[Composite, ...]:
    name = attribute.target_name.data
    target = find(attribute)
    given: Any = ask(target, hook)
    listed = cast("list[Any]", [*given] if isinstance(given, (list, tuple)) else [given])
    for each in listed:
        expect_given(target, hook, isinstance(each, Composite), "composites", each)
    found = tuple(composite.of_target(name) for composite in listed)
    check_distinct([composite.name for composite in found], name)
    return found


def attr_of(target: TargetProtocol) -> TargetAttr:
    """Gives the attribute that names a target, with every option written out. Raises ByocirError
    B213 for an option whose value no module can carry."""
    spec = _with_floats(type(target), target.spec(include_default=True))
    options: dict[str, Attribute] = {}
    for name, values in spec.parameters.items():
        given: Any = values
        try:
            options[name] = _option(given)
        except (TypeError, VerifyException) as error:
            raise ByocirError(
                "B213",
                f"expected option {name} of target '{spec.name}' to be a boolean, a string, a "
                f"number of at most 64 bits or a tuple of these, found {getattr(target, name)!r}",
            ) from error
    return TargetAttr.of(spec.name, options)


def saved_target(name: str, options: Mapping[str, Any]) -> TargetAttr:
    """Gives the attribute of a target that was written as plain data, with lists for several
    values. Raises ValueError for an option whose value no module can carry."""
    try:
        return TargetAttr.of(
            name, {k: _option(v if isinstance(v, list) else [v]) for k, v in options.items()}
        )
    except (TypeError, VerifyException) as error:
        raise ValueError(f"expected options of target {name!r}, found {error}") from error


_OF_FILES = re.compile(r"(=\s*)(?![-+]?[0-9]+\.[0-9]*(?:[\s,}]|$))([\w~-]*[./\\][^\s,{}\"]*)")
"""An option's value that is the name of a file and not quoted."""


def parse_targets(text: str, saved: Sequence[TargetAttr] = ()) -> list[TargetAttr]:
    """Parses targets as the command line gives them, e.g. `vta{rounding=half_even},npu`. Options
    that the text does not give are those of `saved`, else the target's defaults. Files that options
    name are read here: a module's options name none.
    """
    try:
        specs = list(parse_pipeline(_OF_FILES.sub(r'\g<1>"\g<2>"', text)))
    except (ParseError, ArgSpecParseError, ValueError) as error:  # ValueError: many digits
        raise ByocirError(
            "B213",
            f"expected targets as name{{option=value …}},name…, found '{text}'",
            help=f"{_choose()}, or give a file: path/to/npu.py:Npu",
        ) from error
    if not specs:
        raise ByocirError("B213", "expected a target, found none", help=_choose())
    kept = {attribute.target_name.data: _options_of(attribute) for attribute in saved}
    read = [read_files(spec) for spec in specs]
    return [attr_of(instantiate(_completed(spec, kept.get(spec.name, {})))) for spec in read]


def read_files(spec: ArgSpec) -> ArgSpec:
    """Replaces, in options that a user gives, names of files by what the files hold."""
    kind = find_class(spec.name)
    with mistakes_of(spec.name, cast("type[Any]", kind), "read_files", kind.read_files):
        return kind.read_files(spec)


def _completed(spec: ArgSpec, options: Mapping[str, tuple[Any, ...]]) -> ArgSpec:
    """Gives the options of a spec, and of `options` those that the spec leaves out."""
    given = {name.replace("-", "_") for name in spec.parameters}
    more = {name: v for name, v in options.items() if name.replace("-", "_") not in given}
    return ArgSpec(spec.name, {**more, **spec.parameters})


def _choose() -> str:
    return f"choose from {', '.join(names())}"


def targets_of(module: ModuleOp) -> list[TargetAttr]:
    """Gives the module's targets in order of preference; raises ByocirError B211 when it names
    none.
    """
    attribute = module.attributes.get(TARGETS)
    if not isinstance(attribute, ArrayAttr):
        raise ByocirError(
            "B211",
            "the module names no targets",
            help="run set-targets{targets=…} first",
        )
    targets = cast(ArrayAttr[Attribute], attribute)
    return [target for target in targets if isinstance(target, TargetAttr)]


def objective_of(module: ModuleOp) -> str:
    """Reads the objective that targets compete on from a module, empty if there is none; raises
    ByocirError B246 for an unknown one.
    """
    attribute = module.attributes.get(OBJECTIVE)
    objective = attribute.data if isinstance(attribute, StringAttr) else ""
    if objective not in ("", *OBJECTIVES):
        raise ByocirError(
            "B246", f"expected objective {', '.join(OBJECTIVES)} or none, found '{objective}'"
        )
    return objective


def _option(values: Any) -> Attribute:
    """Converts the values of an option to an attribute. Raises TypeError or VerifyException for
    values that no module can carry.
    """
    if not isinstance(values, (tuple, list)):
        raise TypeError(type(values).__name__)
    values = cast("Sequence[Any]", values)
    if len(values) == 1:
        return _scalar(values[0])
    return ArrayAttr([_scalar(value) for value in values])


def _scalar(value: Any) -> Attribute:
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    raise TypeError(type(value).__name__)


def _values(attribute: Attribute) -> tuple[Any, ...]:
    if isinstance(attribute, ArrayAttr):
        members = cast(ArrayAttr[Attribute], attribute)
        return tuple(value for member in members for value in _values(member))
    return (python_value(attribute),)

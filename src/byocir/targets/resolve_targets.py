"""Resolves targets in the form in which a caller gives them (names with options, files or
instances) to attributes.

Code is imported from a path, `path/to/npu.py:Npu{option=value}`, only when the user gives it in
this call, never because a model, a module or a package names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xdsl.utils.arg_spec import ArgSpec

from byocir.arguments import shown
from byocir.dialects.byoc import TargetAttr
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns.match import python_value
from byocir.patterns.target_classes import find_class, register
from byocir.patterns.targets import attr_of, parse_targets, read_files
from byocir.targets.base import Target, target_of
from byocir.targets.check_class import check_target
from byocir.targets.loader import KEEPS
from byocir.vendor.user_code import import_file, imported_from

if TYPE_CHECKING:
    from byocir.frontend.onnx.entry import Entry


Targets = str | Path | Target | Sequence[str | Path | Target]
"""Names with options, files (`npu.py:Npu`) or instances, in order of preference."""

HOW_TO_WRITE_ONE = (
    "write a class in it that derives from byocir.Target, with a name and patterns; `byocir "
    "new-target NAME` writes one to begin with"
)
_GIVEN = re.compile(
    r"(?P<path>[^{}:]*(?:\.py|/))(?::(?P<name>\w+))?(?P<options>\{.*\})?", re.DOTALL
)


def named_target(text: str) -> str:
    """Gives a target's name with options, in the form that `parse_targets` reads. If it names a
    file, the file is imported and its target registered. Raises ByocirError B217.
    """
    given = _GIVEN.fullmatch(text.strip())
    if given is None:
        return text
    target = load_target(Path(given["path"]), given["name"])
    return target.name + (given["options"] or "")


def load_target(path: Path, name: str | None = None) -> type[Target]:
    """Loads the target class `name` of a Python file or of a folder with an `__init__.py`, and
    registers it; without a name, the only class there. Raises ByocirError B217.
    """
    module = import_file(path, "B217")
    found = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Target) and imported_from(value, module)
    }
    if name is None and len(found) == 1:
        (name,) = found
    if name is None or name not in found:
        expected = "one byocir.Target" if name is None else f"a byocir.Target named {name}"
        help = f"write {path}:NAME" if name is None else did_you_mean(name, list(found))
        raise ByocirError(
            "B217",
            f"expected {expected}, found {', '.join(found) or 'none'}",
            where=str(path),
            help=help if found else HOW_TO_WRITE_ONE,
        )
    target = found[name]
    check_target(target)
    register(target.name, target)
    return target


def attributes_of(targets: Targets) -> list[TargetAttr]:
    """Lists the attributes of targets in order; raises ByocirError B210, B213, B216 or B217."""
    attributes = [attribute for target in listed(targets) for attribute in _attributes_of(target)]
    names = [attribute.target_name.data for attribute in attributes]
    for name in names:
        if names.count(name) > 1:
            raise ByocirError("B213", f"expected each target once, found {name} twice")
    return attributes


def the_target(target: str | Target, code: str = "B216") -> Target:
    """Resolves the one target that is given; raises ByocirError of this code for several."""
    attributes = attributes_of(target)
    if len(attributes) != 1:
        raise ByocirError(code, f"expected one target, found {len(attributes)}")
    return target_of(attributes[0])


def listed(targets: object) -> list[str | Target]:
    """Lists targets one by one; raises ByocirError B216 for what is none."""
    single = isinstance(targets, str | type | Path)
    try:
        found = [targets] if single else list(cast("Iterable[object]", targets))
    except TypeError:  # `targets` is not iterable
        found = [targets]
    found = [str(each) if isinstance(each, Path) else each for each in found]
    for target in found:
        if not isinstance(target, str | Target):
            name = getattr(target, "__name__", "")
            is_target = isinstance(target, type) and issubclass(target, Target)
            raise ByocirError(
                "B216",
                f"expected a target's name or an instance of byocir.Target, found {shown(target)}",
                help=f"write {name}()" if is_target else "",
            )
    return cast("list[str | Target]", found)


def _attributes_of(target: str | Target) -> list[TargetAttr]:
    if isinstance(target, str):
        return parse_targets(named_target(target))
    check_target(type(target))
    register(target.name, type(target))
    return [attr_of(target)]


def of_saved(targets: Targets | None, saved: Sequence[TargetAttr]) -> Targets:
    """Resolves targets for a module that names those in `saved`. One given by name without options
    keeps the module's options. If none are given, they are the module's own, or VTA if it has none.
    Raises the errors of `attributes_of`.
    """
    if targets is None:
        return [target_of(attribute) for attribute in saved] or "vta"
    kept: list[Any] = []
    for each in listed(targets):
        names = parse_targets(named_target(each), saved) if isinstance(each, str) else ()
        kept += [target_of(name) for name in names] if isinstance(each, str) else [each]
    return kept


def notes_on_options(targets: Sequence[TargetAttr], saved: Sequence[TargetAttr]) -> list[str]:
    """Words the notes for targets given for a module that names those in `saved`: options that
    differ from the module's, and those of the module that differ from the defaults.
    """
    before = {attribute.target_name.data: attribute for attribute in saved}
    notes: list[str] = []
    for attribute in targets:
        name = attribute.target_name.data
        own = before.get(name)
        if own is None:
            continue
        if own != attribute:
            now, then = _differing(attribute, own)
            notes.append(f"target {name} has {now} as given; the module was saved with {then}")
        elif own != (default := parse_targets(name)[0]):
            notes.append(f"target {name} keeps {_differing(own, default)[0]}, as the module says")
    return notes


def _differing(one: TargetAttr, other: TargetAttr) -> tuple[str, str]:
    """Words, for two attributes of one target, the options in which they differ: the first's values
    and the second's.
    """
    # By value: an attribute of letters beyond ASCII reads back as one of another kind.
    both = [{n: python_value(v) for n, v in each.options.data.items()} for each in (one, other)]
    names = [n for n in sorted({*both[0], *both[1]}) if both[0].get(n) != both[1].get(n)]
    first, second = (", ".join(f"{n}={_text(v[n])}" for n in names if n in v) for v in both)
    return first or "none", second or "none"


def _text(value: Any) -> str:
    values = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return ",".join(map(str, values))


def with_options(targets: Targets, options: Mapping[str, Any]) -> Targets:
    """Sets these options on all targets that have them; raises ByocirError B213."""
    if not options:
        return targets
    instances = [target_of(attribute) for attribute in attributes_of(targets)]
    known = {field.name for target in instances for field in fields(target)}
    for name in options:
        if name not in known:
            raise ByocirError(
                "B213",
                f"expected an option of {', '.join(t.name for t in instances)}, found '{name}'",
                help=did_you_mean(name, sorted(known)),
            )
    return [_with(target, options) for target in instances]


def _with(target: Target, options: Mapping[str, Any]) -> Target:
    own = {field.name for field in fields(target)}
    texts: dict[str, Any] = {k: (v,) for k, v in options.items() if k in own and isinstance(v, str)}
    read = read_files(ArgSpec(target.name, texts)).parameters if texts else {}
    given = {k: v for k, v in options.items() if k in own} | {k: v for k, (v,) in read.items()}
    try:
        return replace(target, **given)
    except (TypeError, ValueError) as error:
        raise ByocirError("B213", f"target '{target.name}': {error}") from error


def operators_of(targets: Targets | None) -> list[Entry]:
    """Lists the ONNX operators that targets define themselves, those of the first target first. The
    targets' dialects are registered by that. Raises the errors of `attributes_of`.
    """
    named = attributes_of(() if targets is None else targets)
    return [entry for each in named for entry in find_class(each.target_name.data).operators]


def make_known(target: str | Target, what: str, where: str) -> str:
    """Registers a target that something compiled earlier names, and gives its name; `what`
    describes that in messages. Raises ByocirError B213 if options are given, as it keeps its own,
    and B210 or B217 for an unknown target.
    """
    if isinstance(target, Target):
        register(target.name, type(target))
        return target.name
    name, brace, _ = named_target(target).partition("{")
    if brace:
        raise ByocirError(
            "B213",
            f"expected targets of {what} without options, found {target}",
            where=where,
            help=KEEPS,
        )
    find_class(name)
    return name


def check_options(
    targets: Sequence[str | Target], saved: Sequence[TargetAttr], what: str, where: str
) -> None:
    """Raises ByocirError B213 for an instance whose options differ from those in `saved`, with
    which `what` was compiled.
    """
    known = {attribute.target_name.data: attribute for attribute in saved}
    for target in targets:
        own = known.get(target.name) if isinstance(target, Target) else None
        if own is None or not isinstance(target, Target):
            continue
        then, now = _differing(own, attr_of(target))
        if then == now:
            continue
        raise ByocirError(
            "B213",
            f"expected target '{target.name}' with the options of {what}, {then}, found {now}",
            where=where,
            help=KEEPS,
        )

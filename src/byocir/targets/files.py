"""Targets in files of their own: `path/to/npu.py:Npu{option=value}`.

Code is imported from a path only when the user gives it in this call, never because a model, a
module or a package names it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import cast

from byocir.dialects.byoc import LEVELS
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns import Composite
from byocir.patterns.mistakes import check_distinct
from byocir.patterns.policy import CONSTANT_POLICIES
from byocir.patterns.targets import FILE_MODULE, register
from byocir.targets.base import Target

_GIVEN = re.compile(
    r"(?P<path>[^{}:]*(?:\.py|/))(?::(?P<name>\w+))?(?P<options>\{.*\})?", re.DOTALL
)


def named_target(text: str) -> str:
    """A target's name with options, as `parse_targets` reads it. Of a target in a file, the file is
    imported and the target registered. Raises ByocirError B217."""
    given = _GIVEN.fullmatch(text.strip())
    if given is None:
        return text
    target = load_target(Path(given["path"]), given["name"])
    return target.name + (given["options"] or "")


def load_target(path: Path, name: str | None = None) -> type[Target]:
    """The target class `name` of a Python file or of a folder with an `__init__.py`, registered;
    without a name, the only one there. Raises ByocirError B217."""
    module = _import(path)
    found = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Target)
        and value.__module__.split(".")[0] == module.__name__
    }
    if name is None and len(found) == 1:
        (name,) = found
    if name is None or name not in found:
        expected = "one byocir.Target" if name is None else f"a byocir.Target named {name}"
        listed = ", ".join(found) or "none"
        raise ByocirError(
            "B217",
            f"expected {expected}, found {listed}",
            where=str(path),
            help=f"write {path}:NAME" if name is None else did_you_mean(name, list(found)),
        )
    target = found[name]
    check_target(target)
    register(target.name, target)
    return target


def check_target(target: type[Target]) -> None:
    """Refuses classes that lack what every target has; raises ByocirError B216, and
    B208 for two composites of one name."""
    name = getattr(target, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ByocirError(
            "B216",
            f"expected class {target.__name__} to have a name like 'npu', found {name!r}",
            help='write name = "npu" in the class',
        )
    for attribute, allowed in (("codegen_level", LEVELS), ("constants", CONSTANT_POLICIES)):
        value = getattr(target, attribute)
        if value not in allowed:
            raise ByocirError(
                "B216",
                f"expected {attribute} of target '{name}' among {', '.join(allowed)}, "
                f"found {value!r}",
                help=did_you_mean(str(value), list(allowed)),
            )
    for pattern in cast("tuple[object, ...]", target.patterns):
        if not isinstance(pattern, Composite):
            raise ByocirError(
                "B216",
                f"expected patterns of target '{name}' to be composites, found "
                f"{type(pattern).__name__}",
                help='decorate the pattern\'s function with @composite("name")',
            )
    check_distinct([pattern.of_target(name).name for pattern in target.patterns], name)


def _import(path: Path) -> ModuleType:
    """The module of a file, imported once per process and path."""
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise ByocirError("B217", "expected a Python file, found none", where=str(path))
    name = FILE_MODULE + re.sub(r"\W", "_", str(path.resolve()))
    if name in sys.modules:
        return sys.modules[name]
    folders = [str(path)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(
        name, os.path.abspath(file), submodule_search_locations=folders
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ByocirError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise ByocirError(
            "B217",
            f"expected a file that imports, found {type(error).__name__}: {error}",
            where=_place(error, file),
        ) from error
    return module


def _place(error: Exception, file: Path) -> str:
    """The line of the user's file at which it failed."""
    code = os.path.abspath(file)  # as code knows its file
    if isinstance(error, SyntaxError) and error.filename == code:
        return f"{file}:{error.lineno}"
    lines: list[int] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == code:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{file}:{lines[-1]}" if lines else str(file)

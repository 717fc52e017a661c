"""Imports Python files that the user gives: targets and passes of their own.

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

from byocir.errors import FAILURES, ByocirError
from byocir.vendor.advice import advice

FILE_MODULE = "byocir_target_"
"""Begins the names of modules that were imported from a file the user gave."""
IN_A_FILE = (
    'given with --target npu.py:Npu (targets=["npu.py:Npu"] in Python, --load-target npu.py:Npu '
    "for byocir-opt)"
)
"""Says in help lines how a user gives a target that is in a file."""


def imported_from(kind: type, module: ModuleType) -> bool:
    """Tells if a class was defined in this file, or in another one of the same folder."""
    return kind.__module__.split(".")[0] == module.__name__


def given_file(kind: type) -> str:
    """Gives the path of the file or folder, given by the user, that defined a class; empty for
    other classes.
    """
    place = kind.__module__.partition(".")[0]
    module = sys.modules.get(place)
    if module is None or not place.startswith(FILE_MODULE):
        return ""
    return str(module.__file__).removesuffix("__init__.py")


def import_file(path: Path, code: str) -> ModuleType:
    """Imports a Python file, or a folder with an `__init__.py`, as a module, once per process and
    path. Raises ByocirError with this code.
    """
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise ByocirError(code, "expected a Python file, found none", where=str(path))
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
    except ByocirError as error:
        del sys.modules[name]
        error.at(_place(error, file))
        raise
    except FAILURES as error:
        del sys.modules[name]
        text = error.msg if isinstance(error, SyntaxError) else error
        told = f"expected a file that imports, found {type(error).__name__}: {text}"
        raise ByocirError(code, told, where=_place(error, file), help=advice(error)) from error
    return module


def _place(error: BaseException, file: Path) -> str:
    """Gives the line of the user's file at which importing it failed."""
    known = os.path.abspath(file)  # in the form in which code objects name their file
    if isinstance(error, SyntaxError) and error.filename:
        return f"{file if error.filename == known else error.filename}:{error.lineno}"
    lines: list[int] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == known:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{file}:{lines[-1]}" if lines else str(file)

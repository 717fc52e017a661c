"""Saves programs that show a problem in files, and names targets for the command line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute

from byocir.dialects.text import print_module
from byocir.dialects.types import dtype_of, element_type_of, holds_numbers
from byocir.dialects.weights import SUFFIX, dump_weights, large_arrays
from byocir.errors import ByocirError
from byocir.files import write_whole
from byocir.patterns.target_classes import file_of
from byocir.rewrites.byoc.levels import levels_left, set_levels
from byocir.runtime.module_members import module_types
from byocir.runtime.read_model import load_module
from byocir.targets.base import Target
from byocir.testing.conformance.cases import Case
from byocir.testing.conformance.score import Failure

FEEDS = ".npz"


def saved(failure: Failure, folder: Path | None) -> Failure:
    """Writes the program of a failure and its inputs into a folder: NAME.mlir, NAME.npz and, where
    it has large constants, NAME.safetensors. Raises ByocirError B112.
    """
    case = failure.case
    if folder is None or case is None:
        return failure
    first = failure.pattern.partition(",")[0].replace(".", "-")
    path = folder / f"{first}-{failure.problem.code.lower()}.mlir"
    write_case(case, path)
    return replace(failure, file=path)


def write_case(case: Case, path: Path) -> None:
    """Writes a program and its inputs beside it. Raises ByocirError B112."""
    module = case.module.clone()
    set_levels(module, case.levels)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, print_module(module).encode())
        if large_arrays(module):
            write_whole(path.with_suffix(SUFFIX), dump_weights(module))
        write_whole(path.with_suffix(FEEDS), _bytes_of(case.feeds))
    except OSError as error:
        raise ByocirError(
            "B112",
            f"expected a folder that can be written, found: {error.strerror}",
            where=str(path.parent),
        ) from error


def _bytes_of(arrays: Mapping[str, Any]) -> bytes:
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def read_case(path: Path, feeds: Mapping[str, np.ndarray]) -> Case:
    """Reads a program that was saved, and its inputs. Raises ByocirError B101, B120 to B122, B302,
    B310.
    """
    module = load_module(path)
    levels = levels_left(module)
    inputs, _ = module_types(module)
    case = Case(module, {name: _typed(array, inputs.get(name)) for name, array in feeds.items()})
    return case if levels is None else replace(case, levels=tuple(levels))


def _typed(array: np.ndarray, type_: Attribute | None) -> np.ndarray:
    """Converts an array to the type of an input: of types that numpy lacks, files keep only the
    bytes. Raises ByocirError B310 for an input that takes no array.
    """
    if type_ is None:
        return array
    if not isinstance(type_, TensorType | MemRefType):
        raise ByocirError("B310", f"expected inputs that are tensors, found {type_}")
    element = element_type_of(cast(Attribute, type_))
    if array.dtype.kind != "V" or not holds_numbers(element):
        return array
    dtype = dtype_of(element)
    return array.view(dtype) if dtype.itemsize == array.dtype.itemsize else array


def text_of(target: Target) -> str:
    """Names a target for the command line: with its file, where it has one, and options."""
    kind, spec = type(target), str(target.spec())
    file, _, name = file_of(target.name).rpartition(":")
    if not file and not kind.__module__.startswith("byocir.") and kind.__qualname__.isidentifier():
        file, name = inspect.getsourcefile(kind) or "", kind.__name__
    named = f"{_near(Path(file))}:{name}" if file else target.name
    return named + spec.removeprefix(target.name)


def _near(path: Path) -> Path:
    """Shortens a path to one relative to the current folder, where it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

"""Reads and writes files for the command line: each error is one message, and files that cannot be
written are refused before long work begins.
"""

from __future__ import annotations

import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.lib.format import MAGIC_PREFIX

from byocir.dialects.weights import save_arrays
from byocir.errors import ByocirError
from byocir.evaluate.module import expect_type, random_feeds
from byocir.files import expect_file, new_folder, read_whole, replaced, write_whole
from byocir.memory import expect_memory
from byocir.runtime.module_members import attributes_of

if TYPE_CHECKING:
    from onnx import ModelProto
    from xdsl.ir import Attribute

    from byocir.dialects.array import Array
    from byocir.runtime.package import Package

Look = Callable[[str, np.ndarray], bool]
"""Looks at an array's name, shape and type before its values are read: tells if they are wanted,
or raises."""


def check_writable(*paths: Path | None) -> None:
    """Raises ByocirError B112 unless a file can be written at each path (None stands for no
    file).
    """
    for path in paths:
        if path is None:
            continue
        folder = path.parent
        if path.is_dir():
            raise _unwritable(path, "a folder")
        if not folder.is_dir():
            raise _unwritable(path, f"no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise _unwritable(path, "no permission to write it")


def check_unused(path: Path) -> None:
    """Raises ByocirError B112 for a folder that exists already, unless it is empty."""
    found = "a file" if path.exists() and not path.is_dir() else ""
    found = "other files" if path.is_dir() and any(path.iterdir()) else found
    if found:
        raise ByocirError(
            "B112",
            f"expected a new or an empty folder, found {found}",
            where=str(path),
            help="choose another place for it: -o DIR",
        )


def make_folder(path: Path) -> None:
    """Makes a folder to write into; raises ByocirError B112 if that cannot be."""
    with _reported(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text; raises ByocirError B112."""
    with _reported(path):
        write_whole(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file; raises ByocirError B112."""
    with _reported(path):
        write_whole(path, data)


def remove_file(path: Path) -> None:
    """Removes a file if it is there; raises ByocirError B112."""
    with _reported(path):
        path.unlink(missing_ok=True)


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Writes a new folder of these files, all or none; raises ByocirError B112."""
    with _reported(path), new_folder(path) as folder:
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, data)


def write_weights(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by digest (.safetensors); raises ByocirError B112."""
    with _reported(path):
        save_arrays(arrays, path)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name (.npz); raises ByocirError B112."""
    with _reported(path), replaced(path) as file:
        np.savez(file, **dict[str, Any](arrays))


PROTOBUF_LIMIT = 2**31 - 2**26
"""The most bytes of weights in one file of ONNX: protobuf ends at 2 GB, and nodes need some."""


def write_model(path: Path, model: ModelProto, limit: int = PROTOBUF_LIMIT) -> list[Path]:
    """Writes an ONNX model. With more bytes of weights than `limit`, the weights go into a file of
    their own beside it. Gives the files written; raises ByocirError B112.
    """
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) <= limit:
        write_bytes(path, model.SerializeToString(deterministic=True))
        return [path]
    from onnx import external_data_helper as external

    weights = path.with_name(f"{path.name}.data")
    check_writable(weights)
    external.convert_model_to_external_data(model, location=weights.name)
    with _reported(weights):
        weights.unlink(missing_ok=True)  # onnx would append to an existing file
        external.write_external_data_tensors(model, str(path.parent))
    write_bytes(path, model.SerializeToString(deterministic=True))
    return [path, weights]


def read_json(path: Path, code: str) -> Any:
    """Reads the value of a JSON file. Raises ByocirError B101 (no file) or `code` (not JSON)."""
    expect_file(path)
    try:
        return json.loads(read_whole(path))
    except (ValueError, RecursionError, OSError) as error:
        raise ByocirError(code, f"expected JSON, found: {error}", where=str(path)) from error


def read_arrays(
    path: Path, example: Collection[str] = (), look: Look | None = None
) -> dict[str, np.ndarray]:
    """Reads the arrays of an .npz file by name. Raises ByocirError B101 (no file) or B111 (not such
    a file); `example` names arrays that it should hold. Arrays that `look` does not want are not
    read: they are given as zeros that take a few bytes.
    """
    expect_file(path)
    try:
        with path.open("rb") as file:
            return _arrays_in(file, str(path), look)
    except BROKEN as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ByocirError(
            "B111",
            f"expected arrays by name (.npz), found: {reason}",
            where=str(path),
            help=f"write it with numpy.savez(path, {', '.join(f'{n}=…' for n in example or 'x')})",
        ) from error


def _arrays_in(file: BinaryIO, where: str, look: Look | None) -> dict[str, np.ndarray]:
    """Reads all arrays of an open .npz file by name; raises one of `BROKEN`, and ByocirError B140
    for more of them than the limit on memory allows.
    """
    if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
        raise ValueError("one array without a name")
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        expect_memory(sum(info.file_size for info in infos), "arrays", where)
        arrays: dict[str, np.ndarray] = {}
        for info in infos:
            with archive.open(info) as member:
                name = info.filename.removesuffix(".npy")
                what = f"{where}, array '{name}'"
                arrays[name] = read_array(
                    member, info.file_size, what, None if look is None else partial(look, name)
                )
        return arrays


def read_array(
    file: IO[bytes],
    size: int,
    where: str,
    look: Callable[[np.ndarray], bool] | None = None,
) -> np.ndarray:
    """Reads the array of an .npy file of so many bytes; raises one of `BROKEN`, and ByocirError
    B140. It reads the header first, which may promise more than there is, or an array that `look`
    does not want.
    """
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, _, dtype = _HEADERS[version](file)
    nbytes = math.prod(shape) * dtype.itemsize
    expect_memory(nbytes, "an array", where)
    if not dtype.hasobject and nbytes != size - file.tell():
        raise ValueError(f"{size - file.tell()} bytes of values, where its shape needs {nbytes}")
    zeros = np.broadcast_to(np.zeros((), dtype), shape)
    if look is not None and not dtype.hasobject and not look(zeros):
        return zeros
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)


_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

# numpy reads array headers as Python literals, and a damaged one can be any wrong literal.
BROKEN = (
    ValueError,
    TypeError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,
    tokenize.TokenError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
)
"""The exceptions that reading a damaged file of arrays raises."""


@contextmanager
def _reported(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error


def _unwritable(path: Path, found: str) -> ByocirError:
    return ByocirError(
        "B112",
        f"expected a file that can be written, found {found}",
        where=str(path),
        help="choose another place for it",
    )


def read_feeds(path: Path | None, package: Package, seed: int = 0) -> dict[str, np.ndarray]:
    """Reads the inputs of a file, or draws seeded ones: standard normal floats, small integers.
    Raises ByocirError B101, B111 or B310.
    """
    if path is None:
        return random_feeds(package.module, seed)
    texts = {name: str(type_) for name, type_ in package.inputs.items()}
    return read_inputs(path, attributes_of(texts))


def read_inputs(path: Path, types: Mapping[str, Attribute]) -> dict[str, np.ndarray]:
    """Reads the arrays of a file for inputs of these types. An array of another type is refused
    without being read; one whose name no input has is not read. Raises ByocirError B101, B111 or
    B310.
    """

    def look(name: str, array: np.ndarray) -> bool:
        if name in types:
            expect_type(array, types[name], f"input '{name}'")
        return name in types

    return read_arrays(path, types, look)

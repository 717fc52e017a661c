"""Weights that lie in files beside the model.

Only regular files inside the model's folder are read: no absolute paths, no way out by `..`, no
links of either kind, which could name any file of the machine. Offset and length are checked
against the file. Values are mapped, not copied: a model may be larger than what protobuf can hold.
"""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx

from byocir.frontend.onnx.tensors import Unsupported, any_dtype, is_packed, type_name, values_of


def is_external(tensor: onnx.TensorProto) -> bool:
    """Tells if a tensor's values are in a file of their own."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def read_external(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    """Reads the values of a tensor, read-only; raises Unsupported, one sentence."""
    try:
        return _read(tensor, folder)
    except OSError as error:
        raise Unsupported(f"expected a file that can be read, found: {error.strerror}") from error


def _read(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _contained(entries.get("location", ""), folder)
    size = path.stat().st_size
    offset = _number(entries, "offset", 0)
    length = _number(entries, "length", max(size - offset, 0))
    if offset + length > size:
        raise Unsupported(
            f"expected a file of at least {offset + length} bytes, found {size} in "
            f"'{entries['location']}'"
        )
    dtype = any_dtype(tensor.data_type)
    if dtype is None:
        raise Unsupported(f"expected a tensor of numbers, found {type_name(tensor.data_type)}")
    if not is_packed(dtype):
        needed = math.prod(tensor.dims) * dtype.itemsize
        if needed != length:
            raise Unsupported(f"expected {needed} bytes of values, found {length}")
        if not length:
            return np.zeros(tuple(tensor.dims), dtype)
        return np.memmap(path, dtype, "r", offset, tuple(tensor.dims))
    with path.open("rb") as file:
        file.seek(offset)
        packed = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        packed.raw_data = file.read(length)
    return values_of(packed)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise Unsupported(f"expected {key} of the external data as a number, found '{text}'")
    return int(text[:20])


def _contained(location: str, folder: Path) -> Path:
    """Gives the file that a location names; raises Unsupported unless it is a regular file
    inside."""
    relative = PurePosixPath(location)
    absolute = relative.is_absolute() or PureWindowsPath(location).is_absolute()
    if not location or absolute or ".." in relative.parts or "\0" in location:
        raise Unsupported(f"expected a location inside the model's folder, found '{location}'")
    path = folder
    for part in relative.parts:
        path /= part
        if path.is_symlink():
            raise Unsupported(f"expected a file inside the model's folder, found link '{location}'")
    if not path.is_file():
        raise Unsupported(f"expected a file '{location}' beside the model, found none")
    if path.stat().st_nlink > 1:
        raise Unsupported(f"expected a file of one name, found hard link '{location}'")
    return path

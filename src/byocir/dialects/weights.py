"""Keeps large arrays beside the text, in a safetensors file that holds them by digest.

| code | what is wrong |
| --- | --- |
| B101 | there is no such file |
| B122 | the file is not one of weights |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import ml_dtypes
import numpy as np
from safetensors import (
    SafetensorError,
    deserialize,
)
from safetensors.numpy import save
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, ParametrizedAttribute

from byocir.dialects.array import Array, ArrayStore, arrays_of
from byocir.dialects.walk import ops_of
from byocir.errors import ByocirError
from byocir.files import read_whole, write_whole

SUFFIX = ".safetensors"
"""IN.mlir is read with IN.safetensors, and so written."""
SHARED = f"weights{SUFFIX}"
"""The file of weights that texts of a folder share, unless they have their own."""

# safetensors.numpy cannot read bfloat16.
_DTYPES = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F32": np.float32,
    "F64": np.float64,
}

_NAMED = frozenset(np.dtype(dtype) for dtype in _DTYPES.values())


def large_arrays(module: ModuleOp) -> dict[str, Array]:
    """Gives the arrays of a module that print as a digest, by digest, in order of appearance."""
    return arrays_of(_all_attributes(module))


def dump_weights(module: ModuleOp) -> bytes:
    """Gives, as bytes for a file, the arrays that the text of a module leaves out; the same module
    gives the same bytes. Arrays whose values are not at hand are left out here, too.
    """
    return dump_arrays(large_arrays(module))


def save_arrays(arrays: Mapping[str, Array], path: str | Path) -> None:
    """Writes arrays by digest; those whose values are not at hand are left out."""
    write_whole(path, dump_arrays(arrays))


def dump_arrays(arrays: Mapping[str, Array]) -> bytes:
    """Gives the bytes that `save_arrays` writes."""
    present = ((digest, array) for digest, array in sorted(arrays.items()) if array.present)
    return save(dict(_entry(digest, array) for digest, array in present))


def _entry(digest: str, array: Array) -> tuple[str, np.ndarray]:
    """Gives the key and the values of an array in the file. An array whose dtype the format has no
    name for is written as bytes, with dtype and shape behind the digest in the key.
    """
    if array.dtype in _NAMED:
        return digest, array.values()
    key = f"{digest} {array.dtype.name} {'x'.join(map(str, array.shape))}"
    return key, np.frombuffer(array.values().tobytes(), np.uint8)


def weights_beside(text: str | Path) -> Path | None:
    """Gives the file with the large arrays of a text: the one with the same name, else the one that
    the texts of its folder share; None if there is neither.
    """
    path = Path(text)
    places = (path.with_suffix(SUFFIX), path.with_name(SHARED))
    return next((place for place in places if place.is_file()), None)


def load_weights(path: str | Path, store: ArrayStore) -> None:
    """Adds the arrays of a file to a store. Raises ByocirError B101, B122 or, when bytes do not
    have the digest they are filed under, B108."""
    if not Path(path).is_file():
        raise ByocirError("B101", "expected a file, found none", where=str(path))
    read_weights(read_whole(path), store, str(path))


def read_weights(data: bytes, store: ArrayStore, where: str) -> None:
    """Adds the arrays of a file's bytes to a store; errors as `load_weights`."""
    try:
        entries = dict(cast(list[tuple[str, dict[str, object]]], deserialize(data)))
    except SafetensorError as error:
        raise ByocirError(
            "B122",
            f"expected weights in the safetensors format, found: {error}",
            where=where,
            help="the file may be cut off or of another format: write it again",
        ) from error
    for key, entry in sorted(entries.items()):
        code = cast(str, entry["dtype"])
        if code not in _DTYPES:
            raise ByocirError("B122", f"expected numbers or bool, found {code}", where=where)
        values = np.frombuffer(cast(bytearray, entry["data"]), np.dtype(_DTYPES[code]))
        values.flags.writeable = False  # else the store would copy it
        digest, *rest = key.split(" ")
        if rest:
            values = _unnamed(values, rest, where)
        else:
            values = values.reshape(cast(list[int], entry["shape"]))
        store.update({digest: values})


def _unnamed(values: np.ndarray, rest: list[str], where: str) -> np.ndarray:
    """Reads an array that `_entry` wrote as bytes."""
    try:
        name, shape = rest
        sizes = [int(size) for size in shape.split("x")] if shape else []
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        return values.view(np.uint8).view(dtype).reshape(sizes)
    except (ValueError, TypeError) as error:
        raise ByocirError(
            "B122", f"expected dtype and shape of an array, found '{' '.join(rest)}'", where=where
        ) from error


def _all_attributes(module: ModuleOp) -> Iterator[Attribute]:
    seen: set[int] = set()
    for op in ops_of(module):
        for attribute in (*op.properties.values(), *op.attributes.values()):
            yield from _nested(attribute, seen)


def _nested(attribute: Attribute, seen: set[int]) -> Iterator[Attribute]:
    """Walks an attribute and those inside it, each object once: to compare what attributes say
    takes longer than to look inside of them.
    """
    if id(attribute) in seen:
        return
    seen.add(id(attribute))
    yield attribute
    for part in parts_of(attribute):
        yield from _nested(part, seen)


def parts_of(attribute: Attribute) -> Iterable[Attribute]:
    """Lists the attributes directly inside one."""
    if isinstance(attribute, builtin.ArrayAttr):
        return cast(builtin.ArrayAttr[Attribute], attribute).data
    if isinstance(attribute, builtin.DictionaryAttr):
        return attribute.data.values()
    if isinstance(attribute, ParametrizedAttribute):
        return attribute.parameters
    return ()

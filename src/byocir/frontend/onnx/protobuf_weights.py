"""Reads models so that large weights go from the file straight to arrays.

Protobuf would hold them twice and hand out further copies, so they leave the model's bytes before
it sees them. What is left is a model of its own, in which they are empty. The format is that of
https://protobuf.dev/programming-guides/encoding; the field numbers are those of onnx.proto. Bytes
that are unusual in any way are left to protobuf, which knows what is wrong with them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from typing import NamedTuple

import numpy as np

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Fields of ModelProto, of GraphProto, of TensorProto."""
NAMED = frozenset((1, 2, 8, 12))
"""The other fields that a lifted tensor may have: dims, data_type, name, doc_string."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_VARINT = 10  # bytes

LARGE = 1024
"""Tensors of more bytes than this leave the protobuf."""


class SplitModel(NamedTuple):
    """Holds a model's bytes without large weights, and these weights as uint8, read-only, by their
    position among the initializers of its graph.
    """

    content: bytes
    raw: dict[int, np.ndarray]


class Unusual(Exception):
    """Tells that bytes are left to protobuf to read."""


def split_weights(file: BufferedReader | BytesIO, size: int) -> SplitModel | None:
    """Splits the model in a file of so many bytes that was just opened; None where its bytes are
    unusual.
    """
    if sys.byteorder != "little":
        return None
    reader = _Reader(file)
    try:
        return reader.model(size)
    except Unusual:
        return None


class _Field(NamedTuple):
    number: int
    kind: int
    head: bytes
    """Its tag; of bytes, their length is not in it."""
    size: int
    """The number of bytes that follow."""


class _Reader:
    """Reads a file from its start to its end."""

    def __init__(self, file: BufferedReader | BytesIO) -> None:
        self._file = file
        self._at = 0
        self.raw: dict[int, np.ndarray] = {}

    def model(self, size: int) -> SplitModel:
        parts: list[bytes] = []
        graphs = 0
        for field in self._fields(size):
            if field.number != GRAPH or field.kind != BYTES:
                parts.append(self._whole(field, size))
                continue
            graph = self._graph(self._at + field.size)
            parts += [field.head, _varint(len(graph)), graph]
            graphs += 1
        if graphs != 1:  # protobuf would merge several graphs
            raise Unusual
        return SplitModel(b"".join(parts), self.raw)

    def _graph(self, end: int) -> bytes:
        parts: list[bytes] = []
        initializers = 0
        for field in self._fields(end):
            if field.number != INITIALIZER or field.kind != BYTES:
                parts.append(self._whole(field, end))
                continue
            tensor = self._tensor(field.size, initializers)
            parts += [field.head, _varint(len(tensor)), tensor]
            initializers += 1
        return b"".join(parts)

    def _tensor(self, size: int, index: int) -> bytes:
        if size <= LARGE:
            return self._read(size)
        start, parts = self._at, list[bytes]()
        for field in self._fields(start + size):
            if field.number == RAW_DATA and field.kind == BYTES and field.size > LARGE:
                if index in self.raw:
                    raise Unusual
                self.raw[index] = self._array(field.size)
                parts += [field.head, _varint(0)]
            elif field.number in NAMED:
                parts.append(self._whole(field, start + size))
            else:
                # Values in fields of their own type, in other files, or twice.
                self.raw.pop(index, None)
                self._file.seek(start)
                self._at = start
                return self._read(size)
        return b"".join(parts)

    def _fields(self, end: int) -> Iterator[_Field]:
        """Yields the heads of the fields up to a place; the caller must read what follows each."""
        while self._at < end:
            head = self._varint_bytes(end)
            tag = _number(head)
            kind, size = tag & 7, 0
            if kind == BYTES:
                size = _number(self._varint_bytes(end))
            elif kind in (FIXED32, FIXED64):
                size = 4 if kind == FIXED32 else 8
            elif kind != VARINT:
                raise Unusual
            if tag >> 3 == 0 or self._at + size > end:
                raise Unusual
            yield _Field(tag >> 3, kind, head, size)

    def _whole(self, field: _Field, end: int) -> bytes:
        """Reads all bytes of a field, with its head, of a message that ends at `end`."""
        if field.kind == VARINT:
            return field.head + self._varint_bytes(end)
        length = _varint(field.size) if field.kind == BYTES else b""
        return field.head + length + self._read(field.size)

    def _varint_bytes(self, end: int) -> bytes:
        found = bytearray()
        while not found or found[-1] & 0x80:
            if self._at >= end or len(found) == MOST_VARINT:
                raise Unusual
            found += self._read(1)
        return bytes(found)

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise Unusual
        self._at += size
        return data

    def _array(self, size: int) -> np.ndarray:
        array = np.empty(size, np.uint8)
        rest = array.data
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise Unusual
            rest = rest[count:]
        self._at += size
        array.flags.writeable = False
        return array


def _number(varint: bytes) -> int:
    return sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(varint))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))

"""Reads plain data back into the records that it was written from, and checks types.

A report has tens of thousands of records of a few types: what a type says is looked up once, and
becomes a function that reads all values of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

_Reader = Callable[[Any], Any]
"""Gives what plain data stand for; raises ValueError for those of another type."""


def read_as(kind: type[T], value: object, where: str) -> T:
    """Reads the record, a dataclass or a named tuple, that a mapping of its fields describes;
    further fields are ignored. `where` names it in messages. Raises ValueError for a value of
    another type.
    """
    return cast(T, _reader(kind, where)(value))


@lru_cache(maxsize=1024)
def _reader(kind: Any, where: str) -> _Reader:
    """Makes the function that reads values of a type at one place of the data."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if origin is UnionType:
        some = _reader(arguments[0], where)
        return lambda value: None if value is None else some(value)
    if origin is list:
        return _list_reader(_reader(arguments[0], where), where)
    if origin is dict:
        return _dict_reader(_reader(arguments[1], where), where)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record_reader(cast("type[Any]", kind), where)
    if issubclass(kind, StrEnum):
        return _word_reader(kind, where)
    return _plain_reader(kind, where)


def _list_reader(item: _Reader, where: str) -> _Reader:
    def read(value: Any) -> list[Any]:
        _expect(isinstance(value, list), "a list", value, where)
        return [item(each) for each in value]

    return read


def _dict_reader(item: _Reader, where: str) -> _Reader:
    def read(value: Any) -> dict[str, Any]:
        _expect(isinstance(value, dict), "an object", value, where)
        entries = cast("Mapping[str, Any]", value).items()
        return {name: item(each) for name, each in entries}

    return read


def _record_reader(kind: type[Any], where: str) -> _Reader:
    types = get_type_hints(kind)
    names: Sequence[str] = getattr(kind, "_fields", ()) or [field.name for field in fields(kind)]
    readers = [(name, _reader(types[name], f"{where}.{name}")) for name in names]

    def read(value: Any) -> Any:
        _expect(isinstance(value, dict), "an object", value, where)
        made = {name: reader(value[name]) for name, reader in readers if name in value}
        try:
            return kind(**made)
        except TypeError as error:  # a field is missing
            raise ValueError(f"expected a record as {where}, found: {error}") from error

    return read


def _word_reader(kind: type[StrEnum], where: str) -> _Reader:
    def read(value: Any) -> Any:
        _expect(value in [*kind], f"one of {', '.join(kind)}", value, where)
        return kind(value)

    return read


def _plain_reader(kind: type[Any], where: str) -> _Reader:
    def read(value: Any) -> Any:
        _expect(type(value) is kind, kind.__name__, value, where)
        return value

    return read


def _expect(holds: bool, expected: str, found: object, where: str) -> None:
    if not holds:
        raise ValueError(f"expected {expected} as {where}, found {type(found).__name__}")

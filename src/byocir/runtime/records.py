"""Plain data as the records that it was written from, checked against their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_as(kind: type[T], value: object, where: str) -> T:
    """Reads the record, a dataclass or a named tuple, that a mapping of its fields describes;
    further fields are left out. `where` names it in messages. Raises ValueError for a value of
    another type."""
    return cast(T, _read(kind, value, where))


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is UnionType:
        return None if value is None else _read(arguments[0], value, where)
    if origin is list:
        _expect(isinstance(value, list), "a list", value, where)
        return [_read(arguments[0], each, where) for each in cast("Sequence[Any]", value)]
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, where)
        entries = cast("Mapping[str, Any]", value).items()
        return {name: _read(arguments[1], each, where) for name, each in entries}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        _expect(isinstance(value, dict), "an object", value, where)
        return _record(cast("type[Any]", kind), value, where)
    _expect(type(value) is kind, f"{kind.__name__}", value, where)
    return value


def _record(kind: type[Any], value: Mapping[str, Any], where: str) -> Any:
    types = _types_of(kind)
    names: Sequence[str] = getattr(kind, "_fields", ()) or [field.name for field in fields(kind)]
    made = {
        name: _read(types[name], value[name], f"{where}.{name}") for name in names if name in value
    }
    try:
        return kind(**made)
    except TypeError as error:  # one is missing
        raise ValueError(f"expected a record as {where}, found: {error}") from error


@cache
def _types_of(kind: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind)  # which evaluates each annotation anew


def _expect(holds: bool, expected: str, found: object, where: str) -> None:
    if not holds:
        raise ValueError(f"expected {expected} as {where}, found {type(found).__name__}")

"""Collects a dialect from the modules of its families: their classes, by the names of their ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from xdsl.ir import Attribute, Dialect, Operation

_Kind = TypeVar("_Kind", bound=Operation | Attribute)


def dialect_of(name: str, names: Mapping[str, object]) -> Dialect:
    """Makes the dialect of this name from the names of a module: it has all ops and attributes
    whose own names begin with it, e.g. `tir.block` and `tir.iterator` for `tir`.
    """
    return Dialect(name, own(Operation, name, names), own(Attribute, name, names))


def own(kind: type[_Kind], dialect: str, names: Mapping[str, object]) -> list[type[_Kind]]:
    """Lists the classes of a kind whose op or attribute name is of this dialect, in the order of
    these names.
    """
    found = {each for each in names.values() if isinstance(each, type) and issubclass(each, kind)}
    named = {str(vars(each).get("name", "")): each for each in found}
    return [named[name] for name in sorted(named) if name.startswith(f"{dialect}.")]

"""Lets a package export names that its modules define, and imports these only when one is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def exports(package: str, **names: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Makes `__getattr__` and `__dir__` of a package from the names that each of its modules
    defines, with spaces between them.
    """
    homes = {name: f"{package}.{module}" for module in names for name in names[module].split()}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes)

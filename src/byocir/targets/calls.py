"""Calls of what a target from outside wrote: its mistakes are told, with the place, as its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from byocir.errors import ByocirError
from byocir.patterns.hooks import mistakes_of
from byocir.targets.base import Runner, Target

_T = TypeVar("_T")


def call(target: Target, method: Callable[..., _T], *arguments: Any) -> _T:
    """Calls a method of a target. Raises ByocirError B219, with file and line, where it fails."""
    name = getattr(method, "__name__", str(method))
    with mistakes_of(target.name, type(target), name, method):
        return method(*arguments)


def loaded(target: Target, blobs: Mapping[str, bytes], *, check: bool = False) -> Runner:
    """Makes the function that runs a target's code. The code sees inputs that it cannot write, and
    its results are copied: it may give the same buffer each time. Raises ByocirError B219 where it
    fails, B227 for a target that cannot run what it emitted."""
    found: Any = call(target, target.load_checked if check else target.load, blobs)
    if not callable(found):
        raise ByocirError(
            "B227",
            f"expected target '{target.name}' to load what it emitted, found "
            f"{'no load' if found is None else type(found).__name__}",
            help="define load beside emit: it gives a function of a symbol and inputs",
        )

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        made: Any = call(target, found, symbol, [_read_only(array) for array in inputs])
        if not isinstance(made, Sequence):
            return made  # told where outputs are checked
        results = cast(Sequence[Any], made)
        return [each.copy() if isinstance(each, np.ndarray) else each for each in results]

    return run


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view

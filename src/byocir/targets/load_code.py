"""Loads the code of targets and runs it, in this process or in one of its own. Errors in a target's
code are reported as the target's, with the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock
from typing import Any, cast

import numpy as np

from byocir.errors import ByocirError
from byocir.isolation import DIED, HERE, Child, Died, Limits, limits_for
from byocir.targets.loader import Loader, Runner
from byocir.toolchain.calling import CEntry, read_only
from byocir.vendor.hooks import ask, mistakes_of
from byocir.vendor.told_errors import error_as_data, error_of
from byocir.vendor.user_code import given_file


def load_code(target: Loader, blobs: Mapping[str, bytes], *, check: bool = False) -> Runner:
    """Makes the function that runs a target's code. The code sees inputs that it cannot write, and
    its results are copied, so that it may give the same buffer each time. Inside of
    `byocir.isolate` it runs in a process of its own, begun with the first call. Raises ByocirError
    B219 where it fails, B227 for a target that cannot run what it emitted, and B314 and B315 like
    `isolate`.
    """
    limits = limits_for(is_from_file=bool(given_file(type(target))))
    load = partial(_loaded_here, target, blobs, check)
    return load() if limits is None else _Isolated(target.name, load, limits)


def _loaded_here(target: Loader, blobs: Mapping[str, bytes], check: bool) -> Runner:
    found: Any = ask(target, "load_checked" if check else "load", blobs)
    if not callable(found):
        raise ByocirError(
            "B227",
            f"expected target '{target.name}' to load what it emitted, found "
            f"{'no load' if found is None else type(found).__name__}",
            help="define load beside emit: it gives a function of a symbol and inputs",
        )

    return _InProcess(target, found)


class _InProcess:
    """Runs a target's code in this process."""

    def __init__(self, target: Loader, found: Callable[..., Any]) -> None:
        self._target, self._found = target, found

    def __call__(self, symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        with self._mistakes():
            made: Any = self._found(symbol, [read_only(array) for array in inputs])
        if not isinstance(made, Sequence):
            return made  # the check of outputs reports this
        results = cast(Sequence[Any], made)
        return [each.copy() if isinstance(each, np.ndarray) else each for each in results]

    def c_entry(self, symbol: str) -> CEntry | None:
        """Gives the C function that runs a region; None where only Python can run it."""
        find = getattr(self._found, "c_entry", None)
        if find is None:
            return None
        with self._mistakes():
            return find(symbol)

    def _mistakes(self) -> AbstractContextManager[None]:
        hook = getattr(self._found, "__name__", "run")
        return mistakes_of(self._target.name, type(self._target), hook, self._found)


class _Isolated:
    """Runs a target's code in a process of its own, and starts another one when that has died."""

    def __init__(self, target: str, load: Callable[[], Runner], limits: Limits) -> None:
        self._target, self._load, self._limits = target, load, limits
        self._child: Child | None = None
        self._runner: Runner | None = None
        """The code that is loaded: in the child alone."""
        self._lock = Lock()

    def __call__(self, symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        with self._lock:
            self._child = self._child or Child(self._answer, self._limits)
            try:
                told, results, written = self._child.ask(symbol, inputs)
            except BaseException as error:
                self._child = None
                if isinstance(error, Died):
                    raise self._error(
                        DIED, symbol, "give its outputs", str(error), error.help
                    ) from error
                raise
        if written:
            raise self._error("B315", symbol, "keep its inputs", f"it to write input {written[0]}")
        return _received(told, results)

    def _answer(self, symbol: str, inputs: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
        try:
            self._runner = self._runner or self._load()
            return _sent(self._runner(symbol, inputs))
        except Exception as error:
            return error_as_data(error), []

    def _error(self, code: str, symbol: str, what: str, found: str, help: str = "") -> ByocirError:
        message = f"expected the code of region {symbol}, of target '{self._target}', to {what}"
        return ByocirError(code, f"{message}, found {found}", help=help or HERE)


def _sent(made: Any) -> tuple[Any, list[np.ndarray]]:
    """Splits results into data and arrays, to be sent; for a result that is no array, the type is
    sent, which is reported as an error.
    """
    if not isinstance(made, Sequence):
        return {"other": type(made).__name__}, []
    results = cast("Sequence[Any]", made)
    kinds = ["" if isinstance(each, np.ndarray) else type(each).__name__ for each in results]
    return {"kinds": kinds}, [each for each in results if isinstance(each, np.ndarray)]


def _received(told: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Rebuilds the results that were sent; raises the error if one was sent."""
    if "error" in told:
        raise error_of(told)
    if "other" in told:
        return _of_type(told["other"])
    left = iter(arrays)
    return [_of_type(kind) if kind else next(left) for kind in told["kinds"]]


def _of_type(name: str) -> Any:
    return type(name, (), {})()

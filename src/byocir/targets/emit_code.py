"""Has targets generate code, in this process or in one of its own. Their mistakes are told, with
the place, as their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from byocir.errors import ByocirError
from byocir.isolation import DIED, HERE, Child, Died, Limits, limits_for
from byocir.targets.base import Target
from byocir.vendor.hooks import ask
from byocir.vendor.told_errors import error_as_data, error_of
from byocir.vendor.user_code import given_file

Blobs = Mapping[str, bytes]


def emitted(target: Target, module: ModuleOp, nodes: Mapping[str, Sequence[str]]) -> Blobs:
    """Runs a target's `emit` for its functions, each with the nodes that it stands for. Inside of
    `byocir.isolate` that is done in a process of its own: what `emit` changes, but for what it
    gives, is lost then. Raises ByocirError B218 for what a package cannot hold, B219 where a target
    from outside fails, B314 as `isolate` says."""
    if not nodes:
        return {}
    is_own = type(target).emit is Target.emit  # byocir's own emit also keeps the programs in memory
    limits = None if is_own else limits_for(is_from_file=bool(given_file(type(target))))
    emit = partial(_emitted_here, target, module, [*nodes])
    return emit() if limits is None else _emitted_apart(target, emit, nodes, limits)


def _emitted_here(target: Target, module: ModuleOp, symbols: Sequence[str]) -> Blobs:
    made: Any = ask(target, "emit", module, symbols)
    blobs: dict[Any, Any] = {**made} if hasattr(made, "keys") else {}
    wrong = [
        f"{type(blob).__name__} for {name!r}"
        for name, blob in blobs.items()
        if not _is_plain(name) or not isinstance(blob, bytes)
    ]
    if not hasattr(made, "keys"):
        wrong = [type(made).__name__]
    if wrong:
        raise ByocirError(
            "B218",
            f"expected target '{target.name}' to emit bytes by plain names, found {wrong[0]}",
            help="encode text, text.encode(); names have no slashes",
        )
    return blobs


def _is_plain(name: object) -> bool:
    """Tells if a name is one that a member of a package may have."""
    if not isinstance(name, str) or not name.isprintable():
        return False
    return name not in ("", ".", "..") and not set(name) & set("/\\")


def _emitted_apart(
    target: Target, emit: Callable[[], Blobs], nodes: Mapping[str, Sequence[str]], limits: Limits
) -> Blobs:
    def answer(data: Any, arrays: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
        try:
            blobs = emit()
        except Exception as error:
            return error_as_data(error), []
        return {"names": [*blobs]}, [np.frombuffer(each, np.uint8) for each in blobs.values()]

    child = Child(answer, limits)
    try:
        told, arrays, _ = child.ask(None, [])
    except Died as died:
        raise _error(target.name, nodes, died) from died
    finally:
        child.close()
    if "error" in told:
        raise error_of(told)
    return {name: array.tobytes() for name, array in zip(told["names"], arrays, strict=True)}


def _error(target: str, nodes: Mapping[str, Sequence[str]], died: Died) -> ByocirError:
    """Tells how emit ended; for which region, if it said so."""
    symbols = [died.during] if died.during else [*nodes]
    of = f"region{'s' if len(symbols) > 1 else ''} {', '.join(symbols)}"
    where = ", ".join(node for symbol in symbols for node in nodes[symbol])
    message = f"expected emit of target '{target}' to give the code of {of}, found {died}"
    return ByocirError(DIED, message, where=where, help=died.help or HERE)

"""Passes errors on from the process that runs a target's code."""

from __future__ import annotations

import traceback
from typing import Any

from byocir.errors import ByocirError, CheckFailed, OwnMistake


def error_as_data(error: Exception) -> Any:
    """Gives an error as data, its traceback as a note; of one that users do not see the text."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    error.add_note("".join(traceback.format_exception(error)))
    return {"error": kinds, "args": [*map(str, error.args)], "state": vars(error)}


def error_of(told: Any) -> Exception:
    """Gives the error that was told: of the same class if users see such, else a RuntimeError."""
    from byocir.vta_sim import VTAError  # imported here, as other targets need no simulator

    known = {kind.__name__: kind for kind in (CheckFailed, OwnMistake, ByocirError, VTAError)}
    kind: type[Exception] | None = next(
        (known[name] for name in told["error"] if name in known), None
    )
    if kind is None:
        error = RuntimeError(f"{told['error'][0]}: {', '.join(told['args'])}")
    else:
        error = kind.__new__(kind)
        error.args = tuple(told["args"])
    vars(error).update(told["state"])
    return error

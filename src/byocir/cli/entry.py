"""Starts both tools: an interrupt during their imports is handled like any other."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130
SEEN_BEFORE_COLLECTION = 20_000
"""New objects after which Python looks for cycles: nearly all that imports make stays, and its own
700 took an eighth of the time of `byocir targets`."""


def byocir() -> int:
    """The command `byocir`; gives the exit code."""
    gc.set_threshold(SEEN_BEFORE_COLLECTION)
    try:
        from byocir.cli.main import main

        return main()
    except KeyboardInterrupt:
        return _interrupted()


def byocir_opt() -> int:
    """The command `byocir-opt`; gives the exit code."""
    gc.set_threshold(SEEN_BEFORE_COLLECTION)
    try:
        from byocir.cli.opt import main

        return main()
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED

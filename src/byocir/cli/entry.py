"""Starts both tools: an interrupt during their imports is handled like any other."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def byocir() -> int:
    """The command `byocir`; gives the exit code."""
    try:
        from byocir.cli.main import main

        return main()
    except KeyboardInterrupt:
        return _interrupted()


def byocir_opt() -> int:
    """The command `byocir-opt`; gives the exit code."""
    try:
        from byocir.cli.opt import main

        return main()
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return INTERRUPTED

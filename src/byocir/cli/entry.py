"""Where the tools begin: their imports take a while, and may be interrupted like the rest."""

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

"""Reads the host that a command line names."""

from __future__ import annotations

import argparse

from byocir.compiler import host_of
from byocir.runtime.report import REFERENCE


def host_text(options: argparse.Namespace, default: str = REFERENCE) -> str:
    """Gives the host that `--host` names, else `default`; raises ByocirError B225 or B229 before
    any work is done for it."""
    text: str = default if options.host is None else options.host
    host_of(text)
    return text

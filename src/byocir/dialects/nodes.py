"""The nodes of a model and their places, as plain data."""

from __future__ import annotations

from typing import NamedTuple

HOST = "host"
"""The name of the host where targets are named."""
FOLDED = "folded"
"""The name there for nodes of which nothing is left at run time."""


class Node(NamedTuple):
    """A node of the original model; `macs` counts multiply-accumulates per inference."""

    name: str
    op_type: str
    macs: int

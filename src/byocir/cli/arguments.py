"""Reads the texts of command-line options, for both tools."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from byocir.errors import ByocirError

SCALAR = "scalar"
"""What is written for a shape without dimensions, as messages do."""

Shapes = dict[str, tuple[int, ...]]


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Adds the option that every verb of both tools has."""
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        help="refuse what would take more memory: a file, an input, what one node makes; e.g. 2G "
        "(default: half of the machine's)",
    )


def read_shapes(texts: Sequence[str]) -> Shapes:
    """`--shape x=1,3,8,8`, once for each input, as a mapping; `x=scalar` is a shape without
    dimensions. Raises ByocirError B110."""
    shapes: Shapes = {}
    for text in texts:
        name, _, dims = text.rpartition("=")
        try:
            shape = () if dims == SCALAR else tuple(int(dim) for dim in dims.split(","))
        except ValueError:
            shape = None
        if not name or shape is None:
            raise ByocirError(
                "B110",
                f"expected --shape NAME=D,D,…, found '{text}'",
                help=f"e.g. x=1,3,32,32, or x={SCALAR}",
            )
        if name in shapes:
            raise ByocirError("B110", f"expected one --shape for each input, found two for {name}")
        shapes[name] = shape
    return shapes

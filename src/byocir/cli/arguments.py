"""Reads the texts of command-line options, for both tools."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from byocir.arguments import SECONDS
from byocir.errors import ByocirError

SCALAR = "scalar"
"""Stands for a shape without dimensions, in arguments as in messages."""

REGION_SECONDS = 300.0
"""The seconds that a call of a target's code may take, unless a user says otherwise."""

Shapes = dict[str, tuple[int, ...]]


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Adds the option that every verb of both tools has."""
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        help="refuse what would take more memory: a file, an input, what one node makes; e.g. 2G "
        "(default: half of the machine's)",
    )


def add_isolation(parser: argparse.ArgumentParser, of_what: str) -> None:
    """Adds the options of verbs that run the code of targets."""
    parser.add_argument(
        "--isolate",
        action=argparse.BooleanOptionalAction,
        help="run the code of targets in processes of its own, so that a crash is an error "
        "(default: of targets from files)",
    )
    parser.add_argument(
        "--region-seconds",
        type=seconds,
        default=REGION_SECONDS,
        metavar="N",
        help=f"how long {of_what} may take there (default: {REGION_SECONDS:g})",
    )
    parser.add_argument(
        "--region-bytes", metavar="N", help="memory that it may take there (default: --max-bytes)"
    )


def isolation_given(options: argparse.Namespace) -> list[str]:
    """Gives the options of `add_isolation`, and the limit, that were given, as words of a
    command."""
    isolate: bool | None = options.isolate
    words = [] if isolate is None else ["--isolate" if isolate else "--no-isolate"]
    if options.region_seconds != REGION_SECONDS:
        words += ["--region-seconds", str(options.region_seconds)]
    if options.region_bytes is not None:
        words += ["--region-bytes", options.region_bytes]
    return words if options.max_bytes is None else [*words, "--max-bytes", options.max_bytes]


def seconds(text: str) -> float:
    """Gives the value of an option that says how long; raises argparse.ArgumentTypeError."""
    with suppress(ValueError):
        if SECONDS.holds(number := float(text)):
            return number
    raise argparse.ArgumentTypeError(f"expected {SECONDS.words}, found '{text}'")


def isolated_as_asked(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Has targets run as the options of `add_isolation` say, where a verb has them."""
    asked: bool | None = getattr(options, "isolate", False)
    if asked is False:
        return nullcontext()
    from byocir.isolation import isolate

    limit, nbytes = options.region_seconds, options.region_bytes
    return isolate(seconds=limit, nbytes=nbytes, only_files=asked is None)


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

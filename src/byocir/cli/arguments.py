"""Defines the options that several verbs have, and reads their texts, for both tools."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from byocir.arguments import SECONDS
from byocir.errors import ByocirError

SCALAR = "scalar"
"""Stands for a shape without dimensions, in arguments as in messages."""

REGION_SECONDS = 300.0
"""The seconds that a call of a target's code may take, unless a user says otherwise."""

Shapes = dict[str, tuple[int, ...]]


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the limit on memory, which every verb of both tools has."""
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        help="refuse what would take more memory: a file, an input, what one node makes; e.g. 2G "
        "(default: half of the machine's)",
    )


class _Targets(argparse.Action):
    """Collects targets in order; `host` adds none, so that given alone it leaves all to the
    host.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        before: list[str] = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*before, *([values] if values != "host" else [])])


def add_model(
    parser: argparse.ArgumentParser, what: str = "an ONNX file", default: str = "vta"
) -> None:
    """Adds the argument for the model, and the options that say what is done with it."""
    parser.add_argument("model", type=Path, help=what)
    parser.add_argument(
        "--target",
        action=_Targets,
        metavar="T",
        help="a target with options, e.g. vta{rounding=half_even}, or one in a file, npu.py:Npu; "
        "host leaves all to the host; "
        f"repeat in order of preference (default: {default})",
    )
    parser.add_argument(
        "--levels",
        help="where targets may take work (default: graph,tensor)",
    )
    parser.add_argument(
        "--objective",
        choices=["latency", "energy", "bytes"],
        help="latency, energy or bytes: targets that tell their costs compete",
    )
    parser.add_argument(
        "--costs",
        type=Path,
        metavar="FILE",
        help="costs that were measured, which count before what targets tell (byocir measure)",
    )
    parser.add_argument(
        "--tuned",
        type=Path,
        metavar="FILE",
        help="schedules that were found best (byocir tune)",
    )
    parser.add_argument(
        "--placement",
        type=Path,
        metavar="FILE",
        help='where nodes go whatever patterns say: JSON, {"name or regex": "target or host"}',
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=D,D,…",
        help="the shape of an input with symbolic dimensions, or of one with a value of its own, "
        "which can then be fed (NAME=scalar if it has none); repeat for each input",
    )


def add_seed(parser: argparse.ArgumentParser, what: str = "of the inputs") -> None:
    """Adds the option for the seed of drawn numbers."""
    parser.add_argument("--seed", type=number, default=0, help=f"{what} (default: 0)")


def add_host(parser: argparse.ArgumentParser, default: str = "reference") -> None:
    """Adds the option that names the host."""
    parser.add_argument(
        "--host",
        metavar="HOST",
        help="what runs the nodes that no target takes: reference, the evaluator that defines "
        "their meaning, or C code made for them: c, or with options c{cpu=native,threads=1} "
        f"(default: {default})",
    )


def add_host_ops(parser: argparse.ArgumentParser) -> None:
    """Adds the option that fails where too much stays on the host."""
    parser.add_argument(
        "--host-ops",
        metavar="TYPES",
        help="fail, and say why, if operators of other types than these stay on the host: "
        "none, or e.g. QuantizeLinear,DequantizeLinear",
    )


def add_emit(parser: argparse.ArgumentParser) -> None:
    """Adds the option that prints a stage."""
    parser.add_argument(
        "--emit",
        metavar="STAGE",
        help="print one stage and stop: import, graph, partitioned, tir, fused, scf, vta, asm, "
        "json, c, h, or the name of a pass, after which it is",
    )


def add_stages(parser: argparse.ArgumentParser) -> None:
    """Adds the options that look at every stage of a compilation."""
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write every stage, numbered")
    parser.add_argument(
        "--check-each",
        action="store_true",
        help="evaluate after every pass; stop at the first that changes a result",
    )


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Adds the options of verbs that judge schedules or settings in other processes."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="judge N at once (default: 1)"
    )
    who.add_argument(
        "--executor", metavar="dask://HOST:PORT", help="judge them on a Dask cluster instead"
    )


def number(text: str) -> int:
    """Reads the value of an option as a number from 0 on; raises argparse.ArgumentTypeError."""
    with suppress(ValueError):  # int() refuses numbers with too many digits
        if text.isdecimal():
            return int(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 on, found '{text}'")


def count(text: str) -> int:
    """Reads the value of an option as a number from 1 on; raises argparse.ArgumentTypeError."""
    if (found := number(text)) > 0:
        return found
    raise argparse.ArgumentTypeError(f"expected a number from 1 on, found '{text}'")


def add_isolation(
    parser: argparse.ArgumentParser, of_what: str = "making the code of regions"
) -> None:
    """Adds the options of verbs that have targets make code, or run it."""
    parser.add_argument(
        "--isolate",
        action=argparse.BooleanOptionalAction,
        help="have targets make code, and run it, in processes of their own, so that a crash is an "
        "error (default: targets from files)",
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
    """Spells the options of `add_isolation`, and the limit on memory, that were given, as words of
    a command.
    """
    isolate: bool | None = options.isolate
    words = [] if isolate is None else ["--isolate" if isolate else "--no-isolate"]
    if options.region_seconds != REGION_SECONDS:
        words += ["--region-seconds", str(options.region_seconds)]
    if options.region_bytes is not None:
        words += ["--region-bytes", options.region_bytes]
    return words if options.max_bytes is None else [*words, "--max-bytes", options.max_bytes]


def seconds(text: str) -> float:
    """Reads the value of an option that is a time; raises argparse.ArgumentTypeError."""
    with suppress(ValueError):
        if SECONDS.holds(number := float(text)):
            return number
    raise argparse.ArgumentTypeError(f"expected {SECONDS.words}, found '{text}'")


def isolated_as_asked(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Runs the code of targets, inside of a `with`, as the options of `add_isolation` ask; verbs
    without these options run it in this process.
    """
    asked: bool | None = getattr(options, "isolate", False)
    if asked is False:
        return nullcontext()
    from byocir.isolation import isolate

    limit, nbytes = options.region_seconds, options.region_bytes
    return isolate(seconds=limit, nbytes=nbytes, only_files=asked is None)


def read_shapes(texts: Sequence[str]) -> Shapes:
    """Reads `--shape x=1,3,8,8`, given once for each input, as a mapping; `x=scalar` is a shape
    without dimensions. Raises ByocirError B110.
    """
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

"""`byocir conform TARGET`: tells if a target is right.

Tries programs made from its patterns (`byocir.testing.conformance`) and prints a score. Each
problem is made small and left in a folder as a program with its inputs, beside the command that
shows it again. The exit code is 3 when something is wrong; an interrupt prints the score so far.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from rich.console import Console
from rich.status import Status

from byocir.cli.arguments import add_isolation, count, isolation_given, number, seconds
from byocir.cli.guard import CHECK_FAILED, OK
from byocir.cli.user_files import read_arrays
from byocir.errors import ByocirError
from byocir.targets.base import Target
from byocir.targets.resolve_targets import the_target
from byocir.testing.conformance import Score, Session
from byocir.testing.conformance.exported import has_device
from byocir.testing.conformance.hash_seed import differing
from byocir.testing.conformance.saved import FEEDS, read_case
from byocir.testing.conformance.trial import Trial, quiet


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("target", help="a target with options, or one in a file, npu.py:Npu")
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, help="how long to try it (default: 60)"
    )
    parser.add_argument(
        "--rounds",
        type=count,
        metavar="N",
        help="instead of for some time, N cases of each pattern and kind: the same each time",
    )
    parser.add_argument(
        "--pattern", action="append", default=[], metavar="P", help="only this one; repeat for more"
    )
    parser.add_argument("--seed", type=number, default=0, help="of what is drawn (default: 0)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="where programs that show a problem are written (default: conform-NAME)",
    )
    parser.add_argument("--first", action="store_true", help="end with the first problem")
    parser.add_argument(
        "--case", type=Path, metavar="FILE", help="try one program again that was written"
    )
    parser.add_argument("--json", action="store_true", help="print the score as JSON")
    add_isolation(parser, "running each program, in all ways,")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; gives the exit code."""
    target = the_target(options.target)
    if options.case is not None:
        return _again(target, options.case)
    folder = options.output or Path(f"conform-{target.name}")
    again = isolation_given(options)
    session = Session(target, options.seed, options.pattern, folder, again)
    try:
        console = Console(stderr=True)
        with console.status("") as status:
            session.progress = _Progress(
                console, status, None if options.rounds else options.seconds
            )
            session.run(options.seconds, options.rounds, first=options.first)
    finally:  # also prints the score of a session that was interrupted
        _print(session.score, options.json)
    return CHECK_FAILED if session.score.wrong else OK


BETWEEN = 20
"""Seconds between two lines about progress where stderr is no terminal."""


class _Progress:
    """Shows how far a session has come: on a terminal always, elsewhere by a line now and then."""

    def __init__(self, console: Console, status: Status, seconds: float | None) -> None:
        self._console, self._status, self._seconds = console, status, seconds
        self._began = self._told = time.monotonic()

    def __call__(self, score: Score, what: str) -> None:
        now = time.monotonic()
        end = "" if self._seconds is None else f" of {self._seconds:.0f}"
        spent = f"{now - self._began:.0f}{end} s"
        told = f"{spent}, {score.cases:,} cases, {score.wrong:,} wrong: {what}"
        self._status.update(told)
        if not self._console.is_terminal and now - self._told >= BETWEEN:
            self._told = now
            self._console.print(told, highlight=False)


def _print(score: Score, as_json: bool) -> None:
    print(json.dumps(score.to_dict(), indent=1) if as_json else score.text())


def _again(target: Target, path: Path) -> int:
    """Tries one program once more that was saved, with its inputs; gives the exit code."""
    if path.suffix != ".mlir" or not path.is_file():
        found = "another file" if path.is_file() else "none"
        raise ByocirError("B101", f"expected a program (.mlir), found {found}", where=str(path))
    case = read_case(path, read_arrays(path.with_suffix(FEEDS)))
    with quiet():
        trial = Trial(case, target, is_exported=has_device(target)).run()
        others = {} if trial.problem else differing(target, {path.stem: case})
    problem = trial.problem or next(iter(others.values()), None)
    if problem is None:
        print("ok" if trial.is_run else "the program means nothing on these inputs")
        return OK
    print(problem)
    return CHECK_FAILED

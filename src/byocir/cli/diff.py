"""`byocir diff`: shows how two compilations of a model differ."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import byocir
from byocir.cli.guard import OK
from byocir.cli.steps import is_package
from byocir.errors import ByocirError
from byocir.files import read_whole
from byocir.runtime.report import Report
from byocir.runtime.report_diff import compare


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    for name, which in (("a", "one package or report"), ("b", "another")):
        parser.add_argument(name, type=Path, metavar=name.upper(), help=which)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Prints how the second of two packages or reports differs from the first; gives the exit
    code.
    """
    found = compare(*(_report(path) for path in (options.a, options.b)))
    print(json.dumps(found.to_dict(), indent=1) if options.json else found)
    return OK


def _report(path: Path) -> Report:
    """Reads the report of a package, or one that `--report` wrote. Raises ByocirError B101 for
    another file, and errors as `byocir.load`.
    """
    if is_package(path):
        return byocir.load(path).report
    try:
        return Report.from_dict(json.loads(read_whole(path)))
    except (OSError, ValueError, RecursionError) as error:
        found = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, UnicodeDecodeError | json.JSONDecodeError | RecursionError):
            found = "no JSON"
        raise ByocirError(
            "B101",
            f"expected a package or a report, found: {found}",
            where=str(path),
            help="`byocir compile` writes packages, `byocir compile --report FILE` reports",
        ) from None

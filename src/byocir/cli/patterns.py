"""`byocir patterns`: says in markdown what a target takes."""

from __future__ import annotations

import argparse

from byocir.cli.guard import OK
from byocir.patterns.document import document
from byocir.patterns.targets import composites_of, parse_targets
from byocir.targets.resolve_targets import named_target


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("target", help="a target, or one in a file, npu.py:Npu")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Prints the composites of the target; gives the exit code."""
    attributes = parse_targets(named_target(options.target))
    tables = [document(a.target_name.data, composites_of(a)) for a in attributes]
    print("\n".join(tables), end="")
    return OK

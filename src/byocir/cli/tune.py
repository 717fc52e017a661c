"""`byocir tune`: finds the schedules of a model's composites that cost least, for `--tuned`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from byocir.cli.arguments import add_executor, add_model, add_seed, count, seconds
from byocir.cli.guard import OK
from byocir.cli.journals import journal_beside, resume_hint
from byocir.cli.steps import levels_of, placement_of, refuse, refuse_package, shapes_of
from byocir.cli.user_files import check_writable, write_text
from byocir.rewrites.byoc.tuned import TunedTable
from byocir.tuning.executors import executor_of
from byocir.tuning.tune import tune


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument(
        "--trials",
        type=count,
        default=30,
        metavar="N",
        help="how many schedules to try for each composite (default: 30)",
    )
    parser.add_argument("--seconds", type=seconds, help="how long to try in all (default: no end)")
    add_seed(parser, "of what is chosen among many")
    add_executor(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the table (JSON)"
    )
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Writes the table; gives the exit code."""
    journal = journal_beside(options.output)
    check_writable(options.output, journal)
    refuse(options, "tune", ["tuned"], "it begins with what targets choose by themselves")
    refuse_package(options)
    with executor_of(options.jobs, options.executor or "") as executor, resume_hint(journal):
        table = tune(
            options.model,
            targets=options.target,
            shapes=shapes_of(options),
            levels=levels_of(options),
            placement=placement_of(options),
            objective=options.objective or "",
            costs=options.costs,
            trials=options.trials,
            seconds=options.seconds,
            seed=options.seed,
            executor=executor,
            journal=journal,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )
    write_text(options.output, table.to_json())
    print(_summary(table))
    print(f"wrote {len(table.entries):,} schedules to {options.output}")
    return OK


def _summary(table: TunedTable) -> str:
    """Counts the composites that now cost less than with their targets' own schedules."""
    found = [each for each in table.entries.values() if each.cost < each.default]
    most = max((1 - each.cost / each.default for each in found), default=0)
    told = f", by up to {most:.1%}" if found else ""
    return f"{len(found):,} of {len(table.entries):,} composites cost less than before{told}"

"""`byocir sweep`: shows what a model costs with many settings of a target, as a table and a page.

If it writes one of these, an interrupted run continues where it was when the command is given
again.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from byocir.cli.arguments import add_executor
from byocir.cli.guard import OK
from byocir.cli.journals import journal_beside, resume_hint
from byocir.cli.steps import levels_of, shapes_of
from byocir.cli.user_files import check_writable, write_text
from byocir.tuning.executors import executor_of
from byocir.tuning.sweep import SweepPoint, pareto, settings_of, sweep
from byocir.tuning.sweep_page import page

HEADS = ("cycles", "energy [uJ]", "memory [Kbit]", "utilisation", "")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("model", type=Path, help="an ONNX file or a module (.mlir)")
    parser.add_argument(
        "--target", default="vta", metavar="T", help="a target, or one in a file (default: vta)"
    )
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="NAME=VALUES",
        help="an option of the target, or a part of its configuration, and its values: "
        "log_block=3..5, rounding=half_up,half_even; repeat for all combinations",
    )
    parser.add_argument("--levels", help="where targets may take work (default: graph,tensor)")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=D,D,…",
        help="the shape of an input with symbolic dimensions; repeat for each input",
    )
    add_executor(parser)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the points as a table")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with a plot")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; gives the exit code."""
    output = options.csv or options.html
    journal = None if output is None else journal_beside(output)
    check_writable(options.csv, options.html, journal)
    vary = settings_of(options.vary)
    with executor_of(options.jobs, options.executor or "") as executor, resume_hint(journal):
        points = sweep(
            options.model,
            vary,
            target=options.target,
            shapes=shapes_of(options),
            levels=levels_of(options),
            executor=executor,
            journal=journal,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )
    print(table(points))
    if options.csv is not None:
        write_text(options.csv, as_csv(points))
    if options.html is not None:
        write_text(options.html, page(points, f"{options.model.name} on {options.target}"))
    return OK


def table(points: Sequence[SweepPoint]) -> str:
    """Tabulates the points, with a star for the Pareto set, and the reasons for points that could
    not be compiled.
    """
    rows = [[*points[0].settings, *HEADS]]
    for each, best in zip(points, pareto(points), strict=True):
        rows.append([*map(str, each.settings.values()), *_shown(each, best)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
    reasons = ["", *(each.refusal for each in points)]
    return "\n".join(f"{line}  {why}".rstrip() for line, why in zip(lines, reasons, strict=True))


def _shown(each: SweepPoint, best: bool) -> list[str]:
    if each.refusal:
        return [""] * len(HEADS)
    return [
        f"{each.cycles:,}",
        "" if each.energy is None else f"{each.energy / 1e6:,.2f}",
        f"{each.memory / 1024:,.0f}",
        "" if each.utilisation is None else f"{100 * each.utilisation:.1f} %",
        "*" if best else "",
    ]


def as_csv(points: Sequence[SweepPoint]) -> str:
    """Writes the points as comma-separated values, numbers as they are."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    names = ("cycles", "energy_pj", "memory_bits", "utilisation", "pareto", "refusal")
    rows.writerow([*points[0].settings, *names])
    for each, best in zip(points, pareto(points), strict=True):
        costs = [each.cycles, each.energy, each.memory, each.utilisation, best]
        known = [""] * len(costs) if each.refusal else costs
        rows.writerow([*each.settings.values(), *known, each.refusal])
    return out.getvalue()

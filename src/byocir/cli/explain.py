"""`byocir explain`: where each node of a model or package went, and why."""

from __future__ import annotations

import argparse

from byocir.cli.guard import OK
from byocir.cli.run import (
    is_package,
    levels_of,
    load_package,
    placement_of,
    shapes_of,
)
from byocir.compiler import hand_over
from byocir.runtime.explain import by_op_type, explain, node_data, summary
from byocir.runtime.report import Report
from byocir.runtime.saved import read_model


def run(options: argparse.Namespace) -> int:
    """Prints the report of a compilation as far as the hand-off, or the one a package holds."""
    report = _report(options)
    if options.json:
        print(node_data(report, options.node) if options.node else report.to_json(), end="")
    elif options.table:
        print(by_op_type(report))
    else:
        print(explain(report, options.node))
        if options.node is None:
            print(f"\n{summary(report)}")
    return OK


def _report(options: argparse.Namespace) -> Report:
    if is_package(options.model):
        return load_package(options).report
    return hand_over(
        read_model(options.model, shapes=shapes_of(options)),
        options.target,
        levels=levels_of(options),
        placement=placement_of(options),
        objective=options.objective or "",
    )

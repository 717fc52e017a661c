"""`byocir explain`: where each node of a model or package went, and why."""

from __future__ import annotations

import argparse

from byocir.cli.guard import OK
from byocir.cli.hosts import host_text
from byocir.cli.run import hand_over_as_asked, is_package, load_package, refuse, shapes_of
from byocir.cli.user_files import check_writable, write_text
from byocir.compiler import generate
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.explain import by_op_type, explain, node_data, summary
from byocir.runtime.page import page
from byocir.runtime.report import Report
from byocir.runtime.saved import read_model


def run(options: argparse.Namespace) -> int:
    """Prints the report of a compilation as far as the hand-off, or with `--code` of all of it, or
    the one a package holds; or writes it as a page."""
    check_writable(options.html)
    report = _report(options)
    if options.html is not None:
        write_text(options.html, page(report, options.model.name))
    if options.json:
        print(node_data(report, options.node) if options.node else report.to_json(), end="")
    elif options.html is not None:
        print(f"wrote {options.html}")
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
    host = host_text(options)
    if not options.code:
        refuse(options, "explain as far as the hand-off", ["host"], "give --code, too")
    module = read_model(options.model, shapes=shapes_of(options), targets=options.target)
    report = hand_over_as_asked(options, module, PassRunner())
    return generate(module, report, host=host).report if options.code else report

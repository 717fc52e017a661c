"""`byocir explain`: tells where each node of a model or package went, and why."""

from __future__ import annotations

import argparse
from pathlib import Path

from byocir.cli.arguments import add_host, add_isolation, add_model
from byocir.cli.guard import OK
from byocir.cli.hosts import host_text
from byocir.cli.steps import hand_over_as_asked, is_package, load_package, refuse, shapes_of
from byocir.cli.user_files import check_writable, write_text
from byocir.compiler import generate
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.page import page
from byocir.runtime.read_model import read_model
from byocir.runtime.report import Report
from byocir.runtime.report_text import by_op_type, explain, node_data, summary


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file, a module (.mlir) or a package")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--node", help="only this node, with everything that was tried on it")
    one.add_argument("--table", action="store_true", help="count nodes and MACs by op type")
    one.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page with pictures, to be searched"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--code",
        action="store_true",
        help="make the code, too, and tell what that adds: what passes note, padding, cycles, "
        "bytes that cross in another form than the model's, and "
        "with --host c its memory and what it calls back (packages have it)",
    )
    add_host(parser)
    add_isolation(parser)
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Prints the report of a compilation up to the hand-off (with `--code` of all of it), or the
    one in a package; or writes it as a page.
    """
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

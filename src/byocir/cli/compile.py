"""`byocir compile`: compiles a model into a package."""

from __future__ import annotations

import argparse
from pathlib import Path

from byocir.cli.arguments import (
    add_emit,
    add_host,
    add_host_ops,
    add_isolation,
    add_model,
    add_stages,
)
from byocir.cli.given_inputs import GivenInputs
from byocir.cli.guard import OK
from byocir.cli.hosts import host_text
from byocir.cli.steps import PACKAGE_SUFFIX, compile_with_steps, refuse_package, write_report
from byocir.cli.user_files import check_writable
from byocir.errors import ByocirError
from byocir.runtime.report_text import summary


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument(
        "-o", "--output", type=Path, help="the package (default: MODEL.bpkg in this folder)"
    )
    parser.add_argument(
        "--golden",
        metavar="IN.npz",
        nargs="?",
        type=Path,
        const=Path(),
        help="keep inputs, seeded numbers or these, and the outputs that the evaluator makes of "
        "them, for `run --selftest`",
    )
    parser.add_argument("--report", type=Path, help="write the report (JSON)")
    add_host(parser)
    add_emit(parser)
    add_host_ops(parser)
    add_stages(parser)
    add_isolation(parser)
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Compiles, and writes the package or a stage; gives the exit code."""
    if options.emit is not None:
        from byocir.cli.emit import emit

        return emit(options, None if options.output == Path("-") else options.output)
    refuse_package(options)
    path: Path = options.output or Path(f"{options.model.stem}{PACKAGE_SUFFIX}")
    check_writable(path, options.report)
    if path.exists() and options.model.exists() and path.samefile(options.model):
        raise ByocirError("B112", "expected a file to write other than the model", where=str(path))
    given = GivenInputs(options.golden if options.golden != Path() else None)
    package = compile_with_steps(options, host=host_text(options), expect=given.check)
    if options.golden is not None:
        from byocir.cli.golden import add_golden

        add_golden(options, package, given)
    package.save(path)
    write_report(package.report, options.report)
    print(summary(package.report))
    print(f"wrote {path}")
    return OK

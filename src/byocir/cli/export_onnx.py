"""`byocir export-onnx`: writes a model as ONNX again, with what became of each node in its
metadata."""

from __future__ import annotations

import argparse
from pathlib import Path

import byocir
from byocir.cli.arguments import add_model
from byocir.cli.guard import OK
from byocir.cli.steps import is_package, levels_of, placement_of, refuse, shapes_of
from byocir.cli.user_files import check_writable, write_model
from byocir.errors import ByocirError
from byocir.evaluate.module import MAIN
from byocir.runtime.read_model import is_saved_module, read_model

OF_TARGETS = ("levels", "objective", "costs", "placement", "rewritten", "region")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file or a module (.mlir)", "none, the model as it is read")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file")
    parser.add_argument(
        "--rewritten",
        action="store_true",
        help="write what is handed over at the graph level, instead of the model's own nodes",
    )
    parser.add_argument("--region", metavar="NAME", help="only this region, e.g. vta_0, rewritten")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Writes the model; gives the exit code."""
    model, path = options.model, options.output
    _check(options)
    check_writable(path)
    if path.exists() and path.samefile(model):
        raise ByocirError("B112", "expected a file to write other than the model", where=str(path))
    module = read_model(model, shapes=shapes_of(options), targets=options.target)
    exported = byocir.export_onnx(
        module,
        options.target or (),
        function=options.region or MAIN,
        rewritten=options.rewritten,
        levels=levels_of(options),
        placement=placement_of(options),
        objective=options.objective or "",
        costs=options.costs,
    )
    nodes = len(exported.graph.node)
    files = write_model(path, exported)
    print(f"wrote {nodes:,} nodes to {_listed(files)}")
    return OK


def _check(options: argparse.Namespace) -> None:
    """Raises ByocirError B114 for options without a meaning here, B109 for a package."""
    if is_package(options.model):
        raise ByocirError(
            "B109",
            "expected an ONNX model, found a package, whose regions are code",
            where=str(options.model),
            help="give the model that it was compiled from",
        )
    refuse(options, "export-onnx", ["tuned"], "a model in ONNX has no schedules")
    given = [name for name in OF_TARGETS if getattr(options, name)]
    if given and not options.target and not is_saved_module(options.model):
        raise ByocirError(
            "B114", f"expected --target with --{given[0]}, found none", help="e.g. --target vta"
        )


def _listed(files: list[Path]) -> str:
    return " and ".join(map(str, files))

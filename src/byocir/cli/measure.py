"""`byocir measure`: measures what composites of targets cost, as a table that an objective can use.

The model is first rewritten to the numbers with which all targets together compute. Then it is
compiled for each target alone, with a region for each composite, and run once. A region's time, in
seconds, is the least of several runs of its code on the inputs that it had there. If the target
tells the time of its programs on the device (`Profile.seconds`), as VTA's simulator does, that is
taken instead. Regions without code, which run in the evaluator, are left out. With `--host c` each
region is timed as the host's C, too, alone and on arrays in row-major order, as a target gets them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.cli.arguments import add_model
from byocir.cli.guard import OK
from byocir.cli.steps import levels_of, refuse, refuse_package, shapes_of, targets_of
from byocir.cli.user_files import check_writable, read_feeds, write_text
from byocir.compiler import compile, generate
from byocir.dialects.byoc import HOST, LEVELS, TARGET, CompositeOp
from byocir.dialects.context import load_context
from byocir.errors import ByocirError
from byocir.evaluate.module import MAIN
from byocir.rewrites.bufferize import inline_composites
from byocir.rewrites.byoc.costs import CostTable, work_of
from byocir.rewrites.byoc.merge_regions import MergeRegionsPass
from byocir.rewrites.byoc.outline_regions import OutlineRegionsPass
from byocir.rewrites.byoc.table_form import Work
from byocir.rewrites.host.c_host import parse_c_host
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.package import Package
from byocir.runtime.read_model import read_model
from byocir.runtime.report_of_module import report_of
from byocir.runtime.time_regions import host_seconds, seconds_of
from byocir.targets.base import Target
from byocir.targets.hand_off_passes import is_handed_over, partition_pipeline, rewrites_pipeline


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument("--input", type=Path, help="inputs by name (.npz); default: seeded numbers")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the table (JSON)"
    )
    parser.add_argument(
        "--host", metavar="c", help="c, c{cpu=…,threads=…}: measures all as C of the host, too"
    )
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Writes the table; gives the exit code."""
    check_writable(options.output)
    late = ["objective", "costs", "placement", "tuned"]
    refuse(options, "measure", late, "each target is measured alone")
    refuse_package(options)
    module = read_model(options.model, shapes=shapes_of(options), targets=options.target)
    if is_handed_over(module):
        raise ByocirError("B114", "expected a module before its hand-off, found a partitioned one")
    costs: dict[Work, Mapping[str, float]] = {}
    run_passes(module, load_context(), rewrites_pipeline(module, targets_of(options)))
    pieces: dict[Work, ModuleOp] = {}
    for target in targets_of(options):
        package, works = compiled_alone(module, target, levels_of(options), pieces)
        feeds = read_feeds(options.input, package)
        found = seconds_of(package, feeds)
        costs |= _costs(found, works)
        print(f"{target}: {len(found):,} of {len(works):,} functions have code that was measured")
    if options.host is not None:
        costs |= _of_host(pieces, options.host)
    for (composite, ops), cost in sorted(costs.items()):
        print(f"{cost['latency']:>12.3g} s  {composite:<24} {ops[0]}")
    write_text(options.output, CostTable(costs).to_json())
    print(f"wrote {len(costs):,} costs to {options.output}")
    return OK


def compiled_alone(
    module: ModuleOp,
    target: str | Target,
    levels: Sequence[str] = LEVELS,
    pieces: dict[Work, ModuleOp] | None = None,
) -> tuple[Package, dict[str, Work]]:
    """Compiles a model for one target with a region for each composite; gives the package and, by
    function, the work that was matched. `pieces` gets each work as a module of its own.
    """
    alone, works = module.clone(), dict[str, Work]()

    def after_pass(pass_: ModulePass, module: ModuleOp, _: float) -> None:
        if isinstance(pass_, OutlineRegionsPass):
            new = {f: work for f, work in _works(module).items() if f.sym_name.data not in works}
            works.update({function.sym_name.data: work for function, work in new.items()})
            if pieces is not None:
                pieces.update({work: _piece(function) for function, work in new.items()})

    passes = partition_pipeline(alone, [target], levels)
    kept = [pass_ for pass_ in passes if not isinstance(pass_, MergeRegionsPass)]
    run_passes(alone, load_context(), kept, callback=after_pass)
    return generate(alone, report_of(alone)), works


def _works(module: ModuleOp) -> dict[FuncOp, Work]:
    """Finds the work of each function that is a region of one composite."""
    works: dict[FuncOp, Work] = {}
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and TARGET in function.attributes:
            composites = [op for op in function.walk() if isinstance(op, CompositeOp)]
            if len(composites) == 1:
                (taken,) = composites
                inner = [op for op in taken.body.block.ops if op.next_op is not None]
                works[function] = work_of(taken.pattern.data, inner)
    return works


def _costs(seconds: Mapping[str, float], works: Mapping[str, Work]) -> dict[Work, dict[str, float]]:
    """Gives the cost of each work: that of the function doing it that took least."""
    costs: dict[Work, dict[str, float]] = {}
    for symbol, least in seconds.items():
        if symbol in works:
            known = costs.get(works[symbol], {}).get("latency", least)
            costs[works[symbol]] = {"latency": min(least, known)}
    return costs


def _piece(function: FuncOp) -> ModuleOp:
    """Makes a module of what a region's function computes, without composites."""
    body = function.clone()
    inline_composites(body)
    return ModuleOp([FuncOp(MAIN, body.function_type, body.detach_region(body.body))])


def _of_host(pieces: Mapping[Work, ModuleOp], host: str) -> dict[Work, Mapping[str, float]]:
    """Measures the work that targets took as C on a host."""
    parse_c_host(host)
    alone = {ops: piece for (_, ops), piece in pieces.items()}
    packages = {ops: compile(piece, targets=[], host=host) for ops, piece in alone.items()}
    print(f"host: {len(packages):,} works were measured as C")
    return {(HOST, ops): {"latency": host_seconds(made)} for ops, made in packages.items()}

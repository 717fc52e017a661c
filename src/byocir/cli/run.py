"""`byocir run`: compiles a model, or loads a package, and runs it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from byocir.cli.arguments import (
    add_emit,
    add_host,
    add_host_ops,
    add_isolation,
    add_model,
    add_seed,
    add_stages,
)
from byocir.cli.given_inputs import GivenInputs
from byocir.cli.guard import OK
from byocir.cli.hosts import host_text
from byocir.cli.profile import cycles_table
from byocir.cli.steps import (
    VERIFY_INSTEAD,
    StepTimer,
    compile_with_steps,
    is_package,
    load_package,
    refuse,
    shapes_of,
    targets_of,
    write_report,
)
from byocir.cli.user_files import check_writable, make_folder, write_arrays
from byocir.errors import ByocirError, escaped
from byocir.runtime.package import Package
from byocir.runtime.read_model import is_saved_module
from byocir.runtime.report_text import summary


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file, a module (.mlir), a package, or a folder with a job.json")
    parser.add_argument("--input", type=Path, help="inputs by name (.npz); default: seeded numbers")
    add_seed(parser)
    parser.add_argument("--output", type=Path, help="write the outputs by name (.npz)")
    parser.add_argument("--report", type=Path, help="write the report (JSON)")
    parser.add_argument(
        "--verify", action="store_true", help="compare with the evaluator and ONNX Runtime"
    )
    parser.add_argument(
        "--check", action="store_true", help="look for hazards in the targets' code as it runs"
    )
    parser.add_argument(
        "--selftest", action="store_true", help="run a package on its golden inputs, and compare"
    )
    parser.add_argument(
        "--timing", action="store_true", help="print simulated cycles by layer, unit and cause"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="DIR", help="write when each instruction runs, for Perfetto"
    )
    add_host(parser)
    add_emit(parser)
    add_host_ops(parser)
    add_stages(parser)
    add_isolation(parser, "making the code of regions, or a call of it,")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Runs a model, a package or the job of a folder, or prints a stage; gives the exit code."""
    if options.emit is not None:
        from byocir.cli.emit import emit

        return emit(options)
    if options.model.is_dir():
        from byocir.cli.job import run_job

        own = ["target", "levels", "objective", "costs", "tuned", "placement", "shape", "input"]
        own += ["output", "report", "verify", "timing", "dump", "check_each", "host", "host_ops"]
        refuse(options, "a job folder, whose job.json says it all", own)
        return run_job(options.model, check=options.check)
    return _run_model(options)


def _run_model(options: argparse.Namespace) -> int:
    """Compiles (or loads) and runs a model; `--verify` compares the outputs with what it must
    compute.
    """
    check_writable(options.output, options.report)
    if options.trace is not None:
        make_folder(options.trace)
    if options.selftest:
        return _selftest(options)
    inputs = GivenInputs(options.input, options.seed)
    package, steps = _package(options, inputs)
    feeds = inputs.feeds(package)
    steps.begin("run")
    outputs = _outputs(package, feeds, options)
    steps.end()
    print(summary(package.report))
    _tell_times(package, options)
    write_report(package.report, options.report)
    for name, array in outputs.items():
        print(f"{escaped(name)}: {'x'.join(map(str, array.shape)) or 'scalar'} {array.dtype}")
    if options.output is not None:
        write_arrays(options.output, outputs)
        print(f"wrote {options.output}")
    if not options.verify:
        return OK
    from byocir.cli.verify import verify

    steps.begin("verify")
    lines, code = verify(options.model, shapes_of(options), targets_of(options), feeds, outputs)
    steps.end()
    print("\n".join(lines))
    return code


def _selftest(options: argparse.Namespace) -> int:
    """Runs a package on its golden inputs."""
    if not is_package(options.model):
        refuse(options, "a model", ["selftest"], "compile it with --golden, and run the package")
    from byocir.cli.golden import selftest

    package, steps = _package(options, GivenInputs(None))
    own = ["input", "output", "report", "check", "timing", "trace"]
    refuse(options, "--selftest", own, "its inputs are those of the package")
    steps.end()
    return selftest(package)


def _package(options: argparse.Namespace, inputs: GivenInputs) -> tuple[Package, StepTimer]:
    """Loads a package, or compiles a model."""
    if is_package(options.model):
        steps = StepTimer(2)
        steps.begin("load")
        return load_package(options), steps
    if is_saved_module(options.model):
        refuse(options, "a module, which ONNX Runtime cannot read", ["verify"], VERIFY_INSTEAD)
    steps = StepTimer(5 if options.verify else 4)
    return compile_with_steps(options, steps, host=host_text(options), expect=inputs.check), steps


def _tell_times(package: Package, options: argparse.Namespace) -> None:
    """Prints the cycles of each region, and writes their traces, where that is asked for."""
    if options.timing:
        tables = [cycles_table(profile) for profile in package.profile()]
        print("\n".join(tables) or "no target tells what its code takes")
    if options.trace is not None:
        from byocir.cli.traces import write_traces

        print("\n".join(write_traces(package, options.trace)))


def _outputs(
    package: Package, feeds: Mapping[str, np.ndarray], options: argparse.Namespace
) -> dict[str, np.ndarray]:
    """Runs the package. Where an index leads outside of its array, adds to the error that the
    inputs were drawn, if they were.
    """
    try:
        return package.run(feeds, check=options.check)
    except ByocirError as error:
        if error.code != "B303" or options.input is not None or error.help:
            raise
        help = "the inputs were drawn at random: give some that fit, --input FILE.npz"
        raise ByocirError(error.code, error.message, where=error.where, help=help) from error

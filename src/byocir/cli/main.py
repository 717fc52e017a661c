"""`byocir`: compile, run and explain models from the command line.

Exit codes: 0 ok, 1 user error, 2 usage, 3 a check failed, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from byocir.cli.arguments import add_isolation, add_limit, isolated_as_asked, seconds
from byocir.cli.guard import OK, Parser, guarded
from byocir.cli.vta import add_vta
from byocir.errors import ByocirError


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit code."""
    options = build_parser().parse_args(args)
    command = ["byocir", *(sys.argv[1:] if args is None else args)]

    def verb() -> int:
        with isolated_as_asked(options):
            return options.verb(options)

    return guarded(verb, command, options.max_bytes)


def build_parser() -> argparse.ArgumentParser:
    """Builds the command line of `byocir`."""
    parser = Parser(
        prog="byocir", description="Compile ONNX models for hardware that you bring yourself."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_run(verbs.add_parser("run", help="compile a model (or load a package) and run it"))
    _add_compile(verbs.add_parser("compile", help="compile a model into a package"))
    _add_export(verbs.add_parser("export", help="write a model as a C project without Python"))
    _add_export_onnx(
        verbs.add_parser("export-onnx", help="write a model as ONNX, with what became of each node")
    )
    _add_explain(verbs.add_parser("explain", help="say for each node where it went, and why"))
    _add_diff(verbs.add_parser("diff", help="say in what two packages or reports differ"))
    _add_bisect(
        verbs.add_parser("bisect", help="find the step of a compilation that changes a result")
    )
    _add_measure(verbs.add_parser("measure", help="measure what composites of targets cost"))
    _add_sweep(
        verbs.add_parser("sweep", help="compile for many settings of a target, and compare costs")
    )
    _add_quantise(verbs.add_parser("quantise", help="quantise a float model for a target"))
    _add_tune(verbs.add_parser("tune", help="find the schedules of composites that cost least"))
    _add_conform(verbs.add_parser("conform", help="try a target on programs made for its patterns"))
    _add_new_target(verbs.add_parser("new-target", help="begin a target: a package that works"))
    targets = verbs.add_parser("targets", help="list targets, their options and patterns")
    targets.add_argument(
        "target", nargs="*", help="only these: names, or files, npu.py:Npu (default: all installed)"
    )
    targets.add_argument("--json", action="store_true", help="print JSON")
    targets.set_defaults(verb=_targets)
    patterns = verbs.add_parser("patterns", help="say in markdown what a target takes")
    patterns.add_argument("target", help="a target, or one in a file, npu.py:Npu")
    patterns.set_defaults(verb=_patterns)
    ops = verbs.add_parser("ops", help="describe ops: operands, attributes, origin, an example")
    ops.add_argument("op", nargs="?", help="one of them, graph.conv (default: list all)")
    ops.set_defaults(verb=_ops)
    for verb in verbs.choices.values():
        add_limit(verb)
    add_vta(verbs.add_parser("vta", help="assemble, disassemble, run and trace VTA programs"))
    return parser


def _later(home: str) -> Callable[[argparse.Namespace], int]:
    """Gives the function of a verb, `module:name` in this folder, imported when it runs."""

    def verb(options: argparse.Namespace) -> int:
        module, _, name = home.partition(":")
        return getattr(import_module(f"byocir.cli.{module}"), name)(options)

    return verb


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from importlib.metadata import version

        print(f"byocir {version('byocir')}")
        parser.exit()


class _Targets(argparse.Action):
    """Collects targets in order; `host` adds none, so that alone it leaves all to the host."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        before: list[str] = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*before, *([values] if values != "host" else [])])


def _add_model(
    parser: argparse.ArgumentParser, what: str = "an ONNX file", default: str = "vta"
) -> None:
    parser.add_argument("model", type=Path, help=what)
    parser.add_argument(
        "--target",
        action=_Targets,
        metavar="T",
        help="a target with options, e.g. vta{rounding=half_even}, or one in a file, npu.py:Npu; "
        "host leaves all to the host; "
        f"repeat in order of preference (default: {default})",
    )
    parser.add_argument(
        "--levels",
        help="where targets may take work (default: graph,tensor)",
    )
    parser.add_argument(
        "--objective",
        choices=["latency", "energy", "bytes"],
        help="latency, energy or bytes: targets that tell their costs compete",
    )
    parser.add_argument(
        "--costs",
        type=Path,
        metavar="FILE",
        help="costs that were measured, which count before what targets tell (byocir measure)",
    )
    parser.add_argument(
        "--tuned",
        type=Path,
        metavar="FILE",
        help="schedules that were found best (byocir tune)",
    )
    parser.add_argument(
        "--placement",
        type=Path,
        metavar="FILE",
        help='where nodes go whatever patterns say: JSON, {"name or regex": "target or host"}',
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=D,D,…",
        help="the shape of an input with symbolic dimensions, or of one with a value of its own, "
        "which can then be fed (NAME=scalar if it has none); repeat for each input",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file, a module (.mlir), a package, or a folder with a job.json")
    parser.add_argument("--input", type=Path, help="inputs by name (.npz); default: seeded numbers")
    _add_seed(parser)
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
    _add_host(parser)
    _add_emit(parser)
    _add_host_ops(parser)
    _add_stages(parser)
    add_isolation(parser, "each call of a region's code")
    parser.set_defaults(verb=_run)


def _add_seed(parser: argparse.ArgumentParser, what: str = "of the inputs") -> None:
    parser.add_argument("--seed", type=_number, default=0, help=f"{what} (default: 0)")


def _number(text: str) -> int:
    with suppress(ValueError):  # of numbers that are too long
        if text.isdecimal():
            return int(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 on, found '{text}'")


def _count(text: str) -> int:
    if (number := _number(text)) > 0:
        return number
    raise argparse.ArgumentTypeError(f"expected a number from 1 on, found '{text}'")


def _add_host(parser: argparse.ArgumentParser, default: str = "reference") -> None:
    parser.add_argument(
        "--host",
        metavar="HOST",
        help="what runs the nodes that no target takes: reference, the evaluator that defines "
        "their meaning, or C code made for them: c, or with options c{cpu=native,threads=1} "
        f"(default: {default})",
    )


def _add_host_ops(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host-ops",
        metavar="TYPES",
        help="fail, and say why, if operators of other types than these stay on the host: "
        "none, or e.g. QuantizeLinear,DequantizeLinear",
    )


def _add_emit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--emit",
        metavar="STAGE",
        help="print one stage and stop: import, graph, partitioned, tir, fused, scf, vta, asm, "
        "json, c, h, or the name of a pass, after which it is",
    )


def _add_stages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write every stage, numbered")
    parser.add_argument(
        "--check-each",
        action="store_true",
        help="evaluate after every pass; stop at the first that changes a result",
    )


def _add_compile(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file or a module (.mlir)")
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
    _add_host(parser)
    _add_emit(parser)
    _add_host_ops(parser)
    _add_stages(parser)
    parser.set_defaults(verb=_compile)


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file, a module (.mlir) or a package")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="a new or an empty folder, or one that export has written before",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files there, whoever wrote them"
    )
    _add_host(parser, default="c{cpu=generic}, C for any machine")
    parser.add_argument(
        "--name",
        default="model",
        help="what files and symbols of the model begin with, for several in one program",
    )
    parser.add_argument(
        "--weights-as",
        default="file",
        metavar="file|c",
        help="weights in a file beside the program (default), or as C arrays in it",
    )
    _add_host_ops(parser)
    _add_stages(parser)
    parser.set_defaults(verb=_later("export:export"))


def _add_export_onnx(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file or a module (.mlir)", "none, the model as it is read")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file")
    parser.add_argument(
        "--rewritten",
        action="store_true",
        help="write what is handed over at the graph level, instead of the model's own nodes",
    )
    parser.add_argument("--region", metavar="NAME", help="only this region, e.g. vta_0, rewritten")
    parser.set_defaults(verb=_later("export_onnx:export_onnx"))


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file, a module (.mlir) or a package")
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
        help="make the code, too, and tell what that adds: what passes note, padding, cycles, and "
        "with --host c its memory and what it calls back (packages have it)",
    )
    _add_host(parser)
    parser.set_defaults(verb=_later("explain:run"))


def _add_diff(parser: argparse.ArgumentParser) -> None:
    for name, which in (("a", "one package or report"), ("b", "another")):
        parser.add_argument(name, type=Path, metavar=name.upper(), help=which)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(verb=_later("diff:run"))


def _add_measure(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument("--input", type=Path, help="inputs by name (.npz); default: seeded numbers")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the table (JSON)"
    )
    parser.add_argument(
        "--host", metavar="c", help="c, c{cpu=…,threads=…}: measures all as C of the host, too"
    )
    parser.set_defaults(verb=_later("measure:measure"))


def _add_quantise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="an ONNX file, in float")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="samples by input (.npz), which set the ranges; labels beside them are found",
    )
    parser.add_argument(
        "--target", default="vta", metavar="T", help="a target, or one in a file (default: vta)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the model (default: MODEL_int8.onnx)"
    )
    parser.add_argument(
        "--powers-of-two",
        action=argparse.BooleanOptionalAction,
        help="scales whose quotients are powers of two (default: as the target asks)",
    )
    parser.add_argument(
        "--per-channel",
        action=argparse.BooleanOptionalAction,
        help="a scale for each channel of weights (default: as the target asks)",
    )
    parser.add_argument(
        "--samples", type=_count, default=512, help="samples that set the ranges (default: 512)"
    )
    parser.add_argument("--labels", metavar="NAME", help="the array of labels in the file")
    parser.set_defaults(verb=_later("quantise:run"))


def _add_tune(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument(
        "--trials",
        type=_count,
        default=30,
        metavar="N",
        help="how many schedules to try for each composite (default: 30)",
    )
    parser.add_argument("--seconds", type=seconds, help="how long to try in all (default: no end)")
    _add_seed(parser, "of what is chosen among many")
    _add_executor(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the table (JSON)"
    )
    parser.set_defaults(verb=_later("tune:tune"))


def _add_executor(parser: argparse.ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--jobs", type=_count, default=1, metavar="N", help="judge N at once (default: 1)"
    )
    who.add_argument(
        "--executor", metavar="dask://HOST:PORT", help="judge them on a Dask cluster instead"
    )


def _add_sweep(parser: argparse.ArgumentParser) -> None:
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
    _add_executor(parser)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the points as a table")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with a plot")
    parser.set_defaults(verb=_later("sweep:run"))


def _add_conform(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="a target with options, or one in a file, npu.py:Npu")
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, help="how long to try it (default: 60)"
    )
    parser.add_argument(
        "--rounds",
        type=_number,
        metavar="N",
        help="instead of for some time, N cases of each pattern and kind: the same each time",
    )
    parser.add_argument(
        "--pattern", action="append", default=[], metavar="P", help="only this one; repeat for more"
    )
    parser.add_argument("--seed", type=_number, default=0, help="of what is drawn (default: 0)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="where programs that show a problem are written (default: conform-NAME)",
    )
    parser.add_argument("--first", action="store_true", help="end with the first problem")
    parser.add_argument(
        "--case", type=Path, metavar="FILE", help="try one program again that was written"
    )
    parser.add_argument("--json", action="store_true", help="print the score as JSON")
    add_isolation(parser, "running each program, in all ways,")
    parser.set_defaults(verb=_later("conform:conform"))


def _add_bisect(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument("--input", type=Path, help="inputs by name (.npz); default: seeded numbers")
    _add_seed(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_host(parser)
    add_isolation(parser, "each call of a region's code")
    parser.set_defaults(verb=_later("bisect:bisect"))


def _run(options: argparse.Namespace) -> int:
    from byocir.cli.run import refuse, run

    if options.emit is not None:
        return _emit(options)
    if not options.model.is_dir():
        return run(options)
    from byocir.cli.job import run_job

    own = ["target", "levels", "objective", "costs", "tuned", "placement", "shape", "input"]
    own += ["output", "report", "verify", "timing", "dump", "check_each", "host", "host_ops"]
    refuse(options, "a job folder, whose job.json says it all", own)
    return run_job(options.model, check=options.check)


def _emit(options: argparse.Namespace, output: Path | None = None) -> int:
    from byocir.cli.emit import emit
    from byocir.cli.run import is_package

    if options.model.is_dir() or is_package(options.model):
        found = "a folder" if options.model.is_dir() else "a package"
        where = str(options.model)
        raise ByocirError("B102", f"expected an ONNX model, found {found}", where=where)
    return emit(options, output)


def _compile(options: argparse.Namespace) -> int:
    from byocir.cli.hosts import host_text
    from byocir.cli.run import PACKAGE_SUFFIX, compile_with_steps, is_package, write_report
    from byocir.cli.user_files import check_writable
    from byocir.runtime.explain import summary

    if options.emit is not None:
        return _emit(options, options.output)
    if is_package(options.model):
        where = str(options.model)
        raise ByocirError("B102", "expected an ONNX model, found a package", where=where)
    path: Path = options.output or Path(f"{options.model.stem}{PACKAGE_SUFFIX}")
    check_writable(path, options.report)
    if path.exists() and path.samefile(options.model):
        raise ByocirError("B112", "expected another file than the model to write", where=str(path))
    package = compile_with_steps(options, host=host_text(options))
    if options.golden is not None:
        from byocir.cli.golden import add_golden

        add_golden(options, package)
    package.save(path)
    write_report(package.report, options.report)
    print(summary(package.report))
    print(f"wrote {path}")
    return OK


def _patterns(options: argparse.Namespace) -> int:
    from byocir.cli.targets import supported_operators

    print(supported_operators(options.target), end="")
    return OK


def _add_new_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the target and its module, e.g. my_npu")
    parser.add_argument(
        "--kind",
        choices=["library", "machine", "c", "json", "onnx"],
        default="library",
        help="what its code is: calls of a library (default), programs of a machine that is "
        "described, C, JSON, or ONNX models for a toolkit",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="a new or an empty folder (default: NAME)"
    )
    parser.set_defaults(verb=_later("new_target:new_target"))


def _ops(options: argparse.Namespace) -> int:
    from byocir.cli.ops import describe_op, list_ops

    print(list_ops() if options.op is None else describe_op(options.op))
    return OK


def _targets(options: argparse.Namespace) -> int:
    from byocir.dialects.gc_pause import gc_paused

    with gc_paused():  # what is imported stays
        from byocir.cli.targets import list_targets

        print(list_targets(options.target, as_json=options.json))
    return OK


if __name__ == "__main__":
    sys.exit(main())

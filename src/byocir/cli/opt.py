"""byocir-opt: runs passes on a module or an ONNX model, as `xdsl-opt` does.

    byocir-opt IN.mlir -p 'a,b{option=value}' -o OUT.mlir
    byocir-opt model.onnx --shape image=1,1,28,28 -p normalize-qdq

Text is printed with its locations; `-o OUT.onnx` writes the graph level as an ONNX model. Large
constants are read from IN.safetensors, else from weights.safetensors in the same folder, and
written to OUT.safetensors. Passes are verified one by one. Exit codes: 0 fine, 1 user error, 2
usage error, 70 internal error (a reproducer was written).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass, PassPipeline
from xdsl.syntax_printer import SyntaxPrinter
from xdsl.targets.mlir import MLIRTarget
from xdsl.universe import Universe
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.utils.lexer import Span
from xdsl.xdsl_opt_main import xDSLOptMain

from byocir.cli.arguments import add_limit, read_shapes
from byocir.cli.guard import OK, Parser, guarded
from byocir.dialects.array import Array, ByocirContext
from byocir.dialects.context import OWN_DIALECTS
from byocir.dialects.text import ModulePrinter, SourceParser, text_error
from byocir.dialects.verify import verify_module
from byocir.dialects.weights import SUFFIX, large_arrays, load_weights, save_arrays, weights_beside
from byocir.errors import ByocirError
from byocir.files import read_all, write_whole
from byocir.memory import limit_memory
from byocir.rewrites.pipeline import parse_pipeline, run_passes
from byocir.rewrites.registry import all_passes

if TYPE_CHECKING:
    from onnx import ModelProto

    from byocir.rewrites.check_each import CheckEach

_VERIFIES_ATTRIBUTES = Attribute.__post_init__


class ByocirOptMain(xDSLOptMain):
    """Runs xDSL's driver with our context, frontends, printer and errors.

    `run` raises ByocirError or ByocirInternalError; `run_opt` turns these into messages.
    """

    version_format: ClassVar[str] = "byocir-opt built from xdsl version {xdsl_version}"

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self.spans: dict[Operation, Span] = {}
        self.large: dict[str, Array] = {}
        self.output = _Output()
        self.line_offset = 0
        self.check: CheckEach | None = None
        self.models: list[ModelProto] = []
        super().__init__("Runs passes on MLIR text or an ONNX model.", args)

    # What is known

    def register_all_dialects(self) -> None:
        self.ctx = self.byocir_context = ByocirContext()
        # An installed byocir is among the universes.
        for name, dialect in (_universe().all_dialects | OWN_DIALECTS).items():
            self.ctx.register_dialect(name, dialect)

    def register_all_passes(self) -> None:
        self.available_passes |= _universe().all_passes | all_passes()

    def register_all_targets(self) -> None:
        self.available_targets |= _universe().all_targets | {"mlir": lambda: _MlirTarget}

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends |= {"mlir": self._read_text, "onnx": self._read_onnx}

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        arg_parser.__class__ = Parser  # xDSL makes one that hides where help cannot be written
        super().register_all_arguments(arg_parser)
        self._add_files(arg_parser)
        self._add_extensions(arg_parser)
        arg_parser.add_argument(
            "--check-each",
            action="store_true",
            help="evaluate after every pass; stop at the first that changes a result",
        )

    def _add_files(self, arg_parser: argparse.ArgumentParser) -> None:
        """Adds the options by which modules are read and written."""
        arg_parser.set_defaults(print_debuginfo=True)
        arg_parser.add_argument(
            "--no-debuginfo",
            dest="print_debuginfo",
            action="store_false",
            help="print no locations (they are printed by default)",
        )
        arg_parser.add_argument(
            "--weights",
            metavar="FILE",
            help="read large constants from FILE instead of IN.safetensors, or weights.safetensors "
            "in its folder",
        )
        arg_parser.add_argument(
            "--weights-out",
            metavar="FILE",
            help="write large constants to FILE instead of OUT.safetensors",
        )
        arg_parser.add_argument(
            "--shape",
            metavar="NAME=D,D,…",
            action="append",
            default=[],
            help="the shape of an input that an ONNX model leaves open; may be repeated",
        )

    def _add_extensions(self, arg_parser: argparse.ArgumentParser) -> None:
        """Adds the options that bring targets and passes of files, and the limit on memory."""
        add_limit(arg_parser)
        arg_parser.add_argument(
            "--load-target",
            metavar="FILE.py:CLASS",
            action="append",
            default=[],
            help="a target in a file, which the module or set-targets names; may be repeated",
        )
        arg_parser.add_argument(
            "--load-passes",
            metavar="FILE.py",
            action="append",
            default=[],
            help="a file that defines passes, which -p names; may be repeated",
        )

    def setup_pipeline(self) -> None:
        if self.args.load_passes:
            from byocir.rewrites.rewrite_pass import passes_in

            for path in self.args.load_passes:
                self.available_passes |= passes_in(path)
        owners: dict[str, str] = {}
        for target in self.args.load_target:
            owners |= self._load_target(target)
        passes = parse_pipeline(self.args.passes, self.available_passes)
        if owners:
            from byocir.targets.own_passes import owned

            passes = tuple(owned(owners[p.name], p) if p.name in owners else p for p in passes)
        self.pipeline = PassPipeline(passes)

    def _load_target(self, given: str) -> dict[str, str]:
        """Registers the target of a file, and its passes; gives the target's name for each of these
        passes.
        """
        from byocir.patterns.target_classes import find_class
        from byocir.patterns.targets import parse_targets
        from byocir.targets.own_passes import own_passes
        from byocir.targets.resolve_targets import named_target

        (attribute, *_) = parse_targets(named_target(given))
        found = own_passes(attribute)
        self.available_passes |= found
        name = attribute.target_name.data
        for dialect in find_class(name).dialects:
            if dialect.name not in self.ctx.registered_dialect_names:
                self.ctx.load_dialect(dialect)
        return dict.fromkeys(found, name)

    # What comes in

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        name = self.args.input_file
        if name in (None, "-"):
            return sys.stdin.buffer, "mlir"
        path = Path(name)
        if path.is_dir() or not path.exists():
            found = "a folder" if path.is_dir() else "none"
            raise ByocirError("B101", f"expected a file, found {found}", where=name)
        kind = self.args.frontend or path.suffix.removeprefix(".")
        if kind not in self.available_frontends:
            known = ", ".join(f".{name}" for name in self.available_frontends)
            raise ByocirError(
                "B101",
                f"expected a file that ends in {known}, found '{path.suffix}'",
                where=name,
                help="name what it holds: --frontend mlir",
            )
        self._read_weights(path)
        return path.open("rb"), kind

    def _read_weights(self, path: Path) -> None:
        weights = self.args.weights or weights_beside(path)
        if weights is not None:
            load_weights(weights, self.byocir_context.arrays)

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        self.line_offset = start_offset
        return super().parse_chunk(chunk, file_extension, start_offset)

    def _read_text(self, stream: IO[bytes]) -> ModuleOp:
        name = self.get_input_name()
        content = read_all(stream, name)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise ByocirError("B120", f"expected UTF-8 text: {error.reason}", where=name) from error
        parser = SourceParser(self.ctx, text, name, self.spans, self.line_offset)
        return parser.parse_module(not self.args.no_implicit_module)

    def _read_onnx(self, stream: IO[bytes]) -> ModuleOp:
        from byocir.frontend.onnx import import_onnx
        from byocir.targets.resolve_targets import operators_of

        # By its path where it has one: weights may be in files beside the model.
        name = self.args.input_file
        model = read_all(stream, "standard input") if name in (None, "-") else Path(name)
        operators = operators_of(self.args.load_target)
        return import_onnx(model, shapes=read_shapes(self.args.shape), operators=operators)

    # What is done

    def apply_passes(self, prog: ModuleOp) -> None:
        try:
            if not self.args.disable_verify:
                verify_module(prog)
            passes = self.pipeline.passes
            if self.args.check_each:
                self.check = _check_each(prog)
            verify = not self.args.disable_verify
            run_passes(prog, self.ctx, passes, callback=self._after_pass, verify=verify)
        except ByocirError as error:
            if self.args.verify_diagnostics:
                raise DiagnosticException(error.render()) from error
            raise
        self.large |= large_arrays(prog)

    def _after_pass(self, done: ModulePass, module: ModuleOp, seconds: float) -> None:
        from byocir.dialects.byoc import IN_CODE

        if IN_CODE in module.attributes:
            from byocir.targets.hand_off_passes import note_pass

            note_pass(module, done)
        if self.check is not None:
            self.check(done, module, seconds)
        if self.args.time_passes:
            print(f"{seconds:10.4f} s  {done}", file=sys.stderr)
        if self.args.print_between_passes and done is not self.pipeline.passes[-1]:
            print(f"// IR after {done}:", file=sys.stderr)
            print(self.output_resulting_program(module), file=sys.stderr)

    # What goes out

    def prepare_output(self) -> IO[str]:
        return sys.stdout if self.args.output_file is None else self.output

    def output_resulting_program(self, prog: ModuleOp) -> str:
        if Path(self.args.output_file or "").suffix != ".onnx" or self.args.target != "mlir":
            return super().output_resulting_program(prog)
        from byocir.evaluate.module import MAIN
        from byocir.frontend.onnx import export_onnx
        from byocir.frontend.onnx.handed_over import function_named

        if self.models:
            where = self.args.output_file
            raise ByocirError("B123", "expected one module for a model, found more", where=where)
        self.models.append(export_onnx(function_named(prog, MAIN)))
        return ""

    def run(self) -> None:
        try:
            super().run()
        except (ParseError, DiagnosticException) as error:
            name = self.get_input_name()
            raise text_error(error, self.ctx, self.spans, name) from error
        self._write_files()

    def _write_files(self) -> None:
        out, weights = self.args.output_file, self.args.weights_out
        if self.models:
            from byocir.cli.user_files import write_model

            write_model(Path(out), self.models[0])
            return
        if weights is None and out is not None and self.large:
            weights = Path(out).with_suffix(SUFFIX)
        if out is not None:
            with _reported(out):
                write_whole(out, self.output.kept.encode())
        if weights is not None:
            with _reported(weights):
                save_arrays(self.large, weights)


@cache
def _universe() -> Universe:
    """Gives what all installed packages bring. xDSL would look through them three times a run."""
    return Universe.get_multiverse()


@contextlib.contextmanager
def _reported(path: str | Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ByocirError("B123", f"cannot write: {error.strerror}", where=str(path)) from error


def _check_each(module: ModuleOp) -> CheckEach:
    """Makes the check of `--check-each`, and begins it. It is imported late: it needs the
    evaluator, which needs onnx.
    """
    from byocir.rewrites.check_each import CheckEach

    check = CheckEach()
    check.begin(module)
    return check


class _Output(io.StringIO):
    """Keeps the output until all is done: its file may be the one that is being read."""

    kept = ""

    def close(self) -> None:
        self.kept = self.getvalue()
        super().close()


@dataclass(frozen=True)
class _MlirTarget(MLIRTarget):
    """Writes text, with the locations that are known unless told otherwise."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        kind = _HighlightingPrinter if self.syntax_highlight else ModulePrinter
        printer = kind(
            stream=output,
            print_generic_format=self.print_generic_format,
            print_properties_as_attributes=self.print_properties_as_attributes,
            debuginfo=self.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        output.write("\n")


class _HighlightingPrinter(ModulePrinter, SyntaxPrinter):
    """Prints the same with colours."""


def run_opt(args: Sequence[str] | None = None) -> int:
    """Runs the tool in this process and reports errors; gives its exit code. Usage errors raise
    SystemExit(2)."""

    def tool() -> int:
        try:
            main = ByocirOptMain(args)
            given: str | None = main.args.max_bytes
            with contextlib.nullcontext() if given is None else limit_memory(given):
                main.run()
        except ArgSpecParseError as error:
            raise ByocirError("B220", str(error)) from error
        return OK

    try:
        return guarded(tool, ["byocir-opt", *(sys.argv[1:] if args is None else args)])
    finally:
        # --disable-verify and --syntax-highlight change classes of xDSL for the whole process.
        Attribute.__post_init__ = _VERIFIES_ATTRIBUTES  # pyrefly: ignore[method-assign]
        Diagnostic.colored = False


def main() -> int:
    """Runs the command `byocir-opt`."""
    gc.disable()  # the run is short, and the collector would walk large modules for nothing
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", newline="\n")
    return run_opt()


if __name__ == "__main__":
    sys.exit(main())

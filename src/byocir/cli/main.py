"""`byocir`: compiles, runs and explains models from the command line.

Each verb has a module of its name in this folder, with its options and what it does.

Exit codes: 0 ok, 1 user error, 2 usage, 3 a check failed, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from byocir.cli.arguments import add_limit, isolated_as_asked
from byocir.cli.guard import Parser, guarded
from byocir.dialects.gc_pause import gc_paused
from byocir.memory import limit_memory

VERBS = {
    "run": "compile a model (or load a package) and run it",
    "compile": "compile a model into a package",
    "export": "write a model as a C project without Python",
    "export-onnx": "write a model as ONNX, with what became of each node",
    "explain": "say for each node where it went, and why",
    "dis": "list the programs of targets, with what each command is for",
    "diff": "say in what two packages or reports differ",
    "bisect": "find the step of a compilation that changes a result",
    "measure": "measure what composites of targets cost",
    "sweep": "compile for many settings of a target, and compare costs",
    "quantise": "quantise a float model for a target",
    "tune": "find the schedules of composites that cost least",
    "conform": "try a target on programs made for its patterns",
    "new-target": "begin a target: a package that works",
    "targets": "list targets, their options and patterns",
    "patterns": "say in markdown what a target takes",
    "ops": "describe ops: operands, attributes, origin, an example",
    "vta": "assemble, disassemble, run and trace VTA programs",
}


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit code."""
    given = list(sys.argv[1:] if args is None else args)

    def verb() -> int:
        options = build_parser(given[:1]).parse_args(given)
        limit = nullcontext() if options.max_bytes is None else limit_memory(options.max_bytes)
        with limit, isolated_as_asked(options):
            return options.verb(options)

    return guarded(verb, ["byocir", *given])


def build_parser(first: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Builds the command line of `byocir`, or what is needed of it for words that begin so: behind
    a verb no other verb is looked for."""
    parser = Parser(
        prog="byocir", description="Compile ONNX models for hardware that you bring yourself."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=VerbParser)
    for verb in VERBS.keys() & first or VERBS:
        verbs.add_parser(verb, help=VERBS[verb])
    return parser


class VerbParser(Parser):
    """Parses the command line of a verb, `byocir VERB`, whose module is imported when it is
    used.
    """

    _has_options = False

    def add_options(self) -> None:
        """Adds the options of the verb's module, once."""
        if self._has_options:
            return
        self._has_options = True
        verb = self.prog.split()[-1]
        module_of(verb).add_options(self)
        if self.get_default("verb") is not None:  # other parsers have verbs of their own
            add_limit(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.add_options()
        return super().parse_known_args(args, namespace)


def module_of(verb: str) -> Any:
    """Imports the module of a verb. What the import makes is kept from then on, so that no garbage
    collection looks at it.
    """
    name = f"byocir.cli.{verb.replace('-', '_')}"
    if name not in sys.modules:
        with gc_paused():
            import_module(name)
        gc.freeze()
    return sys.modules[name]


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from importlib.metadata import version

        print(f"byocir {version('byocir')}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())

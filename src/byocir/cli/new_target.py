"""`byocir new-target NAME`: writes a package of a target, to be edited.

The files are those of the folder `scaffold`, with the target's name in place of "acme": they work
as they stand, and tests try them.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from byocir.cli.user_files import check_unused, write_folder
from byocir.dialects.byoc import FOLDED, HOST
from byocir.errors import ByocirError
from byocir.patterns.target_classes import installed

SHARED = ("pyproject.toml", "README.md", "test_acme.py")
MOST_LETTERS = 64
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = ("c", FOLDED, HOST)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
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
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Writes the package; gives the exit code."""
    name: str = options.name
    check_name(name)
    folder: Path = options.output or Path(name)
    check_unused(folder)
    made = package_files(name, options.kind)
    write_folder(folder, made)
    print(f"wrote {', '.join(made)} into {folder}")
    print(f"next  byocir conform {folder / name}.py")
    if options.kind != "c":
        print(
            "note  byocir export needs `device` in its class, or of a machine `encode` and "
            "`issue`; kind c has it"
        )
    return 0


def check_name(name: str) -> None:
    """Raises ByocirError B389 for a name that a target, or a module of Python, cannot have."""
    found = ""
    if not _NAME.fullmatch(name):
        found = "other characters than lower-case letters, digits and _ after a letter"
    elif len(name) > MOST_LETTERS:
        found = f"one of {len(name)} letters"
    elif keyword.iskeyword(name):
        found = "a keyword of Python"
    elif name in _RESERVED:
        found = "a word that has a meaning where targets are named"
    elif name in installed():
        found = "a target that is installed"
    elif name in sys.stdlib_module_names or find_spec(name) is not None:
        found = "a module that is installed"
    if found:
        raise ByocirError(
            "B389",
            f"expected a name for a new target, found {found}",
            where=name,
            help="it names the target and its module: e.g. my_npu",
        )


def package_files(name: str, kind: str) -> Mapping[str, bytes]:
    """Makes the files of a package, by path."""
    scaffold = files("byocir.cli") / "scaffold"
    sources = {f"{name}.py": f"{kind}.py", **{_named(each, name): each for each in SHARED}}
    return {
        path: _named((scaffold / source).read_text(encoding="utf-8"), name).encode()
        for path, source in sources.items()
    }


def _named(text: str, name: str) -> str:
    """Puts the target's name, and that of its class, in place of those of the scaffold."""
    kind = "".join(part.capitalize() for part in name.split("_"))
    return text.replace("acme", name).replace("Acme", kind)

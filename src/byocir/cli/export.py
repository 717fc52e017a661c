"""`byocir export`: writes a compiled model as a C project.

The folder of a project has a `manifest.json` that lists the files that were written. The next
export replaces these and no others:

```json
{"files": {"model.c": "sha256…"}, "schema_version": 1}
```
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from byocir.cli.arguments import add_host, add_host_ops, add_isolation, add_model, add_stages
from byocir.cli.hosts import host_text
from byocir.cli.steps import compile_with_steps, is_package, load_package
from byocir.cli.user_files import make_folder, remove_file, write_bytes, write_folder
from byocir.errors import ByocirError
from byocir.files import read_whole
from byocir.patterns.targets import targets_of
from byocir.runtime.export import export_project
from byocir.runtime.package import Package
from byocir.runtime.project_regions import expect_device
from byocir.runtime.report import Report
from byocir.runtime.report_text import summary
from byocir.targets.base import target_of

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1
FORCE = "choose another place for it, or --force to replace files there"


def check_folder(folder: Path, *, force: bool = False) -> None:
    """Raises ByocirError B112 for a path that is no folder. Unless `force` is given, raises it,
    too, for a folder with files that no export wrote, or with an export's files that were changed
    since.
    """
    if folder.exists() and not folder.is_dir():
        raise _refused(folder, "a file", "choose another place for it")
    if force or not folder.exists():
        return
    written = _written(folder)
    if not written and any(folder.iterdir()):
        raise _refused(folder, "other files")
    for name, digest in written.items():
        path = folder / name
        if path.exists() and sha256(read_whole(path)).hexdigest() != digest:
            raise _refused(folder, f"{name}, which was changed since")


def write_project(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Writes the files of a project and a list of them, and removes those of an earlier export that
    are no longer part of it; other files stay. Raises ByocirError B112, also for somebody else's
    file that is in the way, unless `force` is given.
    """
    listed = {name: sha256(data).hexdigest() for name, data in sorted(files.items())}
    about = {"schema_version": SCHEMA_VERSION, "files": listed}
    manifest = f"{json.dumps(about, indent=1, sort_keys=True)}\n".encode()
    whole = {**files, MANIFEST: manifest}
    if not folder.is_dir() or not any(folder.iterdir()):
        write_folder(folder, whole)
        return
    written = _written(folder)
    in_the_way = [n for n in files if n not in written and (folder / n).exists()]
    if in_the_way and not force:
        raise _refused(folder, f"{in_the_way[0]}, which it did not write")
    for name in written.keys() - files.keys():
        remove_file(folder / name)
    for name, data in whole.items():
        make_folder((folder / name).parent)
        write_bytes(folder / name, data)


def _written(folder: Path) -> dict[str, str]:
    """Reads from the list in a folder the digests of an export's files, by name; empty for a folder
    without a list.
    """
    try:
        data: Any = json.loads(read_whole(folder / MANIFEST))
        files: Any = data["files"]
        digests = cast("dict[str, Any]", files).items()
        sound = data["schema_version"] == SCHEMA_VERSION
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    inside = all(isinstance(d, str) and _is_inside(folder, name) for name, d in digests)
    return dict(digests) if sound and inside else {}


def _is_inside(folder: Path, name: str) -> bool:
    """Tells if a name leads to a place inside a folder: the list may have been written by somebody
    else.
    """
    return (folder / name).resolve().is_relative_to(folder.resolve())


def _refused(folder: Path, found: str, help: str = FORCE) -> ByocirError:
    return ByocirError(
        "B112",
        f"expected a new or an empty folder, or one that was exported before, found {found}",
        where=str(folder),
        help=help,
    )


ANY_MACHINE = "c{cpu=generic}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file, a module (.mlir) or a package")
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
    add_host(parser, default="c{cpu=generic}, C for any machine")
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
    add_host_ops(parser)
    add_stages(parser)
    add_isolation(parser)
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Writes the project into a folder, which must be new, empty or its own; gives the exit
    code."""
    folder: Path = options.output
    check_folder(folder, force=options.force)
    package = _package(options)
    files = export_project(package, weights=options.weights_as, name=options.name)
    write_project(folder, files, force=options.force)
    print(summary(package.report))
    memory = package.report.memory
    if memory:  # the C compiler checks the size again
        arena, least = memory["arena"], memory["arena_lower_bound"]
        print(f"arena of {arena} bytes; {least} are alive at once, no plan can do with less")
    print(f"wrote {len(files)} files into {folder}: make, then ./{options.name}")
    return 0


def _package(options: argparse.Namespace) -> Package:
    if is_package(options.model):  # the package's own host does not matter here
        return load_package(options)
    return compile_with_steps(
        options, host=host_text(options, ANY_MACHINE), expect_of=_expect_devices
    )


def _expect_devices(module: ModuleOp, report: Report) -> None:
    """Raises ByocirError B351 for a target with regions that a project cannot hold."""
    used = {region.target for region in report.regions}
    for attribute in targets_of(module):
        if attribute.target_name.data in used:
            expect_device(target_of(attribute))

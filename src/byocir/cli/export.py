"""`byocir export`: a compiled model as a C project."""

from __future__ import annotations

import argparse
from pathlib import Path

from byocir.cli.export_files import check_folder, write_project
from byocir.cli.hosts import host_text
from byocir.cli.run import compile_with_steps, is_package, load_package
from byocir.runtime.explain import summary
from byocir.runtime.export import export_project
from byocir.runtime.package import Package

ANY_MACHINE = "c{cpu=generic}"


def export(options: argparse.Namespace) -> int:
    """Writes the project into a folder, which must be new, empty or its own; gives the exit
    code."""
    folder: Path = options.output
    check_folder(folder, force=options.force)
    package = _package(options)
    files = export_project(package, weights=options.weights_as, name=options.name)
    write_project(folder, files, force=options.force)
    print(summary(package.report))
    memory = package.report.memory
    if memory:  # the C compiler checks it again
        arena, least = memory["arena"], memory["arena_lower_bound"]
        print(f"arena of {arena} bytes; {least} are alive at once, no plan can do with less")
    print(f"wrote {len(files)} files into {folder}: make, then ./{options.name}")
    return 0


def _package(options: argparse.Namespace) -> Package:
    if is_package(options.model):  # what it says of its host does not matter here
        return load_package(options)
    return compile_with_steps(options, host=host_text(options, ANY_MACHINE))

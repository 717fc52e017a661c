"""Runs a program as an exported project, for targets that have a device for these."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from byocir.compiler import generate, hand_over
from byocir.errors import ByocirError
from byocir.request import Request
from byocir.runtime.export import export_project
from byocir.runtime.package import Package
from byocir.targets.base import Target
from byocir.targets.device import CFunctions
from byocir.testing.conformance.cases import Arrays, Case
from byocir.toolchain.compiler import find_compiler

HOST = "c{cpu=generic}"
NO_PROJECT = ("B350", "B351", "B352", "B401")
"""Errors of programs that no project can hold, and of machines that build none."""
SECONDS = 120


class NotBuilt(Exception):
    """Tells that a project was not built, or did not run; the message is what the tools said."""


def has_device(target: Target) -> bool:
    """Tells if a target gives what exported projects need."""
    return type(target).device is not Target.device


def run_exported(case: Case, target: Target) -> Arrays | None:
    """Builds a program as an exported project and runs it; None where there is no such project, or
    no tool to build it. Raises NotBuilt.
    """
    make = shutil.which("make")
    try:
        package = _compiled(case, target)
        files = export_project(package)
        compiler = str(find_compiler())
    except ByocirError as error:
        if error.code not in NO_PROJECT:
            raise
        return None
    if make is None or not package.blobs:
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(files, folder)
        made = target.device(package.blobs[target.name])
        linked = made.libraries if isinstance(made, CFunctions) else None
        chosen = [linked.chosen] if linked is not None else []
        _run([make, "-s", f"CC={compiler}", "CFLAGS=-O1", *chosen], folder)
        return _outputs(package, case.feeds, folder)


def _compiled(case: Case, target: Target) -> Package:
    module = case.module.clone()
    report = hand_over(module, Request([target], case.levels))
    return generate(module, report, host=HOST)


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _outputs(package: Package, feeds: Arrays, folder: Path) -> Arrays:
    inputs = [f"in{i}.npy" for i in range(len(package.inputs))]
    outputs = [f"out{i}.npy" for i in range(len(package.outputs))]
    for path, name in zip(inputs, package.inputs, strict=True):
        np.save(folder / path, feeds[name])
    _run([str(folder / "model"), *inputs, *outputs], folder)
    return {
        name: np.load(folder / path) for path, name in zip(outputs, package.outputs, strict=True)
    }


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotBuilt(f"nothing after {SECONDS} s of {Path(command[0]).name}") from error
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        found = told[0] if told else f"exit code {done.returncode}"
        raise NotBuilt(f"{Path(command[0]).name}: {found}")

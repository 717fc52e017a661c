"""Compares the code that a target emits here with that of a process with other hashes.

The order of sets of texts is another there, so code that depends on it is, too.

    python -m byocir.testing.conformance.hash_seed TARGET FOLDER

is that process: it prints the digests of what each program of the folder becomes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from byocir.targets.base import Target
from byocir.testing.conformance.cases import Case, Unmeant
from byocir.testing.conformance.saved import FEEDS, read_case, text_of, write_case
from byocir.testing.conformance.trial import Problem, Wrong, compiled

VARIABLE = "PYTHONHASHSEED"
SECONDS = 120
"""The seconds that the other process may take."""

Digests = Mapping[str, Mapping[str, str]]
"""By program the digest of each blob."""


def digests_of(target: Target, folder: Path, until: float = inf) -> Digests:
    """Compiles each program of a folder and hashes the code; programs that fail are left out, and
    those behind the first when it is later than `until`.
    """
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.mlir")):
        if found and time.monotonic() > until:
            path.unlink()  # the other process compiles what is in the folder
            continue
        with suppress(Wrong, Unmeant):
            with np.load(path.with_suffix(FEEDS), allow_pickle=False) as feeds:
                package, _ = compiled(read_case(path, dict(feeds)), target)
            blobs = package.blobs.get(target.name, {})
            found[path.stem] = {n: hashlib.sha256(blob).hexdigest() for n, blob in blobs.items()}
    return found


def differing(target: Target, cases: Mapping[str, Case], until: float = inf) -> dict[str, Problem]:
    """Finds the programs whose code is another in a process with other hashes, each with that
    problem; none for a target that no other process can import. Programs for which it is too late
    are left out: compiling them there takes as long again.
    """
    half = (until + time.monotonic()) / 2
    with TemporaryDirectory() as folder:
        for name, case in cases.items():
            write_case(case, Path(folder) / f"{name}.mlir")
        here = digests_of(target, Path(folder), half)
        there = _digests_elsewhere(target, folder)
    pairs = [(name, here[name], blobs) for name, blobs in there.items() if name in here]
    return {name: _problem(ours, theirs) for name, ours, theirs in pairs if ours != theirs}


def _problem(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Problem:
    blob = next(name for name in (*ours, *theirs) if ours.get(name) != theirs.get(name))
    text = f"expected emit to give the same bytes under another {VARIABLE}, found another {blob}"
    return Problem("B382", text)


def _digests_elsewhere(target: Target, folder: str) -> Digests:
    seed = "1" if os.environ.get(VARIABLE) != "1" else "2"
    command = [sys.executable, "-m", __name__, text_of(target), folder]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=True,
                              env={**os.environ, VARIABLE: seed})  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError):
        return {}


if __name__ == "__main__":
    from byocir.targets.resolve_targets import the_target

    print(json.dumps(digests_of(the_target(sys.argv[1]), Path(sys.argv[2]))))

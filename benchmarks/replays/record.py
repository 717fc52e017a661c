"""Compiles a corpus with the byocir that is on the path; prints a record of each job as JSON.

    PYTHONPATH=COMMIT/src python benchmarks/replays/record.py CORPUS COMMIT

It runs in a process of its own, once for each side, and knows of byocir only what older commits
have, too: `compile`, packages as files, and the disassembler.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]
"""`parts`: digests by what they are of; `numbers`: counts by what they count; or an `error`."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def record(job: Mapping[str, Any], corpus: Path, root: Path) -> Record:
    """What a job gives. An exception of any kind is a result, too."""
    import byocir
    from byocir.runtime.native import host_code

    targets = [str(root / t) if ":" in t else t for t in job["targets"]]
    try:
        package = byocir.compile(
            corpus / job["model"], targets=targets, host=job["host"], **job["options"]
        )
        code = host_code(package.module)
        return recorded(_members(package), {"model.c": code.source, "model.h": code.header})
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _members(package: Any) -> dict[str, bytes]:
    """The files in a package."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.bpkg")
        package.save(path)
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def recorded(members: Mapping[str, bytes], sources: Mapping[str, str]) -> Record:
    """Digests and numbers of the files of a package and of the host's C. The module's own text is
    left out: it says the same in words that may change."""
    report = json.loads(members["report.json"])
    device = report.pop("device")
    parts = {f"report, {key}": _digest_of(value) for key, value in report.items()}
    numbers = {f"host, {key} bytes": size for key, size in report["memory"].items()}
    for name, text in sources.items():
        parts[f"host, {name}"] = digest(text.encode())
        numbers[f"host, lines of {name}"] = len(text.splitlines())
    for name, data in members.items():
        if name.startswith("blobs/"):
            parts[name.removeprefix("blobs/")] = digest(data)
        if name.endswith(".insns"):
            symbol = name.split("/")[-1].removesuffix(".insns")
            numbers |= _instructions(symbol, data, members[name.removesuffix("insns") + "json"])
    for symbol, profile in device.items():
        parts[f"{symbol}, profile"] = _digest_of(profile)
        numbers |= {f"{symbol}, {k}": v for k, v in profile.items() if isinstance(v, int)}
    return {"parts": parts, "numbers": numbers}


def _digest_of(value: Any) -> str:
    return digest(json.dumps(value, sort_keys=True).encode())


def _instructions(symbol: str, insns: bytes, interface: bytes) -> dict[str, int]:
    """How many instructions of each kind a stream for VTA has."""
    import numpy as np

    from byocir.vta_sim import VTAConfig, disassemble

    config = VTAConfig.from_dict(json.loads(interface)["config"])
    lines = disassemble(np.frombuffer(insns, np.uint8).reshape(-1, 16), config)
    kinds = Counter(line.split()[0] for line in lines)
    return {f"{symbol}, {kind}": count for kind, count in sorted(kinds.items())}


def main(corpus: Path, root: Path) -> None:
    """Prints a line for each job as soon as it is done."""
    logging.disable(logging.WARNING)
    for job in json.loads((corpus / "jobs.json").read_text(encoding="utf-8")):
        print(json.dumps([job["name"], record(job, corpus, root)]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

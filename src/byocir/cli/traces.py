"""`--trace`: writes when each instruction of a package's programs runs, as files for
ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from byocir.cli.user_files import write_text
from byocir.machine import Machine
from byocir.machine_sim.trace import trace_text
from byocir.runtime.package import Package


def write_traces(package: Package, folder: Path) -> list[str]:
    """Writes the trace of each region that is simulated into a folder; gives a line of text for
    each.
    """
    lines: list[str] = []
    for symbol, trace in _traces(package):
        path = folder / f"{symbol}.trace.json"
        write_text(path, trace_text(trace))
        lines.append(f"wrote {path}, {trace['otherData']['cycles']:,} cycles")
    return lines or ["no target tells when its instructions run"]


def _traces(package: Package) -> Iterator[tuple[str, dict[str, Any]]]:
    from byocir.targets.described import traces_of
    from byocir.targets.vta_emit import programs_of
    from byocir.targets.vta_files import streams
    from byocir.vta_sim import Program, trace_events

    others: dict[str, Mapping[str, bytes]] = {}
    for name, blobs in package.blobs.items():
        machine = package.target(name).machine
        if isinstance(machine, Machine):
            yield from traces_of(machine, blobs)
        else:
            others[name] = blobs
    for symbol, code in streams(programs_of(package.module, others)).items():
        yield symbol, trace_events(Program(code.insns, code.config), None, code.locations)

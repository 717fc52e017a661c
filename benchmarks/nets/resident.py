"""How much memory a benchmark took."""

from __future__ import annotations

from pathlib import Path


def most_resident() -> float:
    """The most memory of this program so far, in MB, where the system tells; what getrusage tells
    is that of its parent where that had more."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), 0)

"""How long the host's C code takes beside ONNX Runtime.

    python benchmarks/host.py [--rounds N] [--threads N] [--cpu CPU] [NET ...]

Float nets in full size with seeded weights, each in a process of its own. Both run pinned to as
many CPUs as they have threads, in interleaved rounds in which either begins. Printed are the least
and the median of the rounds' times with their ratios, the largest difference of the outputs as a
share of their largest value, seconds from the model file to the first result (`cold` with an empty
cache, `kept` with what that left in it, the interpreter's start aside), and the most memory that
was resident.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from host_nets import NETS

import byocir
from byocir.evaluate.module import random_feeds
from byocir.runtime.package import Package


def session(model: str, threads: int) -> onnxruntime.InferenceSession:
    """ONNX Runtime at its best on so many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin between rounds would take time from the other program.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def compiled(path: str, options: argparse.Namespace) -> tuple[Package, float]:
    """The model as C, and the seconds until it gave its first result."""
    began = time.perf_counter()
    host = f"c{{cpu={options.cpu},threads={options.threads}}}"
    package = byocir.compile(path, targets=[], host=host)
    package.run(random_feeds(package.module))
    return package, time.perf_counter() - began


def most_resident() -> float:
    """The most memory of this program so far, in MB, where the system tells; what getrusage tells
    is that of its parent where that had more."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), 0)


def compare(options: argparse.Namespace) -> None:
    """Prints the row of one net, whose model file is in this folder with the cache."""
    (name,), folder = options.nets, options.child
    path = f"{folder}/model.onnx"
    package, seconds = compiled(path, options)
    resident = most_resident()
    if options.cold:
        print(f"{name:<12} cold {seconds:5.1f} s", end="   ", flush=True)
        return
    feeds = random_feeds(package.module)
    other = session(path, options.threads)
    (found,), (expected,) = package.run(feeds).values(), other.run(None, feeds)
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    ours: list[float] = []
    theirs: list[float] = []
    pairs = [(lambda: package.run(feeds), ours), (lambda: other.run(None, feeds), theirs)]
    for _ in range(options.rounds):
        for run, times in pairs:
            start = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - start))
        pairs.reverse()
    memory = package.report.memory
    print(f"kept {seconds:4.1f} s   resident {resident:5.0f} MB", end="   ")
    print(f"arena {memory['arena'] / memory['arena_lower_bound']:.2f} of the least", end="   ")
    print(f"differs {difference:.1e}")
    for what, pick in (("least", min), ("median", statistics.median)):
        mine, rival = pick(ours), pick(theirs)
        print(f"{'':<12} {what:<6} byocir {mine:8.2f} ms   ONNX Runtime {rival:8.2f} ms", end="   ")
        print(f"ratio {mine / rival:5.2f}", flush=True)


def main(options: argparse.Namespace) -> None:
    if hasattr(os, "sched_setaffinity"):
        known = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, known[: options.threads])
    if options.child is not None:
        compare(options)
        return
    for name in options.nets or list(NETS):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.onnx").write_bytes(NETS[name]())
            known = ["--rounds", options.rounds, "--threads", options.threads, "--cpu", options.cpu]
            for cold in (["--cold"], []):
                command = [*known, "--child", folder, *cold, name]
                environment = {**os.environ, "BYOCIR_CACHE": f"{folder}/cache"}
                environment["OMP_WAIT_POLICY"] = "passive"  # as ONNX Runtime's threads wait here
                arguments = [sys.executable, __file__, *map(str, command)]
                subprocess.run(arguments, env=environment, check=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", default="native")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.nets if name not in NETS]:
        parser.error(f"expected nets among {', '.join(NETS)}, found {', '.join(unknown)}")
    return options


if __name__ == "__main__":
    main(read_arguments())

"""How long the host's C code takes beside ONNX Runtime, on one thread.

    python benchmarks/host.py [ROUNDS] [NET ...]

Float nets in full size with seeded weights. Both run pinned to one CPU, in interleaved rounds;
medians are printed, with the largest difference of the outputs as a share of their largest value.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import numpy as np
import onnxruntime
from host_nets import NETS

import byocir
from byocir.evaluate.module import random_feeds


def session(model: bytes) -> onnxruntime.InferenceSession:
    """ONNX Runtime at its best on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def compare(name: str, rounds: int) -> None:
    """Prints the medians of one net and their ratio."""
    model = NETS[name]()
    began = time.perf_counter()
    package = byocir.compile(model, targets=[], host="c")
    compiled = time.perf_counter()
    feeds = random_feeds(package.module)
    (found,) = package.run(feeds).values()
    built = time.perf_counter()
    other = session(model)
    (expected,) = other.run(None, feeds)
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        for run, times in (
            (lambda: package.run(feeds), ours),
            (lambda: other.run(None, feeds), theirs),
        ):
            start = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - start))
    mine, rival = statistics.median(ours), statistics.median(theirs)
    memory = package.report.memory
    least = memory["arena"] / memory["arena_lower_bound"]
    print(f"{name:<12} byocir {mine:8.2f} ms   ONNX Runtime {rival:8.2f} ms", end="   ")
    print(f"ratio {mine / rival:6.2f}   differs {difference:.1e}", end="   ")
    print(f"compile {compiled - began:.1f} s, first run {built - compiled:.1f} s", end="   ")
    print(f"arena {least:.2f} of the least", flush=True)


def main(arguments: list[str]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rounds = int(arguments[0]) if arguments else 9
    for name in arguments[1:] or list(NETS):
        compare(name, rounds)


if __name__ == "__main__":
    main(sys.argv[1:])

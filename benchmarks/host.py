"""How long the host's C code takes beside ONNX Runtime, and IREE and TVM where they are installed.

    python benchmarks/host.py [--rounds N] [--threads N] [--passive] [--cpu CPU] [NET ...]

Nets in full size with seeded weights, float and quantised (`ResNet-18 u8`, whose activations are
unsigned, `ResNet-18 s8`), each in a process of its own. All run pinned to as many CPUs as they have
threads, in interleaved rounds whose order turns around. Threads wait as they do by default: they
spin for a while, then sleep. So that none of one program's run into another's time, each is given a
pause, and then a run that is not measured. With `--passive` the threads of byocir and ONNX Runtime
sleep at once, as on a machine that is shared.

Printed are the least and the median of the rounds' times, with byocir's share of each other's, the
largest difference of the outputs as a share of their largest value, seconds from the model file to
the first result (`cold` with an empty cache, `kept` with what that left in it, the interpreter's
start aside), and the most memory that was resident.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from host_rivals import INSTALLED, Feeds, Run, ort
from nets.classic_nets import FULL
from nets.classic_nets import NETS as FLOAT_NETS
from nets.int8_nets import INT8_NETS
from nets.resident import most_resident

import byocir
from byocir.evaluate.module import random_feeds
from byocir.runtime.package import Package

NETS = {**FLOAT_NETS, **INT8_NETS}
PAUSE = 0.02
"""Seconds after which threads that have nothing to do sleep."""
ENOUGH = 10
"""Seconds of measured runs after which three rounds do."""


def compiled(path: str, options: argparse.Namespace) -> tuple[Package, float]:
    """The model as C, and the seconds until it gave its first result."""
    began = time.perf_counter()
    host = f"c{{cpu={options.cpu},threads={options.threads}}}"
    package = byocir.compile(path, targets=[], host=host)
    package.run(random_feeds(package.module))
    return package, time.perf_counter() - began


def measured(
    runs: Mapping[str, Run],
    feeds: Feeds,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """The milliseconds of each round, by program."""
    times: dict[str, list[float]] = {program: [] for program in runs}
    order = list(runs)
    for _ in range(rounds):
        for program in order:
            if len(times[program]) >= 3 and sum(times[program]) > 1e3 * ENOUGH:
                continue
            time.sleep(PAUSE)
            runs[program](feeds)
            start = clock()
            runs[program](feeds)
            times[program].append(1e3 * (clock() - start))
        order.reverse()
    return times


def compare(options: argparse.Namespace) -> None:
    """Prints the row of one net, whose model file is in this folder with the cache."""
    (name,), folder = options.nets, options.child
    path = f"{folder}/model.onnx"
    package, seconds = compiled(path, options)
    resident = most_resident()
    if options.cold:
        print(f"{name:<14} cold {seconds:5.1f} s", end="   ", flush=True)
        return
    feeds = random_feeds(package.module)
    runs: dict[str, Run] = {
        "byocir": lambda feeds: list(package.run(feeds).values()),
        "ONNX Runtime": ort(path, options.threads, spins=not options.passive),
        **{rival: make(path, options.threads) for rival, make in INSTALLED.items()},
    }
    (found,), (expected,) = (runs[program](feeds) for program in ("byocir", "ONNX Runtime"))
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    times = measured(runs, feeds, options.rounds)
    memory = package.report.memory
    print(f"kept {seconds:4.1f} s   resident {resident:5.0f} MB", end="   ")
    print(f"arena {memory['arena'] / memory['arena_lower_bound']:.2f} of the least", end="   ")
    print(f"differs {difference:.1e}")
    for what, pick in (("least", min), ("median", statistics.median)):
        mine = pick(times["byocir"])
        print(f"{'':<14} {what:<6} byocir {mine:8.2f} ms", end="")
        for rival in list(runs)[1:]:
            theirs = pick(times[rival])
            print(f"   {rival} {theirs:8.2f} ms ratio {mine / theirs:5.2f}", end="")
        print(flush=True)


def main(options: argparse.Namespace) -> None:
    if hasattr(os, "sched_setaffinity"):
        known = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, known[: options.threads])
    if options.child is not None:
        compare(options)
        return
    for name in options.nets or list(NETS):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.onnx").write_bytes(NETS[name](FULL))
            known = ["--rounds", options.rounds, "--threads", options.threads, "--cpu", options.cpu]
            known += ["--passive"] if options.passive else []
            for cold in (["--cold"], []):
                command = [*known, "--child", folder, *cold, name]
                environment = {**os.environ, "BYOCIR_CACHE": f"{folder}/cache"}
                if options.passive:
                    environment["OMP_WAIT_POLICY"] = "passive"
                arguments = [sys.executable, __file__, *map(str, command)]
                subprocess.run(arguments, env=environment, check=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--passive", action="store_true")
    parser.add_argument("--cpu", default="native")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.nets if name not in NETS]:
        parser.error(f"expected nets among {', '.join(NETS)}, found {', '.join(unknown)}")
    return options


if __name__ == "__main__":
    main(read_arguments())

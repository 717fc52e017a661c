"""Times the code of regions whose targets do not say how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate, random_feeds
from byocir.runtime.host import Host
from byocir.runtime.package import Package
from byocir.targets.load_code import load_code

SECONDS, FEWEST, MOST = 0.02, 5, 50
"""A region is run again for so long, and so many times."""


def seconds_of(package: Package, feeds: Mapping[str, np.ndarray] | None = None) -> dict[str, float]:
    """Times each function that has code of its target; gives seconds by symbol. `feeds` are the
    inputs of the model, seeded by default.
    """
    told = {profile.symbol: profile.seconds for profile in package.profile()}
    found = {symbol: seconds for symbol, seconds in told.items() if seconds is not None}
    timed: dict[str, Callable[[Sequence[np.ndarray]], list[np.ndarray]]] = {}
    for name, blobs in package.blobs.items():
        runner = load_code(package.target(name), blobs)
        for region in package.report.regions:
            if region.target == name:
                timed[region.symbol] = partial(_timed, found, region.symbol, runner)
    host = Host()
    interpreter = Interpreter(package.module, timed, engine=host, whole=host.whole)
    evaluate(package.module, feeds or random_feeds(package.module), interpreter=interpreter)
    return found


def _timed(
    found: dict[str, float],
    symbol: str,
    runner: Callable[[str, Sequence[np.ndarray]], list[np.ndarray]],
    inputs: Sequence[np.ndarray],
) -> list[np.ndarray]:
    outputs = runner(symbol, inputs)  # the first run builds and loads
    if symbol in found:
        return outputs
    found[symbol] = least_seconds(lambda: runner(symbol, inputs))
    return outputs


def host_seconds(package: Package) -> float:
    """Times the host's C of a package on seeded inputs; gives seconds."""
    program, arrays = package.host_program(), [*random_feeds(package.module).values()]
    program.run(arrays)  # the first run builds and loads
    return least_seconds(lambda: program.run(arrays))


def least_seconds(run: Callable[[], object]) -> float:
    """Times several runs; gives the seconds of the shortest. Where this thread computes they are
    processor time, which other programs do not lengthen, else the time that passes.
    """
    passed, computed = list[float](), list[float]()
    while len(passed) < FEWEST or (len(passed) < MOST and sum(passed) < SECONDS):
        began, busy = time.perf_counter(), time.thread_time()
        run()
        computed.append(time.thread_time() - busy)
        passed.append(time.perf_counter() - began)
    is_here = any(mine >= all_ / 2 for mine, all_ in zip(computed, passed, strict=True))
    return min(computed if is_here else passed)

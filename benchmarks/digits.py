"""How long the digits example takes: compiling it, and an image beside ONNX Runtime.

    python benchmarks/digits.py [ROUNDS]

Both run the same int8 model on one thread, in interleaved rounds; medians are printed. The
simulator executes VTA's instruction stream byte for byte, so it is not expected to win.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import byocir
from byocir.cli.reference import run_onnxruntime

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
MODEL = DIGITS / "digits_int8.onnx"
IMAGES = 50


def seconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def compiled() -> byocir.Package:
    return byocir.compile(MODEL, shapes={"image": (1, 1, 8, 8)})


def main(rounds: int) -> None:
    """Prints medians over the rounds and the ratio of the two."""
    with np.load(DIGITS / "digits_test.npz") as data:
        feeds = [{"image": data["image"][i : i + 1]} for i in range(IMAGES)]
    package = compiled()
    compiling = [seconds(compiled) for _ in range(3)]
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(seconds(lambda: [package.run(feed) for feed in feeds]))
        theirs.append(seconds(lambda: list(run_onnxruntime(MODEL, feeds))))
    simulated, reference = (1e3 * statistics.median(times) / IMAGES for times in (ours, theirs))
    cycles = sum(profile.cycles for profile in package.profile())
    print(f"compile                 {statistics.median(compiling):8.2f} s")
    print(f"simulator               {simulated:8.2f} ms per image, {cycles:,} cycles")
    print(f"ONNX Runtime            {reference:8.2f} ms per image, session included")
    print(f"simulator / ONNX Runtime{simulated / reference:8.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

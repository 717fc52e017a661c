"""How long the sanitizer takes, beside running the same stream: `python benchmarks/sanitizer.py`.

Convolutions of 7 x 7 tiles, double-buffered, of about 10 000 and 100 000 instructions; and the
first with half its load-to-compute tokens gone, where there is much to report.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from byocir.vta_sim import DEFAULT_CONFIG, AluOp, Memory, run_in_order, sanitize

sys.path.append(str(Path(__file__).parents[1] / "tests" / "programs"))

from vta_kernel_layers import Kernel, Layer
from vta_kernels import kernel_stream
from vta_mutations import apply, dropped_edges

ACTIVATION = ((AluOp.ADD, 64), (AluOp.SHR, 7), (AluOp.MIN, 127), (AluOp.MAX, -128))


def seconds(work: Callable[[], object]) -> float:
    """The best of three."""
    times: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    for down in (11, 110):
        layer = Layer(7, 7, down, 56, 3, 2, 3, Memory.ACC, activation=ACTIVATION)
        stream = kernel_stream(Kernel(DEFAULT_CONFIG, (layer,)))
        insns, dram, count = stream.insns, stream.dram, len(stream.insns)
        found = len(sanitize(insns, dram))
        checked = seconds(lambda i=insns, d=dram: sanitize(i, d))
        ran = seconds(lambda i=insns, d=dram: run_in_order(i, d))
        print(
            f"{count:>7} instructions: sanitize {checked:.2f} s "
            f"({1e6 * checked / count:.1f} us each), numpy engine {ran:.2f} s, "
            f"ratio {checked / ran:.2f}, {found} hazards"
        )
        if down == 11:
            edges = list(dropped_edges(insns, DEFAULT_CONFIG))[::2]
            broken = apply([m for edge in edges for m in edge], insns, DEFAULT_CONFIG)
            checked, found = (
                seconds(lambda b=broken, d=dram: sanitize(b, d)),
                sanitize(broken, dram),
            )
            print(f"{count:>7} instructions: sanitize {checked:.2f} s, {len(found)} hazards")


if __name__ == "__main__":
    main()

"""What it brings VTA that the host gathers the windows of convolutions of few channels.

    python benchmarks/stem.py [--nets N,N] [--full]

A row for each net and form: simulated cycles without and with `vta-gather-windows`, the
milliseconds that this saves at VTA's clock, the milliseconds that the host's C takes longer (the
least of several runs of all but VTA, in one thread, in turns), and the bytes that cross. Nets are
symmetric int8, with a scale for each channel or with powers of two, reduced to a quarter of their
channels or in full size.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from nets.classic_nets import FULL, Scale, feeds
from nets.int8_nets import quantised_net, with_powers_of_two

import byocir
from byocir.runtime.package import Package
from byocir.targets.base import Runner
from byocir.vta_sim import TimingModel

NETS = ("ResNet-18", "MobileNetV2", "ResNet-50")
QUARTER = Scale(48, 4, 2)
RUNS = 20


@dataclass(frozen=True)
class Remembering(byocir.Vta):
    """VTA that gives the results of its first run again: what is left to time is the host."""

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        run, known = super().load(blobs), dict[str, list[np.ndarray]]()

        def again(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            if symbol not in known:
                known[symbol] = run(symbol, inputs)
            return known[symbol]

        return again


def host_milliseconds(packages: Sequence[Package], inputs: Mapping[str, np.ndarray]) -> list[float]:
    """The least time of each package's runs, in turns."""
    least = [float("inf")] * len(packages)
    for turn in range(RUNS + 1):
        for i, package in enumerate(packages):
            began = perf_counter()
            package.run(inputs)
            if turn:  # the first run simulates
                least[i] = min(least[i], 1e3 * (perf_counter() - began))
    return least


def row(name: str, form: str, scale: Scale) -> str:
    model = quantised_net(name, "symmetric", "QDQ", scale, per_channel=form == "channel")
    if form == "powers":
        model = with_powers_of_two(model)
    packages = [
        byocir.compile(model, targets=[Remembering(gather=gather)], host="c{threads=1}")
        for gather in (False, True)
    ]
    before, after = (sum(part.cycles for part in package.profile()) for package in packages)
    slow, fast = host_milliseconds(packages, feeds(model, 0))
    crossing = [sum(region.bytes for region in package.report.regions) for package in packages]
    saved = (before - after) / (1e3 * TimingModel.de10().clock_mhz)
    return (
        f"{name:<12} {form:<8} {before:>11,} {after:>11,} cycles"
        f" {100 * (after / before - 1):+6.1f} %  VTA {-saved:+7.2f} ms  host {fast - slow:+6.2f} ms"
        f"  {crossing[0]:>9,} {crossing[1]:>9,} bytes cross"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nets", default=",".join(NETS), help="some of them")
    parser.add_argument("--full", action="store_true", help="nets in full size")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # the quantiser's advice
    for name in options.nets.split(","):
        for form in ("channel", "powers"):
            print(row(name, form, FULL if options.full else QUARTER), flush=True)


if __name__ == "__main__":
    main()

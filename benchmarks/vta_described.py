"""Cycles of VTA as a description beside those of the built-in target, layer by layer.

    python benchmarks/vta_described.py [--divisor N] [--powers] [--layers N,N]

A row for each convolution of ResNet-18 of 224 pixels, quantised by ONNX Runtime without zero points
and with a scale for each channel, or powers of two: cycles of `vta`, of examples/vta_machine.py,
and how many times as many these are; then what keeps the described machine's units busy. Rows of
residual sums are blocks: a convolution, and another to which the first is added. Then come
depthwise convolutions of MobileNetV2, and convolutions with pools behind them. Channels are divided
by `--divisor`. Both are simulated by the same costs, but for fetching instructions.

In the column `words` the described programs are timed as `vta`'s are: the words that they become,
with fetches and loads of micro-ops, which take turns with other reads.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nets.classic_nets import Net, Scale
from nets.int8_nets import SETTINGS, quantised, with_powers_of_two

import byocir
from byocir.targets.vta_runs import profiles_of

DESCRIBED = str(Path(__file__).resolve().parents[1] / "examples" / "vta_machine.py")


@dataclass(frozen=True)
class Layer:
    """A convolution that is rectified: pixels of a side and channels before it, channels behind."""

    side: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    is_added: bool = False
    """Another one follows, to the result of which that of this one is added."""
    is_depthwise: bool = False
    pool: tuple[str, int, int] | None = None
    """The operator of a pool that follows, the elements of a window's side, and between windows."""

    def __str__(self) -> str:
        window = f"{self.kernel}x{self.kernel}/{self.stride}"
        kind = " and sum" if self.is_added else " depthwise" if self.is_depthwise else ""
        if self.pool is not None:
            name, size, step = self.pool
            kind = f" {name.removesuffix('Pool').lower()} {size}x{size}/{step}"
        return f"{self.side:>3} px {self.inputs:>3} to {self.outputs:>3} {window}{kind}"

    def model(self, divisor: int, *, powers: bool) -> bytes:
        """The layer as an int8 net."""
        image = self.inputs < 16
        inputs, outputs = self.inputs // (1 if image else divisor), self.outputs // divisor
        rng = np.random.default_rng(self.side + self.outputs)
        x = rng.normal(size=(1, inputs, self.side, self.side)).astype(np.float32)
        net = Net(Scale(self.side, divisor, 1), x)
        self._convolve(net, rng, inputs, outputs, self.stride)
        net.add("Relu")
        if self.is_added:
            first = net.last
            self._convolve(net, rng, outputs, outputs, 1)
            net.add("Add", first)
            net.add("Relu")
        if self.pool is not None:
            name, size, step = self.pool
            window = {"kernel_shape": [size] * 2, "strides": [step] * 2}
            net.add(name, **window, pads=[size // 2 if step < size else 0] * 4)
        model = quantised(net.model(), SETTINGS["symmetric"], per_channel=not powers)
        return with_powers_of_two(model) if powers else model

    def _convolve(
        self, net: Net, rng: np.random.Generator, inputs: int, outputs: int, stride: int
    ) -> None:
        groups = inputs if self.is_depthwise else 1
        weight = net.normal(outputs, inputs // groups, self.kernel, self.kernel)
        bias = net.weight(rng.normal(0, 0.1, outputs).astype(np.float32))
        window = {"kernel_shape": [self.kernel] * 2, "strides": [stride] * 2}
        net.add("Conv", weight, bias, pads=[self.kernel // 2] * 4, group=groups, **window)


LAYERS = (
    Layer(224, 3, 64, 7, 2),
    Layer(56, 64, 64, 3, 1),
    Layer(56, 64, 128, 3, 2),
    Layer(56, 64, 128, 1, 2),
    Layer(28, 128, 128, 3, 1),
    Layer(28, 128, 256, 3, 2),
    Layer(28, 128, 256, 1, 2),
    Layer(14, 256, 256, 3, 1),
    Layer(14, 256, 512, 3, 2),
    Layer(14, 256, 512, 1, 2),
    Layer(7, 512, 512, 3, 1),
    Layer(56, 64, 64, 3, 1, is_added=True),
    Layer(28, 128, 128, 3, 1, is_added=True),
    Layer(14, 256, 256, 3, 1, is_added=True),
    Layer(7, 512, 512, 3, 1, is_added=True),
    Layer(112, 32, 32, 3, 1, is_depthwise=True),
    Layer(56, 144, 144, 3, 2, is_depthwise=True),
    Layer(14, 384, 384, 3, 1, is_depthwise=True),
    Layer(7, 960, 960, 3, 1, is_depthwise=True),
    Layer(224, 3, 64, 7, 2, pool=("MaxPool", 3, 2)),
    Layer(28, 64, 64, 3, 1, pool=("MaxPool", 2, 2)),
    Layer(13, 256, 64, 1, 1, pool=("MaxPool", 5, 1)),
    Layer(35, 192, 64, 1, 1, pool=("AveragePool", 3, 1)),
    Layer(7, 320, 512, 1, 1, pool=("AveragePool", 7, 7)),
)


def cycles_on(target: str, model: bytes) -> tuple[int, dict[str, int], int]:
    """The cycles of a layer on a machine, those in which each of its units is busy, and the cycles
    of its words."""
    package = byocir.compile(byocir.import_onnx(model), targets=[target], levels=("tensor",))
    found = package.profile()
    if not found:
        reasons = [each.reason for each in package.report.decisions if each.reason]
        raise SystemExit(f"{target} takes nothing: {reasons[0]}")
    busy = Counter[str]()
    for part in found:
        busy.update(part.bounds)
    words = sum(part.cycles for blobs in package.blobs.values() for part in profiles_of(blobs))
    return sum(part.cycles for part in found), busy, words


def told_of(built_in: int, described: int, words: int) -> str:
    """The columns of cycles, each with how many times as many as the built-in target's they are."""
    ratios = (f"{each:9,} {each / built_in:6.3f}" for each in (described, words))
    return f"{built_in:9,} {' '.join(ratios)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divisor", type=int, default=1)
    parser.add_argument("--powers", action="store_true")
    parser.add_argument("--layers", type=lambda text: [int(n) for n in text.split(",")])
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # of the quantiser
    print(
        f"{'layer':<32} {'vta':>9} {'described':>9} {'ratio':>6} {'words':>9} {'ratio':>6} "
        f"{'search':>7}  busy"
    )
    totals = [0, 0, 0]
    for layer in [LAYERS[n] for n in given.layers] if given.layers else LAYERS:
        model = layer.model(given.divisor, powers=given.powers)
        built_in, _, _ = cycles_on("vta", model)
        start = time.process_time()
        described, busy, words = cycles_on(DESCRIBED, model)
        spent = time.process_time() - start
        totals = [a + b for a, b in zip(totals, (built_in, described, words), strict=True)]
        units = ", ".join(f"{unit} {cycles}" for unit, cycles in busy.items())
        told = told_of(built_in, described, words)
        print(f"{layer!s:<32} {told} {spent:6.1f}s  {units}", flush=True)
    print(f"{'all':<32} {told_of(*totals)}")


if __name__ == "__main__":
    main()

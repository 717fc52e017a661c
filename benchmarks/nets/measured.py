"""What a target makes of a quantised net: its share of the work, its cycles, and how far its
integers are from those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import byocir
from byocir.dialects.context import load_context
from byocir.evaluate.rounding_steps import BEFORE_INTEGERS, StepCounts, count_steps
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.report import Report
from byocir.targets.hand_off_passes import meaning_pipeline

Feeds = Mapping[str, np.ndarray]
LEVELS = (("graph",), ("tensor",), ("graph", "tensor"))


@dataclass(frozen=True)
class Offload:
    """Of a net at some levels: how much a target took, its cycles and its results.

    `share` is of all multiply-accumulates, 0 to 1; `unknown` counts operators that nobody knows the
    multiply-accumulates of; `products` are the steps of the target's GEMM, one cycle each.
    """

    share: float
    unknown: int
    cycles: int
    products: int
    results: Sequence[Mapping[str, np.ndarray]]
    report: Report


def offload(
    model: bytes, feeds: Sequence[Feeds], levels: Sequence[str], target: str = "vta"
) -> Offload:
    """Compiles a net, and runs it with the target's own checks on."""
    package = byocir.compile(model, targets=[target], levels=levels)
    report = package.report
    devices = [(report.device.get(r.symbol, {}), r.turns or 1) for r in report.regions]
    cycles = sum(device.get("cycles", 0) * turns for device, turns in devices)
    products = sum(device.get("bounds", {}).get("gemm", 0) * turns for device, turns in devices)
    share = report.macs[target] / max(sum(report.macs.values()), 1)
    results = [package.run(feed, check=True) for feed in feeds]
    return Offload(share, len(report.unknown_macs), cycles, products, results, report)


def same_results(ways: Sequence[Offload]) -> bool:
    """Whether all of these gave the same bits."""
    return all(
        np.array_equal(ours[name], array)
        for way in ways[1:]
        for ours, first in zip(way.results, ways[0].results, strict=True)
        for name, array in first.items()
    )


def steps(model: bytes, feeds: Sequence[Feeds], targets: Sequence[str] = ("vta",)) -> StepCounts:
    """What the rewrites for targets change, op by op.

    Each quantize op of the imported net is given what the rewritten net computed before it, so that
    steps do not add up.
    """
    plain, rewritten = byocir.import_onnx(model), byocir.import_onnx(model)
    run_passes(plain, load_context(), BEFORE_INTEGERS)
    run_passes(rewritten, load_context(), meaning_pipeline(rewritten, targets))
    found = StepCounts()
    for feed in feeds:
        count_steps(plain, rewritten, feed, found)
    return found

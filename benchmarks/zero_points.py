"""How much of nets that ONNX Runtime's quantiser wrote VTA takes, and what zero points cost there.

    python benchmarks/zero_points.py [--nets N,N] [--settings S,S] [--forms F,F] [--full] [--jobs N]

A row for each net, form (per tensor and per channel) and setting: the share of the
multiply-accumulates on VTA with the graph level, the tensor level and both, operators whose share
nobody knows, whether all levels give the same bits, the largest step of any one operator from
ONNX's meaning (float, halves to even) and how many values in a million are off, and the cycles with
both levels beside those of the symmetric net of the same form. Of what they are more, `sums` are
steps of GEMM: sums of rows and columns for weights with zero points, and for products of two
computed arrays. The sanitizer is on in all runs. Static forms promise at least 99 % of the
multiply-accumulates, the same bits and at most one step; rows that break that are counted at the
end, and are an error. Nets are reduced to a quarter of their channels, or have their full size.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from nets.classic_nets import FULL, Scale, feeds
from nets.int8_nets import FORMS, SETTINGS, Form, quantised_net
from nets.measured import LEVELS, StepCounts, offload, same_results, steps

NETS = ("ResNet-18", "ResNet-50", "MobileNetV2", "SqueezeNet", "SSD", "encoder")
QUARTER = Scale(48, 4, 2)
SEEDS = (5,)


@dataclass(frozen=True)
class Case:
    """A net as the quantiser writes it."""

    name: str
    form: Form
    per_channel: bool
    setting: str
    scale: Scale

    def __str__(self) -> str:
        which = "channel" if self.per_channel else "tensor"
        return f"{self.name:<12} {self.setting:<10} {self.form:<10} {which:<8}"


@dataclass(frozen=True)
class Row:
    """What was measured of a net: shares by level, and cycles and steps of GEMM with both."""

    case: Case
    shares: Sequence[float]
    unknown: int
    same: bool
    moved: StepCounts
    cycles: int
    products: int

    @property
    def holds(self) -> bool:
        """Tells if this is what is promised for static forms."""
        taken = min(self.shares) >= 0.99 and self.unknown == 0
        return self.case.form == "dynamic" or (taken and self.same and self.moved.largest <= 1)

    def shown(self, base: Row | None) -> str:
        moved, shares = self.moved, " ".join(f"{100 * share:6.2f}" for share in self.shares)
        rate = 1e6 * moved.moved / max(moved.values, 1)
        unseen = f" ({moved.unseen} unseen)" if moved.unseen else ""
        return (
            f"{self.case}{shares} %  unknown {self.unknown:3}  {'same' if self.same else 'DIFFER'}"
            f"  steps {moved.largest} {rate:7.0f} ppm{unseen}  {self.cycles:>10,} cycles"
            f"{self._more(base)}{'' if self.holds else '  BROKEN'}"
        )

    def _more(self, base: Row | None) -> str:
        if base is None or not base.cycles:  # of products with dynamic scales VTA takes none
            return ""
        more, sums = self.cycles - base.cycles, self.products - base.products
        return f" {100 * more / base.cycles:+6.2f} %, sums {100 * sums / base.cycles:+6.2f} %"


def measured(case: Case) -> Row:
    logging.disable(logging.WARNING)  # the quantiser's advice
    model = quantised_net(
        case.name, case.setting, case.form, case.scale, per_channel=case.per_channel
    )
    inputs = [feeds(model, seed) for seed in SEEDS]
    ways = [offload(model, inputs, levels) for levels in LEVELS]
    last, shares = ways[-1], [way.share for way in ways]
    moved = steps(model, inputs)
    return Row(case, shares, last.unknown, same_results(ways), moved, last.cycles, last.products)


def measured_all(cases: Sequence[Case], jobs: int) -> Iterator[Row]:
    """The rows of these cases, in order, from so many processes."""
    if jobs == 1:
        yield from map(measured, cases)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as processes:
        yield from processes.map(measured, cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for option, known in (("nets", NETS), ("settings", SETTINGS), ("forms", FORMS)):
        parser.add_argument(f"--{option}", type=_some(known), default=list(known))
    parser.add_argument("--full", action="store_true", help="nets in full size")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    scale = FULL if options.full else QUARTER
    cases = [
        Case(name, form, per_channel, setting, scale)
        for name in options.nets
        for form in options.forms
        for per_channel in (False, True)
        for setting in options.settings
    ]
    base, broken = None, 0
    for row in measured_all(cases, options.jobs):
        if row.case.setting == options.settings[0]:
            base = row if row.case.setting == "symmetric" else None
        print(row.shown(None if row is base else base), flush=True)
        broken += not row.holds
    print(f"{len(cases) - broken} of {len(cases)} rows hold what is promised")
    raise SystemExit(broken > 0)


def _some(known: Collection[str]):
    def parse(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"expected {', '.join(known)}, found {unknown[0]}")
        return text.split(",")

    return parse


if __name__ == "__main__":
    main()

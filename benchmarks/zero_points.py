"""How much of nets that ONNX Runtime's quantiser wrote VTA takes, and what zero points cost there.

    python benchmarks/zero_points.py [--nets N,N] [--settings S,S] [--forms F,F] [--full]

A row for each net, setting, form (per tensor, and per channel where that differs): the share of the
multiply-accumulates on VTA with the graph level, the tensor level and both, operators whose share
nobody knows, whether all levels give the same bits, the largest step of any one operator from
ONNX's meaning (float, halves to even) and how many values in a million are off, and the cycles with
both levels beside those of the symmetric net of the same form. The sanitizer is on in all runs.
Nets are reduced to a quarter of their channels, or have their full size.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence

from nets.classic_nets import FULL, Scale, feeds
from nets.int8_nets import FORMS, SETTINGS, Form, quantised_net
from nets.measured import LEVELS, offload, same_results, steps

NETS = ("ResNet-18", "ResNet-50", "MobileNetV2", "SqueezeNet", "SSD", "encoder")
QUARTER = Scale(48, 4, 2)
SEEDS = (5,)


def row(name: str, setting: str, form: Form, per_channel: bool, scale: Scale) -> tuple[str, int]:
    """What is printed of one net, and its cycles."""
    model = quantised_net(name, setting, form, scale, per_channel=per_channel)
    inputs = [feeds(model, seed) for seed in SEEDS]
    ways = [offload(model, inputs, levels) for levels in LEVELS]
    moved = steps(model, inputs)
    shares = " ".join(f"{100 * way.share:6.2f}" for way in ways)
    same = "same" if same_results(ways) else "DIFFER"
    rate = 1e6 * moved.moved / max(moved.values, 1)
    unseen = f" ({moved.unseen} unseen)" if moved.unseen else ""
    text = (
        f"{shares} %  unknown {ways[-1].unknown:3}  {same}  steps {moved.largest} {rate:7.0f} ppm"
    )
    return text + unseen, ways[-1].cycles


def rows(options: argparse.Namespace, scale: Scale) -> Iterator[str]:
    for name in options.nets:
        for form in options.forms:
            for per_channel in (False, True):
                base = 0
                for setting in options.settings:
                    text, cycles = row(name, setting, form, per_channel, scale)
                    base = base or (cycles if setting == "symmetric" else 0)
                    cost = f"{100 * (cycles / base - 1):+6.1f} %" if base else ""
                    which = "channel" if per_channel else "tensor"
                    head = f"{name:<12} {setting:<10} {form:<10} {which:<8}"
                    yield f"{head}{text}  {cycles:>10,} cycles {cost}"


def main() -> None:
    logging.disable(logging.WARNING)  # the quantiser's advice
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, known in (("nets", NETS), ("settings", SETTINGS), ("forms", FORMS)):
        parser.add_argument(f"--{option}", type=_some(known), default=list(known))
    parser.add_argument("--full", action="store_true", help="nets in full size")
    options = parser.parse_args()
    for line in rows(options, FULL if options.full else QUARTER):
        print(line, flush=True)


def _some(known: Sequence[str]):
    def parse(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"expected {', '.join(known)}, found {unknown[0]}")
        return text.split(",")

    return parse


if __name__ == "__main__":
    main()

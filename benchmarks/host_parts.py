"""What single mechanisms of the host's C bring: nets with all of them, and without each.

    python benchmarks/host_parts.py [--rounds N] [NAME ...]

Nets are those of `host.py`, quantised and in full size, and single convolutions of as few channels
as the last layers of nets that make pictures have. One thread; all ways in turn; printed are the
least milliseconds with all mechanisms, and those without each as a multiple of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from nets.classic_nets import FULL, feeds
from nets.int8_nets import INT8_NETS
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.lowering.tir_to_c import clamp_after_cast, contractions, reciprocal, scalars
from byocir.lowering.tir_to_c.float_ranges import ANY
from byocir.rewrites.host.flatten_windows import FlattenWindowsPass

HOST = "c{cpu=native,threads=1}"


def _none(*_: Any) -> None:
    return None


USERS = (scalars, clamp_after_cast, reciprocal)
WITHOUT: Mapping[str, Sequence[tuple[Any, str, Callable[..., Any]]]] = {
    "channel_tiles": [(contractions, "channel_shape", _none)],
    "clamp_after_cast": [(scalars, "clamp_after_cast", _none)],
    "reciprocal": [(scalars, "as_product", _none)],
    "float_ranges": [(module, "range_of", lambda *_: ANY) for module in USERS],
    "flatten_windows": [(FlattenWindowsPass, "apply", _none)],
}
"""How each mechanism is switched off: an attribute, and what takes its place."""


def conv(channels: int, outputs: int, pixels: int, kernel: int) -> bytes:
    """A convolution of float numbers, as a model."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(outputs, channels, kernel, kernel)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, pixels, pixels])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "conv", [x], [y], [numpy_helper.from_array(w, "w")])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


MODELS: Mapping[str, Callable[[], bytes]] = {
    **{name: partial(made, FULL) for name, made in INT8_NETS.items()},
    "conv 32 to 3": partial(conv, 32, 3, 224, 3),
    "conv 12 to 3, 5 x 5": partial(conv, 12, 3, 256, 5),
}


def measured(data: bytes, rounds: int) -> dict[str, float]:
    """The least seconds of each way to run a model."""
    model, given = onnx.load_from_string(data), feeds(data, 1)
    packages: dict[str, byocir.Package] = {}
    for way in ("all", *WITHOUT):
        with ExitStack() as stack:
            for place, name, other in WITHOUT.get(way, ()):
                stack.enter_context(patch.object(place, name, other))
            packages[way] = byocir.compile(model, targets=[], host=HOST)
            packages[way].run(given)
    least = dict.fromkeys(packages, float("inf"))
    for _ in range(rounds):
        for way, package in packages.items():
            began = time.perf_counter()
            package.run(given)
            least[way] = min(least[way], time.perf_counter() - began)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="NAME", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("model", "ms", *WITHOUT, sep="\t")
    for name in options.models:
        least = measured(MODELS[name](), options.rounds)
        shares = [f"{least[way] / least['all']:.2f}" for way in WITHOUT]
        print(name, f"{least['all'] * 1000:.2f}", *shares, sep="\t", flush=True)


if __name__ == "__main__":
    main()

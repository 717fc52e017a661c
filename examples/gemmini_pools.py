"""Gemmini with the stores that pool: what they add to the description in examples/gemmini.py.

A store may give the greatest of the scaled sums in each window of an image, where pixels outside
count as 0. Behind a relu that changes nothing, and windows that reach over a border are others that
begin in front of it. So a convolution and the max pool behind it are one pass over the image.
"""

from pathlib import Path
from runpy import run_path
from struct import pack, unpack
from types import SimpleNamespace
from typing import Any

import byocir
from byocir.machine import Call, Register, up_to
from byocir.patterns import Match, Pattern, block, composite

plain: Any = SimpleNamespace(**run_path(str(Path(__file__).with_name("gemmini.py"))))
SIDE = 3
"""Pixels of a window's side, and between windows, at most."""


def pool_fields(call: Call) -> int:
    """The fields of windows: those of the first row, or of the last, come alone."""
    rows, columns, r, s = (call.sizes[name] for name in ("rows", "columns", "r", "s"))
    step, side = call.numbers.get("step", 1), max(r, s)
    fields = 1 << 2 | step << 4 | side << 6 | side - r << 8 | side - s << 10
    fields |= call.result.shape[-2] << 24 | rows << 32 | columns << 40
    return fields | (rows - 1) * step + r << 48 | call.places["x"].shape[-2] << 56


def pooled(call: Call) -> dict[Register, tuple[int, int]]:
    scale = unpack("<I", pack("<f", call.places["scale"].values()))[0]
    return {plain.stores: (pool_fields(call), scale << 32 | call.result.shape[-1])}


@plain.gemmini.instruction(
    plain.store, encode=plain.move, registers=pooled, strided=("x",), rows=up_to(64),
    columns=up_to(64), lanes=up_to(plain.DIM), r=up_to(SIDE), s=up_to(SIDE),
    cycles=lambda s: 10 + s["rows"] * s["columns"] * s["r"] * s["s"],
)  # fmt: skip
def mvout_pooled() -> Pattern:
    sums = plain.accumulator("x")["(rows*step + r) (columns*step + s) lanes"]
    return block(
        "rows columns lanes | r s", sums, plain.factor,
        lambda old, x, s: old.max(plain.scaled(old, x.max(0), s)), init=-128,
    )  # fmt: skip


@composite("gemmini.pooled_conv")
def pooled_conv() -> Pattern:
    """A convolution with a relu, and the greatest bytes in windows of it."""
    y = plain.conv.patterns[0]["n (h*step + r - up) (w*step + s - left) c"].padded(-128)
    return block("n h w c | r s", y, lambda acc, x: acc.max(x), init=-128) @ "pool"


@pooled_conv.rule
def windows_fit_their_fields(m: Match) -> tuple[bool, tuple[int, int, int, int]]:
    """Windows are squares of at most 3 by 3, 3 pixels apart, in images up to 255 pixels wide."""
    window, width = m["pool"].extents, m["product"].extents["w"]
    step = m.get("step", 1)
    fits = window["r"] == window["s"] <= SIDE and step <= SIDE and width <= 255
    return fits, (window["r"], window["s"], step, width)


class Gemmini(byocir.Target):
    name, machine, patterns = "gemmini", plain.gemmini, (pooled_conv, *plain.Gemmini.patterns)
    channels_last = signed_bytes = True
    split_groups, fixed_point = plain.DIM, "float_scale_last"
    quantisation = plain.Gemmini.quantisation

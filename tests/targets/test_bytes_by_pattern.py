"""What moves bytes, spreads them or looks them up is taken by patterns at either level, with zero
points: concats of parts on other grids, slices, pads, gates of channels, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from nets.classic_nets import Net, Scale, feeds
from nets.int8_nets import SETTINGS, quantised
from nets.measured import steps

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.types import i8, i32, i64
from byocir.evaluate.module import evaluate
from byocir.patterns import Composite, Pattern, block, constant, number, op, wildcard
from byocir.patterns import ScalarPattern as S
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline

x, y, table = wildcard("x", dtype=i8), wildcard("y", dtype=i8), constant("table")
SPACE = "n c h w"

# Operators.


def requantised(value: Pattern) -> Pattern:
    return op("graph.requantize", value, constant())


GATE = requantised(op("graph.mul", requantised(x), requantised(y)))
OPERATORS = (
    Composite("concat", (op("graph.concat", x, y),)),
    Composite("slice", (op("graph.slice", x),)),
    Composite("pad", (op("graph.pad", x, mode="constant"),)),
    Composite("resize", (op("graph.resize", x, mode="nearest"),)),
    Composite("gate", (GATE,), zero_points=True),
    Composite("table", (op("graph.gather", table, op("graph.cast", x)),)),
)

# Blocks.


def each(value: Pattern, body: object) -> Pattern:
    return block("*i", value["*i"], lambda acc, e: body(e))


def copy(acc: S, e: S) -> S:
    return e


def looked_up(acc: S, e: S, entries: S) -> S:
    index = e.to(i64)  # from the end where it is below 0
    return entries.read(index.compare("lt", 0).select(index + 256, index))


def gate_of_blocks() -> Pattern:
    """A product of bytes without their zero points, one of them a number for each channel."""
    image, gate = (
        each(value, lambda e, zero=zero: e.to(i32) + number(zero))
        for value, zero in ((x, "zero_x"), (y, "zero_y"))
    )
    return block(SPACE, image[SPACE], gate["n c (0) (0)"], lambda acc, a, b: a * b)


STRETCHED = "n c (h*ah + bh) floordiv dh (w*aw + bw) floordiv dw"
FIRST = block(SPACE, x[SPACE], copy, out=SPACE)
WIDE = each(x, lambda e: e.to(i32))
BLOCKS = (
    Composite("concat_block", (block(SPACE, y[SPACE], copy, init=FIRST, out="n (c + at) h w"),)),
    Composite("slice_block", (block(SPACE, x["n (c + from) (h*sh + top) (w*sw + left)"], copy),)),
    Composite("resize_block", (block(SPACE, x[STRETCHED], copy),)),
    Composite("pad_block", (block(SPACE, x["n c (h - top) (w - left)"].padded("zero"), copy),)),
    Composite("gate_block", (gate_of_blocks(),)),
    Composite("table_block", (block("*i", WIDE["*i"], table, looked_up),)),
)


@dataclass(frozen=True)
class Mover(byocir.Target):
    """Takes what its patterns say, and nothing that multiplies and accumulates."""

    name: ClassVar[str] = "mover"
    patterns: ClassVar[tuple[Composite, ...]] = (*OPERATORS, *BLOCKS)
    fixed_point: ClassVar[Literal["half_up"]] = "half_up"
    signed_bytes: ClassVar[bool] = True
    tables: ClassVar[bool] = True


def net() -> bytes:
    """A convolution whose result is padded, looked up, cut, made larger, gated and joined."""
    made = Net(Scale(6, 1, 1), np.random.default_rng(3).normal(size=(2, 3, 6, 6)).astype("f"))

    def numbers(*values: int) -> str:
        return made.weight(np.array(values))

    made.add("Conv", made.normal(16, 3, 1, 1))
    first = made.add("HardSwish")
    made.add("GlobalAveragePool")
    made.add("Conv", made.normal(16, 16, 1, 1))
    gate = made.add("HardSigmoid")
    made.last = first
    made.add("Mul", gate)
    made.add("Pad", numbers(0, 0, 1, 1, 0, 0, 1, 1), mode="constant")
    made.add("Conv", made.normal(16, 16, 1, 1))
    made.add("Slice", numbers(8, 1, 1), numbers(16, 7, 7), numbers(1, 2, 3), numbers(1, 1, 2))
    sizes = made.weight(np.array([1, 1, 1, 2], np.float32))
    made.add("Resize", made.weight(np.zeros(0, np.float32)), sizes, mode="nearest")
    made.add("Concat", first, axis=1)
    made.add("Conv", made.normal(5, 24, 1, 1))
    return made.model()


MOVING = {"Pad", "Mul", "Slice", "Concat", "HardSwish", "HardSigmoid", "Resize"}


@pytest.mark.parametrize("level", ["graph", "tensor"])
def test_bytes_are_moved_by_patterns(level: str):
    model = quantised(net(), SETTINGS["u8s8"])
    package = byocir.compile(model, targets=[Mover()], levels=[level])
    report, feed = package.report, feeds(model, 5)
    places = {node.op_type: report.places[node.name] for node in report.nodes}
    assert {kind for kind, place in places.items() if place == "mover"} >= MOVING
    meaning = byocir.import_onnx(model)
    run_passes(meaning, load_context(), meaning_pipeline(meaning, [Mover()]))
    (found,), (expected,) = package.run(feed).values(), evaluate(meaning, feed).values()
    np.testing.assert_array_equal(found, expected)
    assert steps(model, [feed], [Mover()]).largest <= 1

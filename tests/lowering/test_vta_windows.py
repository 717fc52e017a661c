"""vta-gather-windows: the same results, from windows that the host gathers as channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from vta_programs import Net, Scale, apply, assert_same, evaluate
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.byoc import composites_in
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import shape_of
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.gather_windows import VtaGatherWindowsPass

DIGITS = "examples/digits/digits_int8.onnx"
SHAPES = {"image": (1, 1, 8, 8)}
SCALE = Scale(np.array(1, np.int32), 6)


@dataclass(frozen=True)
class Conv:
    """A convolution of an image [images, channels, *sizes] with windows [*kernel]."""

    images: int
    channels: int
    outputs: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    around: int = 0

    @property
    def image(self) -> tuple[int, ...]:
        return (self.images, self.channels, *self.sizes)

    def module(self, readers: int = 1) -> ModuleOp:
        """A function of so many of it, all of the same image."""
        random = np.random.default_rng(0)
        weights = random.integers(-128, 128, (self.outputs, self.channels, *self.kernel), np.int8)
        ways = (weights, self.stride, self.pad, self.dilation, self.around)
        net = Net(self.image)
        results = [
            net.composite(
                f"Conv_{i}",
                net.inputs,
                lambda body, x: body.requantise(body.conv(x, *ways), SCALE),
            )
            for i in range(readers)
        ]
        return net.module(*results)


@st.composite
def convs(draw: st.DrawFn) -> Conv:
    rank = draw(st.integers(1, 2))
    small = st.tuples(*[st.integers(1, 4)] * rank)
    return Conv(
        draw(st.integers(1, 2)),
        draw(st.integers(1, 18)),
        draw(st.integers(1, 20)),
        draw(st.tuples(*[st.integers(7, 12)] * rank)),
        draw(small),
        *(draw(st.integers(1, 2)), draw(st.integers(0, 2)), draw(st.integers(1, 2))),
        draw(st.integers(-128, 127)),
    )


def read_by_blocks(module: ModuleOp) -> list[tuple[int, ...]]:
    """The shapes of what the contractions of a module read."""
    return [
        shape_of(op.ins[0].type)
        for function in vta_functions(module)
        for composite in composites_in(function)
        for op in composite.body.block.ops
        if isinstance(op, BlockOp) and op.reductions
    ]


@given(convs(), st.integers(0, 2**16))
def test_gathered_windows_give_the_same(conv: Conv, seed: int) -> None:
    module = conv.module()
    image = np.random.default_rng(seed).integers(-128, 128, conv.image, np.int8)
    expected = evaluate(module, [image])
    apply(module, VtaGatherWindowsPass)
    assert_same(evaluate(module, [image]), expected)


def test_a_stem_reads_ten_blocks_instead_of_forty_nine() -> None:
    module = apply(Conv(1, 3, 64, (32, 32), (7, 7), 2, 3).module(), VtaGatherWindowsPass)
    assert read_by_blocks(module) == [(1, 147, 16, 16)]


def test_what_gains_nothing_stays() -> None:
    for conv in (
        Conv(1, 16, 64, (8, 8), (3, 3), 1, 1),  # a block of channels has no idle lanes
        Conv(1, 3, 16, (8, 8), (1, 1)),  # no window
        Conv(1, 12, 4, (40, 40), (2, 2)),  # four blocks become three: loads would take longer
    ):
        assert read_by_blocks(apply(conv.module(), VtaGatherWindowsPass)) == [conv.image]


def test_an_image_with_two_readers_stays() -> None:
    conv = Conv(1, 3, 16, (8, 8), (3, 3))
    module = apply(conv.module(readers=2), VtaGatherWindowsPass)
    assert read_by_blocks(module) == [conv.image, conv.image]


def test_the_report_counts_the_windows_that_cross() -> None:
    crossing, notes = list[int](), list[list[str]]()
    for gather in (False, True):
        report = byocir.compile(DIGITS, targets=[byocir.Vta(gather=gather)], shapes=SHAPES).report
        crossing.append(sum(region.bytes for region in report.regions))
        notes.append([note for note in report.notes if "gathers" in note])
    assert crossing[1] - crossing[0] == (9 - 1) * 8 * 8
    told = "@vta_0: the host gathers the windows of input 0 as channels: 1x1x8x8 becomes 1x9x8x8"
    told += ", 512 bytes more cross"
    assert notes == [[], [told]]

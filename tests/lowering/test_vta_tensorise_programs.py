"""Staged composites keep their meaning as instructions, with tokens, and as bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from vta_staged import Conv, Layer, Pool, Residual, Shape, function, parse
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.context import load_context
from byocir.dialects.vta import ProgramOp
from byocir.evaluate.module import evaluate_function
from byocir.evaluate.vta import run_program
from byocir.lowering.tir_to_vta.encode import VtaEncodePass
from byocir.lowering.tir_to_vta.insert_tokens import VtaInsertTokensPass
from byocir.lowering.tir_to_vta.tensorise import VtaTensorisePass
from byocir.vta_sim import Program

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["addi", "muli", "maxsi", "minsi"]), st.integers(-32768, 32767)),
        st.tuples(st.sampled_from(["shrsi", "shli"]), st.integers(0, 31)),
    ),
    max_size=3,
).map(tuple)
STYLES = st.sampled_from(["random", "low", "high"])


@st.composite
def convs(draw: st.DrawFn, shape: Shape) -> Conv:
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pad, dilation = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    spare = [size + 2 * pad - (k - 1) * dilation for size, k in zip(shape[1:], kernel, strict=True)]
    if min(spare) < 1:
        kernel, pad, dilation = (1, 1), 0, 1
    channels, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    whole = Conv(shape, channels, kernel, stride, pad, dilation, (1, 1, 1), ())
    tile_in = draw(st.sampled_from([i for i in range(1, shape[0] + 1) if shape[0] % i == 0]))
    tile = (draw(st.integers(1, channels)), draw(st.integers(1, whole.output[1])), tile_in)
    return Conv(shape, channels, kernel, stride, pad, dilation, tile, draw(STEPS))


@st.composite
def pools(draw: st.DrawFn, shape: Shape) -> Pool:
    kernel = tuple(draw(st.integers(1, min(3, size))) for size in shape[1:])
    pad = draw(st.integers(0, min(kernel) - 1))
    stride, maximum = draw(st.integers(1, 3)), draw(st.booleans())
    return Pool(shape, (kernel[0], kernel[1]), stride, pad, maximum, draw(STEPS))


@st.composite
def residuals(draw: st.DrawFn, shape: Shape) -> Residual:
    scale = st.integers(-32768, 32767)
    return Residual(
        shape, draw(st.integers(1, shape[1])), draw(st.tuples(scale, scale)), draw(STEPS)
    )


@st.composite
def networks(draw: st.DrawFn) -> list[Layer]:
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)))
    layers: list[Layer] = []
    for _ in range(draw(st.integers(1, 3))):
        layers.append(draw(st.one_of(convs(shape), pools(shape), residuals(shape))))
        shape = layers[-1].output
    return layers


def feed(shape: Shape, style: str) -> np.ndarray:
    if style == "random":
        rng = np.random.default_rng(1)
        return rng.integers(-128, 128, (1, *shape, 16)).astype(np.int8)
    return np.full((1, *shape, 16), -128 if style == "low" else 127, np.int8)


def program_of(module: ModuleOp) -> ProgramOp:
    return next(op for op in module.ops if isinstance(op, ProgramOp))


def lowered(layers: Sequence[Layer], style: str = "random") -> ProgramOp:
    module, context = parse(function(layers), style=style), load_context()
    for lowering in (VtaTensorisePass(), VtaInsertTokensPass(), VtaEncodePass()):
        lowering.apply(context, module)
    module.verify()
    return program_of(module)


@settings(max_examples=settings.default.max_examples // 4)
@given(networks(), STYLES, STYLES)
def test_every_stage_gives_what_the_loops_give(
    layers: list[Layer], weights: str, inputs: str
) -> None:
    module, context = parse(function(layers), style=weights), load_context()
    x = feed(layers[0].input, inputs)
    (expected,) = evaluate_function(module, "vta_0", [x])
    for lowering in (VtaTensorisePass(), VtaInsertTokensPass()):
        lowering.apply(context, module)
        module.verify()
        (found,) = evaluate_function(module, "vta_0", [x])
        np.testing.assert_array_equal(found, expected, lowering.name)
    VtaEncodePass().apply(context, module)
    module.verify()
    ((found,), _) = run_program(program_of(module), [x])
    np.testing.assert_array_equal(found, expected, "vta-encode")


@settings(max_examples=settings.default.max_examples // 4)
@given(networks(), st.integers(0, 3))
def test_any_interleaving_that_the_tokens_allow_gives_the_same(
    layers: list[Layer], seed: int
) -> None:
    program = lowered(layers)
    dram = np.zeros(program.dram.value.data, np.uint8)
    dram[: program.image.data.size] = program.image.data.values()
    dram[program.inputs.data[0].place.bytes] = (
        feed(layers[0].input, "random").reshape(-1).view(np.uint8)
    )
    insns, output = program.insns.data.values(), program.outputs.data[0].place.bytes
    expected = Program(insns).run(dram).dram[output]
    found = Program(insns, seed=seed).run(dram, check=True).dram[output]
    np.testing.assert_array_equal(found, expected)

"""Tiles along channels: which contractions take them, and that every bit is kept."""

import platform

import numpy as np
import pytest
from c_host import SANITIZED
from graph_ops import Case
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on, same
from processor import HAS_VNNI

from byocir.compiler import host_pipeline
from byocir.dialects import graph
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import emit_host
from byocir.rewrites.host.c_host import CHost
from byocir.runtime.native import HostProgram
from byocir.toolchain.cpu import CPUS

VNNI = "x86-64-v4-vnni"


def depthwise(channels, kinds=("i1", "i1"), kernel=(3, 3), group=None):
    """A convolution of each channel by itself, or of as many groups."""
    group = group or channels
    rng = np.random.default_rng(channels)
    shapes = (1, channels, kernel[0] + 2, kernel[1] + 6), (channels, channels // group, *kernel)
    x, w = (
        rng.integers(ends.min, ends.max, shape, ends.dtype, endpoint=True)
        for ends, shape in zip(map(np.iinfo, kinds), shapes, strict=True)
    )
    window = {"strides": [1, 1], "pads": [1, 0, 0, 1], "dilations": [1, 1]}
    return Case(graph.ConvOp, [x, w], constants=[1], group=group, **window)


def code_for(cpu, case):
    module = case.module()
    run_on(module, host_pipeline(CHost(cpu)))
    return emit_host(Interpreter(module).function("main"), host=CHost(cpu)), module


@pytest.mark.parametrize(
    ("channels", "kinds", "kernel", "cpu", "widths"),
    [
        (16, ("i1", "i1"), (3, 3), VNNI, {16}),
        (32, ("u1", "i1"), (3, 3), VNNI, {32}),
        (64, ("i1", "u1"), (3, 3), VNNI, {64}),
        (48, ("i1", "i1"), (3, 3), VNNI, {16, 32}),
        (64, ("u1", "u1"), (3, 3), VNNI, set()),  # no instruction for two unsigned operands
        (15, ("i1", "i1"), (3, 3), VNNI, set()),  # too few channels
        (16, ("i1", "i1"), (4, 8), VNNI, {16}),
        (16, ("i1", "i1"), (3, 11), VNNI, set()),  # too many steps
        (64, ("i1", "i1"), (3, 3), "x86-64-v4", set()),
    ],
)
def test_which_contractions_take_them(channels, kinds, kernel, cpu, widths):
    code, _ = code_for(cpu, depthwise(channels, kinds, kernel))
    assert {n for n in (16, 32, 64) if f"    put_{n}(" in code.source} == widths


def test_groups_of_several_channels_do_not():
    code, _ = code_for(VNNI, depthwise(64, group=16))
    assert "    put_" not in code.source


@pytest.mark.skipif(not HAS_VNNI, reason=f"no instruction for quads on {platform.machine()}")
@settings(max_examples=max(settings.default.max_examples // 25, 2), deadline=None)
@given(
    st.integers(16, 130),
    st.sampled_from([("i1", "i1"), ("u1", "i1"), ("i1", "u1")]),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
)
def test_they_keep_every_bit(channels, kinds, kernel):
    case = depthwise(channels, kinds, kernel)
    expected = evaluate_function(case.module(), "main", case.arrays[:1])
    code, module = code_for(VNNI, case)
    flags = (*CPUS[VNNI].flags, *SANITIZED, "-Wno-psabi")
    same(HostProgram(code, Interpreter(module), flags).run(case.arrays[:1]), expected)

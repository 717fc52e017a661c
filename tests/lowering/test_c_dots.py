"""Contractions of bytes as C, with the instructions that add products of neighbours."""

import platform
import shutil
import subprocess

import numpy as np
import pytest
from c_host import SANITIZED
from graph_ops import Case
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on, same
from processor import RUN_HERE, on_vnni
from zero_point_layers import zero_point_convs, zero_point_matmuls

from byocir.compiler import host_pipeline
from byocir.dialects import graph
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import emit_host
from byocir.rewrites.host.c_host import CHost
from byocir.runtime.native import HostProgram
from byocir.toolchain.cpu import CPUS


def run_for(cpu, module, arrays):
    """The C code of a module at the graph level for a processor, and its outputs."""
    run_on(module, host_pipeline(CHost(cpu)))
    code = emit_host(Interpreter(module).function("main"), host=CHost(cpu))
    flags = (*CPUS[cpu].flags, *SANITIZED, "-Wno-psabi")
    return code, HostProgram(code, Interpreter(module), flags).run(arrays)


@settings(max_examples=settings.default.max_examples // 5)
@given(st.one_of(zero_point_convs(), zero_point_matmuls()), st.sampled_from(RUN_HERE))
def test_layers_with_zero_points_keep_every_bit(layer, cpu):
    module = run_on(layer.module, "qdq-to-integer")
    expected = evaluate_function(module, "main", [layer.x])
    same(run_for(cpu, module, [layer.x])[1], expected)


@on_vnni
@pytest.mark.parametrize("depth", [3, 34, 36])
@pytest.mark.parametrize("kinds", [("i1", "i1"), ("u1", "i1"), ("i1", "u1")], ids=" by ".join)
def test_bytes_are_multiplied_in_quads(kinds, depth):
    rng = np.random.default_rng(0)
    ends = [np.iinfo(kind) for kind in kinds]
    x, w = (
        rng.integers(e.min, e.max, shape, e.dtype, endpoint=True)
        for e, shape in zip(ends, ((9, depth), (depth, 37)), strict=True)
    )
    x[0], w[:, 0], x[1], w[:, 1] = ends[0].min, ends[1].min, ends[0].max, ends[1].max
    module = Case(graph.MatmulOp, [x, w], constants=[1]).module()
    expected = evaluate_function(module, "main", [x])
    code, found = run_for("x86-64-v4-vnni", module, [x])
    assert "= QUADS_16(" in code.source
    same(found, expected)


def depthwise(channels, kinds, kernel, stride, size=(7, 21)) -> Case:
    rng = np.random.default_rng(channels)
    shapes = (1, channels, *size), (channels, 1, *kernel)
    x, w = (
        rng.integers(ends.min, ends.max, shape, ends.dtype, endpoint=True)
        for ends, shape in zip(map(np.iinfo, kinds), shapes, strict=True)
    )
    x[:, 0], w[0] = np.iinfo(kinds[0]).min, np.iinfo(kinds[1]).min
    window = {"strides": [stride] * 2, "pads": [1, 1, 0, 1], "dilations": [1, 1]}
    return Case(graph.ConvOp, [x, w], constants=[1], group=channels, **window)


@on_vnni
@pytest.mark.parametrize(
    ("kinds", "kernel", "stride", "channels"),
    [
        (("i1", "i1"), (3, 3), 1, 112),
        (("u1", "i1"), (2, 2), 2, 37),
        (("i1", "u1"), (5, 3), 1, 16),
    ],
    ids=str,
)
def test_channels_are_interleaved(kinds, kernel, stride, channels):
    case = depthwise(channels, kinds, kernel, stride)
    module = case.module()
    expected = evaluate_function(module, "main", case.arrays[:1])
    code, found = run_for("x86-64-v4-vnni", module, case.arrays[:1])
    assert "fours_16(load_16(" in code.source
    same(found, expected)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("built_for", ["x86-64-v4-vnni", "generic"])
def test_sources_for_quads_are_clean_c99(compiler, built_for, tmp_path):
    """Also where the compiler is not told of the processor."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    module = depthwise(80, ("i1", "i1"), (3, 3), 1).module()
    run_on(module, host_pipeline(CHost("x86-64-v4-vnni")))
    code = emit_host(Interpreter(module).function("main"), host=CHost("x86-64-v4-vnni"))
    (tmp_path / "model.h").write_text(code.header)
    (tmp_path / "model.c").write_text(code.source)
    own = CPUS[built_for].flags if platform.machine() == "x86_64" else ()
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-c", *own]
    subprocess.run([compiler, *flags, "model.c"], cwd=tmp_path, check=True)

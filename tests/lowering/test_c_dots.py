"""Contractions of bytes as C, with the instructions that add products of neighbours."""

import numpy as np
import pytest
from c_host import SANITIZED
from graph_ops import Case
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on, same
from zero_point_layers import zero_point_convs, zero_point_matmuls

from byocir.compiler import host_pipeline
from byocir.dialects import graph
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import emit_host
from byocir.lowering.tir_to_c.host import CHost
from byocir.runtime.native import HostProgram
from byocir.toolchain import x86_64_features, x86_64_level
from byocir.toolchain.cpu import CPUS

RUN_HERE = [n for n, cpu in CPUS.items() if cpu.runs_on(x86_64_level(), x86_64_features())]


def run_for(cpu, module, arrays):
    """The C code of a module at the graph level for a processor, and its outputs."""
    run_on(module, host_pipeline(CHost(cpu)))
    code = emit_host(Interpreter(module).function("main"), host=CHost(cpu))
    flags = (*CPUS[cpu].flags, *SANITIZED, "-Wno-psabi")
    return code, HostProgram(code, Interpreter(module), flags).run(arrays)


@pytest.mark.hypothesis
@pytest.mark.parametrize("cpu", RUN_HERE)
def test_layers_with_zero_points_keep_every_bit(cpu):
    @settings(max_examples=max(settings.default.max_examples // 10, 1), deadline=None)
    @given(st.one_of(zero_point_convs(), zero_point_matmuls()))
    def check(layer):
        module = run_on(layer.module, "qdq-to-integer")
        expected = evaluate_function(module, "main", [layer.x])
        same(run_for(cpu, module, [layer.x])[1], expected)

    check()


@pytest.mark.skipif("x86-64-v4-vnni" not in RUN_HERE, reason="no instruction for quads")
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
    assert "= QUADS_16(a0_0, " in code.source
    same(found, expected)

"""Contractions as register tiles in C: what they compute stays the same."""

from dataclasses import replace

import numpy as np
import pytest
from c_host import SANITIZED, run_c
from conv_nets import conv_nets
from graph_ops import Case, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from matmuls import MATMULS
from pass_checks import EXACT, numbers, run_on, same

from byocir.compiler import host_pipeline
from byocir.dialects import graph
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import emit_host
from byocir.lowering.tir_to_c.contractions import tiling_of
from byocir.lowering.tir_to_c.loops import BlockWriter
from byocir.rewrites.host.c_host import CHost
from byocir.runtime.native import HostProgram
from byocir.toolchain import x86_64_features, x86_64_level
from byocir.toolchain.cpu import CPUS

FEW = settings.default.max_examples // 20
FLAGS = {
    "native": ("-std=c99", "-O2", "-march=native", "-ffp-contract=off", "-Werror", "-lm"),
    "generic": ("-std=c99", "-O1", "-ffp-contract=off", "-Werror", "-fsanitize=undefined", "-lm"),
}


@st.composite
def wide_conv(draw):
    """Long enough for vectors."""
    group = draw(st.sampled_from([1, 1, 3]))
    inputs, outputs = sizes(draw, 2, 5)
    kernel = [draw(st.sampled_from([1, 2, 3])) for _ in range(2)]
    spatial = [draw(st.integers(3, 9)), draw(st.integers(3, 20))]
    window = {
        "strides": sizes(draw, 2, 3),
        "pads": [draw(st.integers(0, k - 1)) for k in [*kernel, *kernel]],
        "dilations": [draw(st.integers(1, 1 if k == 3 else 2)) for k in kernel],
    }
    seed = draw(st.integers(0, 99))
    x = numbers(seed, draw(st.integers(1, 2)), inputs * group, *spatial)
    w = numbers(seed + 1, outputs * group, inputs, *kernel)
    return Case(graph.ConvOp, [x, w, numbers(seed, len(w))], group=group, **window)


@st.composite
def wide_matmul(draw):
    m, k, seed = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(0, 99))
    n = draw(st.sampled_from([3, 4, 5, 16, 17, 31, 48, 49, 97]))
    batch = draw(st.sampled_from([[], [2], [3, 1]]))
    return Case(graph.MatmulOp, [numbers(seed, *batch, m, k), numbers(seed + 1, *batch, k, n)])


@pytest.mark.hypothesis
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("cases", [wide_conv, wide_matmul], ids=lambda c: c.__name__)
def test_tiles_keep_every_bit(cases, flags):
    @settings(max_examples=3 * FEW, deadline=None)
    @given(cases())
    def check(case):
        module = run_on(case.module(), "convert-graph-to-tir")
        expected = evaluate_function(module, "main", case.arrays)
        same(run_c(module, case.arrays, FLAGS[flags])[1], expected)
        same(run_c(run_on(module, EXACT), case.arrays, FLAGS[flags])[1], expected)

    check()


def test_a_matmul_has_tiles_of_rows_and_vectors():
    case = Case(graph.MatmulOp, [numbers(0, 8, 8), numbers(1, 8, 64)])
    module = run_on(case.module(), "convert-graph-to-tir")
    (block,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    shape = tiling_of(BlockWriter(block, {0: "0"}), CHost("generic")).shape
    assert shape.rows > 1
    assert shape.vectors > 1


@pytest.mark.hypothesis
@settings(max_examples=4 * FEW, deadline=None)
@given(conv_nets(), st.sampled_from(sorted(CPUS)))
def test_c_of_nets(net, cpu):
    module, x = net
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    host = CHost(cpu, threads=2)
    function = Interpreter(run_on(module, host_pipeline(host))).function("main")
    code = emit_host(function, host=host)
    assert not code.calls
    runs = CPUS[cpu].runs_on(x86_64_level(), x86_64_features())
    known = CPUS[cpu].flags if runs else ()
    # Any machine runs it where the C compiler is not told of the processor.
    program = HostProgram(
        replace(code, host=CHost("generic")), Interpreter(module), (*known, *SANITIZED)
    )
    program.arena[:] = 0xFF  # NaN wherever something is read before it is written
    found = program.run([x])
    same(found, expected, 1e-5 if CPUS[cpu].fuses else 0)


@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_vectors_along_positions_leave_out_channels_that_only_fill_a_block(cpu):
    x, w = numbers(0, 1, 1, 1, 40), numbers(1, 20, 1, 1, 4)
    window = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    case = Case(graph.ConvOp, [x, w, numbers(2, 20)], constants=[1, 2], group=1, **window)
    module = run_on(case.module(), "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    function = Interpreter(run_on(module, host_pipeline(CHost(cpu)))).function("main")
    code = replace(emit_host(function, host=CHost(cpu)), host=CHost("generic"))
    same(HostProgram(code, Interpreter(module), SANITIZED).run([x]), expected, 1e-5)


def test_compilers_without_vector_types_get_plain_loops():
    module = run_on(parse_module(MATMULS), "convert-graph-to-tir")
    arrays = [np.random.default_rng(i).normal(size=(4, 4)).astype(np.float32) for i in range(2)]
    expected = evaluate_function(module, "main", arrays)
    function = Interpreter(module).function("main")
    code = emit_host(function)
    assert "#define VECTORS 1" in code.source
    plain = replace(code, source=code.source.replace("#define VECTORS 1", "#define VECTORS 0"))
    same(HostProgram(plain, Interpreter(module), SANITIZED).run(arrays), expected)


@pytest.mark.skipif(x86_64_level() < 2, reason="no instruction for pairs")
@pytest.mark.parametrize(
    "cpu", [n for n, c in CPUS.items() if 0 < c.level <= x86_64_level() and not c.features]
)
def test_bytes_are_multiplied_in_pairs(cpu):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((9, 34), (34, 21)))
    x[0], w[:, 0] = -128, -128  # the largest products
    module = Case(graph.MatmulOp, [x, w], constants=[1]).module()
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    function = Interpreter(run_on(module, host_pipeline(CHost(cpu)))).function("main")
    code = emit_host(function, host=CHost(cpu))
    assert "= PAIRS_" in code.source
    flags = (*CPUS[cpu].flags, *SANITIZED)
    same(HostProgram(code, Interpreter(module), flags).run([x]), expected)

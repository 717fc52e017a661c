"""Layouts, packed weights and tiles around convolutions: what blocks compute stays the same."""

from dataclasses import replace

import numpy as np
import pytest
from conv_nets import conv_nets
from graph_ops import Case
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr

from byocir.compiler import host_pipeline
from byocir.dialects import graph
from byocir.dialects.context import load_context
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c import emit_host
from byocir.lowering.tir_to_c.cpu import CPUS
from byocir.lowering.tir_to_c.host import CHost
from byocir.lowering.tir_to_c.tile_shape import heights_of, split, tile_shape
from byocir.rewrites.pipeline import parse_pipeline, run_passes
from byocir.runtime.native import HostProgram
from byocir.toolchain import x86_64_level

FEW = settings.default.max_examples // 20
SANITIZED = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-lm")
SANITIZED += ("-fsanitize=undefined", "-fno-sanitize-recover")


def run_on(module, pipeline):
    run_passes(module, load_context(), parse_pipeline(pipeline))
    return module


def same(found, expected, rtol):
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype.kind == "f" and rtol:
            np.testing.assert_allclose(left, right, rtol=0, atol=rtol * max(1, np.abs(right).max()))
        else:
            np.testing.assert_array_equal(left, right)


@pytest.mark.hypothesis
@settings(max_examples=8 * FEW, deadline=None)
@given(conv_nets(), st.sampled_from(sorted(CPUS)))
def test_passes_keep_what_nets_compute(net, cpu):
    module, x = net
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    exact = not CPUS[cpu].fuses
    for pass_ in host_pipeline(CHost(cpu)).split(","):
        run_on(module, pass_)
        same(evaluate_function(module, "main", [x]), expected, 0 if exact else 1e-5)
    for op in module.walk():
        assert not op.name.startswith("tir.") or names(op.location)


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
    known = CPUS[cpu].flags if CPUS[cpu].level <= x86_64_level() else ()
    # Any machine runs it where the C compiler is not told of the processor.
    program = HostProgram(
        replace(code, host=CHost("generic")), Interpreter(module), (*known, *SANITIZED)
    )
    found = program.run(function, [x])
    same(found, expected, 1e-5 if CPUS[cpu].fuses else 0)


def flagged(text):
    module = run_on(parse_module(text), "convert-graph-to-tir,relax-contractions")
    return [op.fastmath for op in module.walk() if isinstance(op, arith.AddfOp)]


MATMULS = """
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi8>) {
  %0 = graph.matmul %x, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.matmul %y, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64}
    : (tensor<4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<4x4xi8>
  func.return %0, %3 : tensor<4x4xf32>, tensor<4x4xi8>
}
"""


def test_what_is_quantised_later_stays_exact():
    plain = FastMathFlagsAttr("none")
    assert [flags == plain for flags in flagged(MATMULS)] == [False, True, True]


@given(st.integers(1, 300), st.lists(st.integers(1, 60), max_size=2), st.sampled_from(sorted(CPUS)))
def test_tiles_fit_registers_and_cover_all_rows(extent, rows, cpu):
    shape = tile_shape(CPUS[cpu], extent, rows, fused=True)
    if shape is None:
        assert extent < 4
        return
    assert shape.rows * shape.vectors + shape.vectors + 1 <= CPUS[cpu].registers or shape.rows == 1
    for row, height in zip(rows, heights_of(rows, shape.rows), strict=True):
        covered = [i for start, stop, step in split(row, height) for i in range(start, stop, step)]
        assert covered[0] == 0
        assert len(covered) == len(set(covered))
        ends = [stop for _, stop, _ in split(row, height)]
        assert ends[-1] == row
        assert all((stop - start) % step == 0 for start, stop, step in split(row, height))


def test_compilers_without_vector_types_get_plain_loops():
    module = run_on(parse_module(MATMULS), "convert-graph-to-tir")
    arrays = [np.random.default_rng(i).normal(size=(4, 4)).astype(np.float32) for i in range(2)]
    expected = evaluate_function(module, "main", arrays)
    function = Interpreter(module).function("main")
    code = emit_host(function)
    assert "#define VECTORS 1" in code.source
    plain = replace(code, source=code.source.replace("#define VECTORS 1", "#define VECTORS 0"))
    same(HostProgram(plain, Interpreter(module), SANITIZED).run(function, arrays), expected, 0)


@pytest.mark.skipif(x86_64_level() < 2, reason="no instruction for pairs")
@pytest.mark.parametrize("cpu", [name for name, c in CPUS.items() if 0 < c.level <= x86_64_level()])
def test_bytes_are_multiplied_in_pairs(cpu):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((9, 34), (34, 21)))
    x[0], w[:, 0] = -128, -128  # the largest products
    module = Case(graph.MatmulOp, [x, w], constants=[1]).module()
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    function = Interpreter(run_on(module, host_pipeline(CHost(cpu)))).function("main")
    code = emit_host(function, host=CHost(cpu))
    assert "+= PAIRS_" in code.source
    flags = (*CPUS[cpu].flags, *SANITIZED)
    same(HostProgram(code, Interpreter(module), flags).run(function, [x]), expected, 0)

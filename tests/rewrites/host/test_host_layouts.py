"""Layouts and packed weights around convolutions: what blocks compute stays the same."""

import pytest
from conv_nets import conv_nets
from host_passes import run_on, same
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr

from byocir.compiler import host_pipeline
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate_function
from byocir.lowering.tir_to_c.host import CHost
from byocir.toolchain.cpu import CPUS

FEW = settings.default.max_examples // 20


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

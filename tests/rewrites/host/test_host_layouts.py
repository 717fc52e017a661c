"""Layouts and packed weights around convolutions: what blocks compute stays the same."""

import numpy as np
import pytest
from conv_nets import ConvNet, conv_nets
from hypothesis import given, settings
from hypothesis import strategies as st
from matmuls import MATMULS
from pass_checks import run_on, same
from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr

from byocir.compiler import host_pipeline
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.host.contraction import is_contraction
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


@pytest.mark.hypothesis
@settings(max_examples=8 * FEW, deadline=None)
@given(conv_nets())
def test_ordered_weights_keep_what_nets_compute(net):
    module, x = net
    run_on(module, "convert-graph-to-tir,assign-layouts{frames=copied least=1}")
    expected = evaluate_function(module, "main", [x])
    run_on(module, "order-weights")
    same(evaluate_function(module, "main", [x]), expected)


pads = st.tuples(*[st.integers(0, 2)] * 4)


@settings(max_examples=8 * FEW, deadline=None)
@given(pads, st.integers(0, 1), st.integers(-3, 3), st.integers(1, 2), st.booleans())
def test_windows_read_past_the_numbers_around_images(around, own, number, step, pools):
    """Convolutions and pools read the image itself, and the number outside of it, unless they read
    zeros around both."""
    shape = f"tensor<1x4x{5 + around[0] + around[2]}x{6 + around[1] + around[3]}xi8>"
    h, w = ((n + 2 * own - 2) // step + 1 for n in map(int, shape.split("x")[2:4]))
    window = f"strides = array<i64: {step}, {step}>, pads = array<i64: {own}, {own}, {own}, {own}>"
    window += ", dilations = array<i64: 1, 1>"
    before, behind = around[:2], around[2:]
    conv = f"graph.conv %1, %w {{{window}, group = 1 : i64}} : ({shape}, tensor<4x4x2x2xi8>)"
    pool = f"graph.max_pool %1 {{kernel_shape = array<i64: 2, 2>, {window}, ceil_mode = 0 : i64}}"
    made = f"tensor<1x4x{h}x{w}xi{8 if pools else 32}>"
    module = parse_module(f"""
    func.func @main(%x: tensor<1x4x5x6xi8>) -> {made} {{
      %w = graph.constant #graph.array<{WEIGHTS} : tensor<4x4x2x2xi8>>
      %0 = graph.relu %x : (tensor<1x4x5x6xi8>) -> tensor<1x4x5x6xi8>
      %1 = graph.pad %0 {{pads = array<i64: 0, 0, {before[0]}, {before[1]}, 0, 0, {behind[0]}, {behind[1]}>,
        mode = "constant", value = #graph.array<[{number}] : tensor<i8>>}} : (tensor<1x4x5x6xi8>) -> {shape}
      %2 = {f"{pool} : ({shape})" if pools else conv} -> {made}
      func.return %2 : {made}
    }}""")  # noqa: E501
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 5, 6)).astype(np.int8)
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    run_on(module, "assign-layouts{frames=read least=1 pools=true}")
    same(evaluate_function(module, "main", [x]), expected)
    copies = [op for op in module.walk() if isinstance(op, BlockOp) and any(op.pad_values)]
    assert own or all(op.reductions for op in copies)


WEIGHTS = [n % 7 - 3 for n in range(64)]


@pytest.mark.hypothesis
@settings(max_examples=8 * FEW, deadline=None)
@given(conv_nets(dimensions=1))
def test_convolutions_of_one_dimension_are_those_of_images(net):
    module, x = net
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    run_on(module, "assign-layouts{frames=copied least=1 height=true},order-weights")
    same(evaluate_function(module, "main", [x]), expected)
    blocks = [op for op in module.walk() if isinstance(op, BlockOp) and is_contraction(op)]
    assert {len(m.results) for op in blocks for m in (op.in_maps[0], *op.out_maps)} == {4}


@pytest.mark.hypothesis
@settings(max_examples=8 * FEW, deadline=None)
@given(conv_nets(first=ConvNet.pool))
def test_pools_of_the_models_input_may_have_channels_last(net):
    module, x = net
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    run_on(module, "assign-layouts{frames=copied least=1 height=true pools=true}")
    same(evaluate_function(module, "main", [x]), expected)
    for op in module.walk():
        if isinstance(op, BlockOp) and op.reductions and len(op.ins) == 1:
            assert op.out_maps[0].results[-1] == op.in_maps[0].results[-1]


@pytest.mark.parametrize("frames", ["copied", "read"])
@pytest.mark.parametrize("kind", ["average", "max"])
def test_pools_of_whole_images_have_channels_last(frames, kind):
    """The result of a global pool has no iterators over its one pixel."""
    module = parse_module(f"""
    func.func @main(%x: tensor<1x4x2x3xf32>) -> tensor<1x4x1x1xf32> {{
      %0 = graph.global_{kind}_pool %x : (tensor<1x4x2x3xf32>) -> tensor<1x4x1x1xf32>
      func.return %0 : tensor<1x4x1x1xf32>
    }}""")
    x = np.arange(24, dtype=np.float32).reshape(1, 4, 2, 3)
    run_on(module, "convert-graph-to-tir")
    expected = evaluate_function(module, "main", [x])
    run_on(module, f"assign-layouts{{frames={frames} least=1 pools=true}}")
    same(evaluate_function(module, "main", [x]), expected)
    pool = next(op for op in module.walk() if isinstance(op, BlockOp) and op.reductions)
    assert pool.out_maps[0].results[-1] == pool.in_maps[0].results[-1]


def flagged(text):
    module = run_on(parse_module(text), "convert-graph-to-tir,relax-contractions")
    return [op.fastmath for op in module.walk() if isinstance(op, arith.AddfOp)]


def test_what_is_quantised_later_stays_exact():
    plain = FastMathFlagsAttr("none")
    assert [flags == plain for flags in flagged(MATMULS)] == [False, True, True]


CALLS = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = byoc.call @json_0(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %1 : tensor<4x4xf32>
}
func.func @json_0(%x: tensor<4x4xf32>) -> tensor<4x4xf32>
    attributes {byoc.target = #byoc.target<"json", {}>} {
  BODY
  func.return %y : tensor<4x4xf32>
}
"""
IN_FLOATS = "%y = graph.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>"
IN_INTEGERS = """
  %i = graph.cast %x {to = i32} : (tensor<4x4xf32>) -> tensor<4x4xi32>
  %y = graph.cast %i {to = f32} : (tensor<4x4xi32>) -> tensor<4x4xf32>
"""


@pytest.mark.parametrize(("body", "is_exact"), [(IN_FLOATS, False), (IN_INTEGERS, True)])
def test_what_regions_take_is_exact_if_they_have_integers(body, is_exact):
    plain = FastMathFlagsAttr("none")
    assert [flags == plain for flags in flagged(CALLS.replace("BODY", body))] == [is_exact]


LOOP = """
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, RESULT) {
  %a, %b = tir.for %t = 0 to 3 serial
      carry(%p = %x : tensor<4x4xf32>, %q = %x : tensor<4x4xf32>) {
    %0 = graph.matmul %p, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = graph.matmul %q, %p : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    tir.yield FIRST, SECOND : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %2 = graph.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  LAST
  func.return %a, %b, %3 : tensor<4x4xf32>, tensor<4x4xf32>, RESULT
}
"""
QUANTISE = """
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %3 = graph.quantize OF, %s, %z {axis = 1 : i64}
    : (tensor<4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<4x4xi8>
"""
SORTED = """
  %v, %3 = graph.top_k OF {axis = 1 : i64, k = 2 : i64, largest = 1 : i64, sorted = 1 : i64}
    : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
"""
PLAIN = "%3 = graph.relu OF : (tensor<4x4xf32>) -> tensor<4x4xf32>"


@pytest.mark.parametrize(
    ("last", "of", "result", "yielded", "exact"),
    [
        (PLAIN, "%a", "tensor<4x4xf32>", "%0, %1", [False, False, False]),
        (QUANTISE, "%2", "tensor<4x4xi8>", "%0, %1", [False, False, True]),
        (QUANTISE, "%a", "tensor<4x4xi8>", "%0, %1", [True, False, False]),
        (QUANTISE, "%b", "tensor<4x4xi8>", "%0, %1", [True, True, False]),
        (QUANTISE, "%a", "tensor<4x4xi8>", "%q, %1", [False, True, False]),
        (SORTED, "%a", "tensor<4x2xi64>", "%0, %1", [True, False, False]),
    ],
    ids=["floats", "beside", "own", "through-the-other", "handed-on", "indices"],
)
def test_loops_lead_where_their_values_lead(last, of, result, yielded, exact):
    first, second = yielded.split(", ")
    text = LOOP.replace("LAST", last.replace("OF", of)).replace("RESULT", result)
    text = text.replace("FIRST", first).replace("SECOND", second)
    plain = FastMathFlagsAttr("none")
    assert [flags == plain for flags in flagged(text)] == exact

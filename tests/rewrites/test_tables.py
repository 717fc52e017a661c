"""Functions of one byte as tables: exact; a softmax whose exponentials are one: at most one step
apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes
from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.tabulate_bytes import TabulateBytesPass

KINDS = (np.int8, np.uint8)
BYTES = {kind: np.arange(256, dtype=np.uint8).view(kind).reshape(2, 128) for kind in KINDS}


def leaky(net: Net, x: SSAValue) -> SSAValue:
    return net.add(g.LeakyReluOp.make(x, alpha=0.3))


def gelu(net: Net, x: SSAValue) -> SSAValue:
    return net.add(g.GeluOp.make(x, approximate="none"))


def chain(net: Net, x: SSAValue) -> SSAValue:
    """`x * sigmoid(1.7 x)`, then a clip."""
    steep = net.add(g.MulOp.make(x, net.constant(1.7, np.float32)))
    return net.clip(net.add(g.MulOp.make(x, net.add(g.SigmoidOp.make(steep)))), -0.5, 3)


def unary(op: type[g.GraphOp]):
    return lambda net, x: net.add(op.make(x))


FUNCTIONS = {
    **{op.name: unary(op) for op in (g.SigmoidOp, g.TanhOp, g.HardSwishOp, g.ExpOp, g.SqrtOp)},
    "gelu": gelu,
    "leaky_relu": leaky,
    "chain": chain,
}


few = settings(max_examples=max(settings.default.max_examples // 8, 1))


@pytest.mark.parametrize("name", FUNCTIONS)
@few
@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.integers(0, 127), st.integers(0, 127))
def test_a_function_of_a_byte_becomes_a_table(name, of, to, zero_in, zero_out):
    """Of every byte, the result is the same."""
    net = Net(BYTES[of])
    value = FUNCTIONS[name](net, net.dequantize(net.arguments[0], 0.04, zero_in, of=of))
    module = net.returning(net.quantize(value, 0.03, zero_out, to=to))
    tables = run_passes(module, TabulateBytesPass())
    assert op_names(tables) == ["cast", "gather"]
    assert located(tables) == located(module)
    assert_same_bits(evaluate(tables, BYTES[of]), evaluate(module, BYTES[of]))


def tabulated(net: Net, value: SSAValue) -> list[str]:
    return op_names(run_passes(net.returning(net.quantize(value, 0.5)), TabulateBytesPass()))


def test_what_a_table_does_not_hold_stays():
    """Relus alone, functions of two arrays, of floats, of what moves, of grids by channel."""
    x = BYTES[np.int8]
    net = Net(x)
    value = net.add(g.ReluOp.make(net.dequantize(net.arguments[0], 0.1)))
    assert "gather" not in tabulated(net, value)
    net = Net(x, x)
    a, b = (net.dequantize(each, 0.1) for each in net.arguments)
    assert "gather" not in tabulated(net, net.add(g.MulOp.make(a, net.add(g.TanhOp.make(b)))))
    net = Net(x.astype(np.float32))
    assert "gather" not in tabulated(net, net.add(g.TanhOp.make(net.arguments[0])))
    net = Net(x)
    turned = net.add(g.TransposeOp.make(net.dequantize(net.arguments[0], 0.1), perm=[1, 0]))
    assert "gather" not in tabulated(net, net.add(g.TanhOp.make(turned)))
    net = Net(x)
    value = net.dequantize(net.arguments[0], [0.1, 0.2], axis=0)
    assert "gather" not in tabulated(net, net.add(g.TanhOp.make(value)))


def test_floats_that_something_else_uses_stay():
    net = Net(BYTES[np.int8])
    value = net.add(g.TanhOp.make(net.dequantize(net.arguments[0], 0.1)))
    module = net.returning(net.quantize(value, 0.5), value)
    assert "gather" not in op_names(run_passes(module, TabulateBytesPass()))


@few
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from([0, 1, 2]))
def test_a_softmax_takes_its_exponentials_from_a_table(seed, kind, axis):
    random = np.random.default_rng(seed)
    shape, info = random.integers(1, 20, 3), np.iinfo(kind)
    x = random.integers(info.min, info.max, shape, endpoint=True).astype(kind)
    net = Net(x)
    scale = float(random.choice([1e-3, 0.02, 0.1, 3]))
    value = net.dequantize(net.arguments[0], scale, int(random.integers(0, 128)), of=kind)
    value = net.add(g.SoftmaxOp.make(value, axis=axis))
    module = net.returning(net.quantize(value, 1 / 256, info.min, to=kind))
    tables = run_passes(module, FixPointPass(tables=True))
    assert {"softmax", "exp", "dequantize"}.isdisjoint(op_names(tables))
    assert located(tables) == located(module)
    (found,), (expected,) = evaluate(tables, x), evaluate(module, x)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    blocks = run_on(tables, "convert-graph-to-tir")
    assert_same_bits(evaluate(blocks, x), [found])


@pytest.mark.parametrize("count", [2**13, 64])
def test_sums_that_no_integers_hold_closely_stay_in_float(count):
    net = Net(np.zeros((1, count), np.int8))
    value = net.add(g.SoftmaxOp.make(net.dequantize(net.arguments[0], 0.1), axis=1))
    module = net.returning(net.quantize(value, 1 / 256, -128))
    names = op_names(run_passes(module, FixPointPass(tables=True)))
    assert ("softmax" in names) == (count > 64)
    assert "softmax" in op_names(run_passes(module, FixPointPass()))

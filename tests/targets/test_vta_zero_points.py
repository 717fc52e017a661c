"""Nets and layers with zero points on VTA: the evaluator's integers at each level, no hazards, and
at most one step from what they were before fix-point."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from exported_models import assert_same, run
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from test_vta_mixed import LEVELS
from zero_point_layers import (
    zero_point_convs,
    zero_point_matmuls,
    zero_point_transposed_convs,
)

import byocir
from byocir.dialects.context import load_context
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import GRAPH_REWRITES

IN_FIXED_POINT = f"{GRAPH_REWRITES},fix-point{{rounding=floor}}"


def rewritten(module, passes: str):
    made = module.clone()
    run_passes(made, load_context(), passes)
    return made


def inputs_like(x: np.ndarray) -> list[np.ndarray]:
    """The input, and the ends of its type everywhere."""
    ends = np.iinfo(x.dtype)
    return [x, np.full_like(x, ends.min), np.full_like(x, ends.max)]


@pytest.mark.parametrize("rounding", ["floor", "half_up", "half_even"])
@pytest.mark.parametrize("levels", LEVELS[:2], ids="+".join)
@given(layer=st.one_of(zero_point_convs(), zero_point_matmuls(), zero_point_transposed_convs()))
@settings(max_examples=max(settings.default.max_examples // 25, 1))
def test_layers_give_the_integers_of_the_evaluator(layer, levels, rounding):
    fixed = f"{GRAPH_REWRITES},fix-point{{rounding={rounding}}}"
    exact, wanted = (
        rewritten(layer.module, f"signed-bytes,{passes}") for passes in (GRAPH_REWRITES, fixed)
    )
    package = byocir.compile(layer.module, targets=[byocir.Vta(rounding)], levels=levels)
    for x in inputs_like(layer.x):
        (found,) = package.run({"arg0": x}, check=True).values()
        (expected,) = evaluate_function(wanted, "main", [x])
        np.testing.assert_array_equal(found, expected)
        (before,) = evaluate_function(exact, "main", [x])
        assert np.abs(found.astype(int) - before.astype(int)).max() <= 1


class Quantised:
    """A net of u8 or s8 arrays with zero points, layer by layer."""

    def __init__(self, shape: tuple[int, ...], kind: type, weights: type) -> None:
        self.kind, self.weights, self.shape = kind, weights, shape
        self.random, self.arrays, self.nodes = np.random.default_rng(0), [], []
        self.value = self.on_grid("x", 0.05, 0.4)

    def array(self, values: np.ndarray) -> str:
        self.arrays.append(numpy_helper.from_array(values, f"c{len(self.arrays)}"))
        return self.arrays[-1].name

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def on_grid(self, value: str, scale: float, middle: float) -> str:
        """Quantised, with a zero point so far from the least to the greatest byte."""
        ends = np.iinfo(self.kind)
        zero = round(ends.min + middle * (int(ends.max) - int(ends.min)))
        self.scale, grid = scale, (self.array(np.float32(scale)), self.array(self.kind(zero)))
        quantised = self.node("QuantizeLinear", value, *grid)
        return self.node("DequantizeLinear", quantised, *grid)

    def weight(self, *shape: int, zero: int = 0) -> str:
        ends = np.iinfo(self.weights)
        values = self.random.integers(ends.min, ends.max, shape, self.weights, endpoint=True)
        grid = self.array(np.float32(0.01)), self.array(self.weights(zero))
        return self.node("DequantizeLinear", self.array(values), *grid)

    def bias(self, size: int) -> str:
        values = self.random.integers(-3000, 3000, size, np.int32)
        return self.node(
            "DequantizeLinear", self.array(values), self.array(np.float32(self.scale * 0.01))
        )

    def model(self, value: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        ports = [("x", self.shape)], [(value, shape)]
        inputs, outputs = (
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in each]
            for each in ports
        )
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.arrays)
        opset = helper.make_opsetid("", 21)
        return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def residual_net(kind: type, weights: type, zero: int) -> onnx.ModelProto:
    """Convolutions in full and by channel, a residual sum, pools of both kinds, a product."""
    net = Quantised((1, 16, 6, 7), kind, weights)
    start, window = net.value, {"pads": [1] * 4}
    sums = net.node("Conv", start, net.weight(16, 16, 3, 3, zero=zero), net.bias(16), **window)
    first = net.on_grid(net.node("Relu", sums), 0.8, 0.0)
    weight = net.weight(16, 1, 3, 3, zero=zero)
    second = net.on_grid(net.node("Conv", first, weight, group=16, **window), 0.3, 0.55)
    total = net.on_grid(net.node("Add", second, start), 0.4, 0.45)
    total = net.on_grid(net.node("Sub", total, start), 0.3, 0.6)
    pools = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    total = net.node("MaxPool", total, **pools)
    total = net.on_grid(total, net.scale, 0.45)
    total = net.on_grid(net.node("AveragePool", total, **pools), 0.2, 0.5)
    flat = net.node("Flatten", net.on_grid(net.node("GlobalAveragePool", total), 0.1, 0.5))
    flat = net.on_grid(flat, net.scale, 0.5)
    made = net.node("Gemm", flat, net.weight(16, 10, zero=zero), net.bias(10))
    return net.model(net.on_grid(made, 0.5, 0.3), (1, 10))


def sum_of_two(kind: str, zeros: tuple[int, ...]) -> onnx.ModelProto:
    """A sum or difference of two arrays of bytes, and a relu, with these zero points."""
    net = Quantised((1, 16, 64, 64), np.int8, np.int8)
    net.nodes.clear()
    scales = [net.array(np.float32(scale)) for scale in (0.07, 0.05, 0.06)]
    grids = list(zip(scales, [net.array(np.int8(zero)) for zero in zeros], strict=True))
    terms = [net.node("DequantizeLinear", x, *grid) for x, grid in zip("ab", grids, strict=False)]
    result = net.node("QuantizeLinear", net.node("Relu", net.node(kind, *terms)), *grids[2])
    ports = [
        helper.make_tensor_value_info(n, TensorProto.INT8, net.shape) for n in ("a", "b", result)
    ]
    graph = helper.make_graph(net.nodes, "net", ports[:2], ports[2:], net.arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("levels", LEVELS[:2], ids="+".join)
@pytest.mark.parametrize(
    ("kind", "zeros", "rounding"),
    [
        ("Add", (-128, 127, -128), "half_up"),
        ("Sub", (127, -128, 127), "half_even"),
        ("Add", (3, 0, 99), "half_even"),
    ],
)
def test_sums_of_all_pairs_of_bytes(kind, zeros, levels, rounding):
    """Zero points at the ends of their type, and sums far beyond those of the result."""
    model = sum_of_two(kind, zeros)
    fixed = f"{GRAPH_REWRITES},fix-point{{rounding={rounding}}}"
    wanted = rewritten(byocir.import_onnx(model), fixed)
    bytes_ = np.arange(-128, 128, dtype=np.int8)
    pairs = [array.reshape(1, 16, 64, 64) for array in np.meshgrid(bytes_, bytes_)]
    package = byocir.compile(model, targets=[byocir.Vta(rounding)], levels=levels)
    assert [region.target for region in package.report.regions] == ["vta"]
    (found,) = package.run(dict(zip("ab", pairs, strict=True)), check=True).values()
    np.testing.assert_array_equal([found], evaluate_function(wanted, "main", pairs))


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_sums_and_products_with_constants(kind):
    """Of one number, or one for each channel, row or column, below 0 and above; on both sides."""
    net = Quantised((1, 20, 3, 5), np.uint8, np.int8)
    scale = 0.02 if kind == "Mul" else 0.06  # so that factors below 1 leave something
    for shape in ((), (20, 1, 1), (3, 1), (5,)):
        value = net.on_grid(net.node(kind, net.weight(*shape, zero=9), net.value), scale, 0.4)
        net.value = net.on_grid(net.node(kind, value, net.weight(*shape)), scale, 0.6)
        scale *= 0.5 if kind == "Mul" else 1.1
    model = net.model(net.value, net.shape)
    wanted = rewritten(byocir.import_onnx(model), f"signed-bytes,{IN_FIXED_POINT}")
    x = np.random.default_rng(1).normal(0, 6, net.shape).astype(np.float32)
    (expected,) = evaluate_function(wanted, "main", [x])
    assert len(np.unique(expected)) > 30
    for levels in LEVELS[:2]:
        package = byocir.compile(model, targets=["vta"], levels=levels)
        assert not {name for name in package.report.host if name.startswith(kind)}
        np.testing.assert_array_equal([*package.run({"x": x}, check=True).values()], [expected])


def test_an_array_is_a_term_of_several_ops():
    """Each takes its zero point off for itself, and so VTA takes each."""
    net = Quantised((1, 16, 3, 5), np.uint8, np.int8)
    first = net.value
    leaky = net.on_grid(net.node("LeakyRelu", first, alpha=0.2), 0.04, 0.2)
    product = net.on_grid(net.node("Mul", first, leaky), 0.05, 0.4)
    total = net.on_grid(net.node("Mul", first, product), 0.03, 0.5)
    model = net.model(total, net.shape)
    wanted = rewritten(byocir.import_onnx(model), f"signed-bytes,{IN_FIXED_POINT}")
    x = np.random.default_rng(1).normal(0, 2, net.shape).astype(np.float32)
    (expected,) = evaluate_function(wanted, "main", [x])
    for levels in LEVELS[:2]:
        package = byocir.compile(model, targets=["vta"], levels=levels)
        assert {"LeakyRelu_2", "Mul_5", "Mul_8"}.isdisjoint(package.report.host)
        np.testing.assert_array_equal([*package.run({"x": x}, check=True).values()], [expected])


def products_net(kind: type, weights: type, zero: int) -> onnx.ModelProto:
    """The product of an array with itself turned around, and with weights."""
    net = Quantised((2, 5, 8), kind, weights)
    turned = net.on_grid(net.node("Transpose", net.value, perm=[0, 2, 1]), net.scale, 0.4)
    scores = net.on_grid(net.node("MatMul", net.value, turned), 0.05, 0.1)
    made = net.node("MatMul", scores, net.weight(5, 12, zero=zero))
    return net.model(net.on_grid(made, 0.02, 0.6), (2, 5, 12))


@pytest.mark.parametrize("build", [residual_net, products_net])
@pytest.mark.parametrize(
    ("kind", "weights", "zero"),
    [(np.uint8, np.int8, 0), (np.int8, np.uint8, 115)],
    ids=["u8 by s8", "s8 by u8"],
)
def test_nets_run_on_vta_at_each_level(build, kind, weights, zero):
    model = build(kind, weights, zero)
    wanted = rewritten(byocir.import_onnx(model), f"signed-bytes,{IN_FIXED_POINT}")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    plain = np.random.default_rng(1).normal(0, 3, shape).astype(np.float32)
    for levels in LEVELS[:2]:
        package = byocir.compile(model, targets=["vta"], levels=levels)
        assert package.report.macs["host"] == 0
        on_vta = ("Conv", "Add", "Sub", "MaxPool", "AveragePool", "MatMul", "Gemm")
        kinds = {node.name: node.op_type for node in package.report.nodes}
        assert not {kinds[name] for name in package.report.host}.intersection(on_vta)
        for x in (plain, plain * 1e4, -np.abs(plain)):
            (found,) = package.run({"x": x}, check=True).values()
            (expected,) = evaluate_function(wanted, "main", [x])
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("build", [residual_net, products_net])
def test_nets_with_weights_of_nine_bits_are_written_to_onnx(build):
    """ONNX multiplies integers of 8 bits alone."""
    model = build(np.int8, np.uint8, 115)
    module = byocir.import_onnx(model)
    written = byocir.export_onnx(module, byocir.Vta(), rewritten=True)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).normal(0, 3, shape).astype(np.float32)
    wanted = byocir.compile(module, targets=["vta"], host="reference").run({"x": x})
    assert_same(run(written, {"x": x}), wanted)


def test_an_array_with_two_numbers_around_it_is_two_arrays():
    """Two convolutions read one array by zero points of their own; the host copies it for one."""
    net = Quantised((1, 16, 4, 5), np.int8, np.int8)
    (grid,) = [node for node in net.nodes if node.op_type == "DequantizeLinear"]
    other = net.array(np.int8(9))
    read = net.node("DequantizeLinear", grid.input[0], grid.input[1], other)
    sums = [
        net.on_grid(net.node("Conv", value, net.weight(16, 16, 3, 3), pads=[1] * 4), 0.5, 0.5)
        for value in (net.value, read)
    ]
    model = net.model(net.on_grid(net.node("Add", *sums), 0.5, 0.5), (1, 16, 4, 5))
    x = np.random.default_rng(1).normal(0, 3, net.shape).astype(np.float32)
    wanted = rewritten(byocir.import_onnx(model), IN_FIXED_POINT)
    (expected,) = evaluate_function(wanted, "main", [x])
    for levels in LEVELS[:2]:
        package = byocir.compile(model, targets=["vta"], levels=levels)
        assert package.report.macs["host"] == 0
        np.testing.assert_array_equal([*package.run({"x": x}, check=True).values()], [expected])


@pytest.mark.parametrize("pads", [[0] * 4, [1, 0, 0, 2]], ids=["no pads", "pads"])
@pytest.mark.parametrize(
    "moved", [[0, 0, 0, -2, 0, 0, -1, 0], [0, 0, 1, 1, 0, 0, 0, 2]], ids=["cut", "padded"]
)
def test_a_convolution_reads_what_was_cut_or_padded(moved, pads):
    """A convolution with pads of its own does not read through those of its input."""
    net = Quantised((1, 16, 5, 6), np.int8, np.int8)
    around = net.array(np.array(moved, np.int64))
    cut = net.on_grid(net.node("Pad", net.value, around), net.scale, 0.4)
    made = net.node("Conv", cut, net.weight(16, 16, 2, 2), pads=pads)
    height, width = (n + moved[i] + moved[i + 4] for n, i in ((5, 2), (6, 3)))
    shape = (1, 16, height + pads[0] + pads[2] - 1, width + pads[1] + pads[3] - 1)
    model = net.model(net.on_grid(made, 0.5, 0.5), shape)
    x = np.random.default_rng(1).normal(0, 3, net.shape).astype(np.float32)
    wanted = rewritten(byocir.import_onnx(model), IN_FIXED_POINT)
    (expected,) = evaluate_function(wanted, "main", [x])
    for levels in LEVELS[:2]:
        package = byocir.compile(model, targets=["vta"], levels=levels)
        assert package.report.macs["host"] == 0
        np.testing.assert_array_equal([*package.run({"x": x}, check=True).values()], [expected])

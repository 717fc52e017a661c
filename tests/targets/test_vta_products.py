"""Products of any rank on VTA: tokens, batches, products of two computed arrays, and layouts that
meet."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantised_nets import Net
from test_vta_mixed import assert_same, fixed

import byocir
from byocir.evaluate.module import evaluate
from byocir.runtime.report_text import explain


def run(model: onnx.ModelProto, *levels: str) -> byocir.Package:
    """Compiles, and compares with the evaluator."""
    onnx.checker.check_model(model)
    package = byocir.compile(model, targets=["vta"], levels=levels or ("graph", "tensor"))
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    image = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    expected = evaluate(fixed(model, "floor"), {"x": image})
    assert_same(package.run({"x": image}, check=True), expected)
    return package


def product(net: Net, a: str, b: str, inner: int, *, relu: bool = False) -> str:
    """The quantised product of two values on grids of 0.05."""
    made = net.node("MatMul", [a, b])
    made = net.node("Relu", [made]) if relu else made
    net.scale = 0.05
    return net.requantize(made, 0.05 * np.sqrt(inner))


def turned(net: Net, value: str, perm: list[int]) -> str:
    return net.requantize(net.node("Transpose", [value], perm=perm), net.scale)


@given(
    st.lists(st.integers(1, 3), max_size=2),
    st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(["constant", "constant batch", "computed"]),
    st.booleans(),
)
@settings(max_examples=settings.default.max_examples // 12)
def test_products_of_any_rank(batch: list[int], sizes: tuple[int, int, int], kind: str, relu: bool):
    """Constant weights for all or for each of a batch, and products of computed arrays."""
    m, k, n = sizes
    net = Net((*batch, m, k))
    rank = len(batch) + 2
    if kind.startswith("constant"):
        shape = (k, n) if kind == "constant" else (*batch, k, n)
        rhs, _ = net.weights(shape, per_channel=False, axis=len(shape) - 1)
    else:
        n = m
        perm = [*range(rank - 2), rank - 1, rank - 2]
        rhs = turned(net, net.value, perm)
    value = product(net, net.value, rhs, k, relu=relu)
    report = run(net.of(value, (*batch, m, n)), "tensor").report
    (node,) = [node for node in report.nodes if node.op_type == "MatMul"]
    assert node.name not in report.host


def test_a_node_missed_at_graph_level_is_taken_at_tensor_level_and_both_are_told():
    net = Net((2, 6, 20))
    weight, _ = net.weights((1, 20, 33), per_channel=False, axis=2)
    made = product(net, net.value, weight, 20, relu=True)
    package = run(net.of(made, (2, 6, 33)))
    (node,) = [node.name for node in package.report.nodes if node.op_type == "MatMul"]
    said = explain(package.report, node)
    assert "vta_0 (tensor level, vta.contraction)" in said.splitlines()[0]
    assert "graph  vta.dense" in said
    assert "rule fails: The weights are a matrix, and the input is one or several" in said
    assert run(net.build(), "graph").report.macs["vta"] == 0


def test_an_array_is_input_of_one_product_and_weights_of_another():
    """Tokens times weights, and scores times tokens: the host lays the tokens out twice."""
    net = Net((2, 12, 12))
    weight, _ = net.weights((12, 12), per_channel=False, axis=1)
    tokens = net.value
    scores = turned(net, product(net, tokens, weight, 12), [0, 2, 1])
    package = run(net.of(product(net, scores, tokens, 12), (2, 12, 12)))
    assert package.report.macs["host"] == 0


def test_an_array_times_itself_is_laid_out_twice():
    net = Net((2, 12, 12))
    package = run(net.of(product(net, net.value, net.value, 12), (2, 12, 12)))
    assert package.report.macs["host"] == 0


def test_computed_weights_come_from_another_region():
    """The second product's weights are the first's result, which only the host can lay out."""
    net = Net((2, 12, 12))
    tokens = net.value
    weight, _ = net.weights((12, 12), per_channel=False, axis=1)
    first = product(net, tokens, weight, 12)
    net.scale = 0.05
    package = run(net.of(product(net, tokens, first, 12), (2, 12, 12)))
    assert package.report.macs["host"] == 0
    assert len(package.report.regions) == 2
    (cut,) = package.report.regions[1].cuts
    assert cut.by.endswith("(a copy in another layout)")
    assert not package.report.split
    placed = byocir.compile(net.build(), targets=["vta"], placement={"MatMul.*": "vta"})
    assert placed.report.macs["host"] == 0


@pytest.mark.parametrize("between", ["nothing", "relu"])
def test_layouts_that_meet_are_kept_apart(between: str):
    """A convolution has channels second, a product last: [1, 18, 20] is laid out anew between."""
    net = Net((1, 3, 20))
    weight, _ = net.weights((18, 3, 3), per_channel=False, axis=0)
    value = net.node("Conv", [net.value, weight], pads=[1, 1])
    value = net.requantize(value, 0.5)
    if between == "relu":
        value = net.requantize(net.node("Relu", [value]), 0.3)
    weight, _ = net.weights((20, 24), per_channel=False, axis=1)
    value = net.requantize(net.node("MatMul", [value, weight]), 1.0)
    package = run(net.of(value, (1, 18, 24)), "tensor")
    assert package.report.macs["host"] == 0
    assert len(package.report.regions) == 2


def test_residuals_of_tokens_share_the_layout_of_products():
    """Product, sum and product in one call."""
    net = Net((1, 6, 16))
    weight, _ = net.weights((16, 16), per_channel=False, axis=1)
    first = product(net, net.value, weight, 16)
    total = net.requantize(net.node("Add", [first, net.value]), 0.4)
    weight, _ = net.weights((16, 16), per_channel=False, axis=1)
    package = run(net.of(product(net, total, weight, 16), (1, 6, 16)), "tensor")
    assert package.report.macs["host"] == 0
    assert len(package.report.regions) == 1


def test_a_batch_of_one_factor_only_stays_on_the_host():
    """[6, 20] by [3, 20, 8]: two dimensions of the result would count outputs."""
    net = Net((6, 20))
    weight, _ = net.weights((3, 20, 8), per_channel=False, axis=2)
    report = run(net.of(product(net, net.value, weight, 20), (3, 6, 8))).report
    (node,) = [node.name for node in report.nodes if node.op_type == "MatMul"]
    assert node in report.host

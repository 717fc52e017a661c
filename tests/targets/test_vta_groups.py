"""Grouped and depthwise convolutions on VTA, at both levels and for several sizes of its unit."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdq_models import Model, images
from test_vta_mixed import assert_same, fixed

import byocir
from byocir.evaluate.module import evaluate
from byocir.lowering.tir_to_vta.legalise_groups import groups_fit, sharing

SIZE = 6


def convolution(batch: int, groups: int, inputs: int, outputs: int, kernel: int, stride: int):
    """One convolution of so many channels per group, with bias and relu."""
    m = Model((batch, groups * inputs, SIZE, SIZE), seed=groups)
    m.first = list(m.shape)
    weight, _ = m.weights((groups * outputs, inputs, kernel, kernel), per_channel=False, axis=0)
    bias = m.bias(groups * outputs, np.float32(0.01), per_channel=False)
    window = {"pads": [kernel // 2] * 4, "strides": [stride] * 2}
    value = m.node("Conv", [m.value, weight, bias], group=groups, **window)
    m.value = m.requantize(m.node("Relu", [value]), 0.3)
    size = (SIZE + 2 * (kernel // 2) - kernel) // stride + 1
    m.shape = (batch, groups * outputs, size, size)
    return m.build()


def run(model: onnx.ModelProto, level: str, block: int) -> byocir.Package:
    """Compiles, and compares with the evaluator."""
    package = byocir.compile(
        model, targets=[f"vta{{block={block} rounding=half_up}}"], levels=[level]
    )
    reference = fixed(model, "half_up")
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    for image in images(shape)[::2]:
        assert_same(package.run({"x": image}, check=True), evaluate(reference, {"x": image}))
    return package


@pytest.mark.parametrize("level", ["graph", "tensor"])
@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "factor"),
    [
        (16, 1, 1, 16),  # depthwise: a block has 16 groups
        (24, 1, 1, 64 / 3),  # and the last may be filled in part
        (8, 4, 4, 4),
        (2, 16, 16, 1),  # a group fills blocks: no more work than its own
        (2, 32, 48, 1),  # several blocks of outputs read the same inputs
        (32, 1, 2, 16),
    ],
)
def test_groups_are_taken_and_cost_what_blocks_cost(
    groups: int, inputs: int, outputs: int, factor: float, level: str
):
    package = run(convolution(1, groups, inputs, outputs, 3, 1), level, 16)
    assert package.report.macs["host"] == 0
    (device,) = package.report.device.values()
    assert device["padded_macs"] == pytest.approx(factor * package.report.macs["vta"])


@given(
    st.tuples(
        st.integers(1, 2),
        st.integers(1, 20),
        st.sampled_from([1, 2, 3, 4, 8, 16]),
        st.sampled_from([1, 2, 3, 4, 8, 16, 24]),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
    st.sampled_from(["graph", "tensor"]),
    st.sampled_from([4, 8, 16]),
)
@settings(max_examples=settings.default.max_examples // 20)
def test_any_groups_compute_what_the_evaluator_computes(
    sizes: tuple[int, ...], level: str, block: int
):
    """Those that do not fill blocks stay on the host, and it is said why."""
    _, groups, inputs, outputs, *_ = sizes
    report = run(convolution(*sizes), level, block).report
    fits = groups == 1 or groups_fit(groups, inputs, outputs, block)
    assert (report.macs["host"] == 0) == fits
    (node,) = (node.name for node in report.nodes if node.op_type == "Conv")
    said = f"{groups} groups of {inputs} and {outputs} channels for blocks of {block}"
    failed = [rule.seen for d in report.reasons[node] for rule in d.rules if not rule.holds]
    assert (said in failed) != fits


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from([1, 4, 16, 64]))
def test_groups_that_share_make_whole_blocks(inputs: int, outputs: int, block: int):
    shared = sharing(inputs, outputs, block)
    assert shared * inputs % block == shared * outputs % block == 0
    fewer = [n for n in range(1, shared) if n * inputs % block == n * outputs % block == 0]
    assert not fewer


def test_groups_larger_than_the_scratchpads_are_tiled():
    """Tiles hold one group, or whole groups."""
    m = Model((1, 128, 20, 20), seed=1)
    m.first = list(m.shape)
    weight, _ = m.weights((128, 32, 3, 3), per_channel=False, axis=0)
    m.value = m.requantize(m.node("Conv", [m.value, weight], group=4, pads=[1] * 4), 1.0)
    package = run(m.build(), "graph", 16)
    assert package.report.macs["host"] == 0

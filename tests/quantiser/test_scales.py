"""Scales that a target wants: chosen from ranges, held against what they promise."""

from __future__ import annotations

from math import frexp

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from byocir.patterns.policy import Quantisation
from byocir.quantiser.scales import GREATEST, Range, chosen

SHIFTS = Quantisation(equal_terms=True, powers_of_two=True)
HALF_A_BIT_OF_F32 = 2.0**-23


def residual_net(sizes: list[float]) -> onnx.ModelProto:
    """A net of convolutions, each with a relu and added to what it reads; the greatest weight of
    each is given."""
    nodes, weights, x = [], [], "x"
    for i, size in enumerate(sizes):
        weight = np.full((4, 4, 1, 1), size / 2, np.float32)
        weight[0, 0] = size
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], name=f"conv{i}"))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        nodes.append(helper.make_node("Add", [f"r{i}", x], [f"s{i}"]))
        x = f"s{i}"
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in ("x", x)
    ]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], weights)
    return helper.make_model(graph)


def is_power_of_two(number: float) -> bool:
    return abs(2 * frexp(number)[0] - round(2 * frexp(number)[0])) < HALF_A_BIT_OF_F32 and (
        round(2 * frexp(number)[0]) in (1, 2)
    )


sizes = st.floats(2.0**-6, 2.0**6, allow_subnormal=False)


@st.composite
def nets(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, tuple[Range, str]]]:
    """A net, and ranges as the quantiser gives them: none for a relu's input, which it drops."""
    model = residual_net(draw(st.lists(sizes, min_size=1, max_size=4)))
    names = ["x", *(n.output[0] for n in model.graph.node if n.op_type != "Conv")]
    return model, {name: (Range(-draw(sizes), draw(sizes)), f"{name}_scale") for name in names}


@given(nets())
def test_every_step_between_arrays_is_a_power_of_two(given_net):
    model, ranges = given_net
    scales = {name: float(each[0]["scale"]) for name, each in chosen(model, ranges, SHIFTS).items()}
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for name, (limits, _) in ranges.items():  # nothing is cut off
        assert scales[name] * (1 + 1e-5) >= max(-limits.least, limits.greatest) / GREATEST
    for node in model.graph.node:
        read, made = [scales[name] for name in node.input], scales[node.output[0]]
        if node.op_type == "Conv":
            weight = np.abs(arrays[node.input[1]]).max() / GREATEST
            assert weight <= read[1] * (1 + 1e-5) <= 2.0001 * weight  # at most one bit is lost
            assert is_power_of_two(read[0] * read[1] / made)
        elif node.op_type == "Relu":
            assert read[0] == made
        else:
            assert read[0] == read[1]
            assert is_power_of_two(read[0] / made)


@given(nets())
def test_terms_of_sums_have_the_larger_scale(given_net):
    model, ranges = given_net
    found = chosen(model, ranges, Quantisation(equal_terms=True))
    assert not any(name.startswith("w") for name in found)  # weights keep a scale for each channel
    for node in model.graph.node:
        if node.op_type == "Add":
            left, right = (float(found[name][0]["scale"]) for name in node.input)
            assert left == right
            least = max(ranges[name][0].scale for name in node.input)
            assert left * (1 + 1e-6) >= least


def test_weights_of_two_contractions_that_want_different_scales_keep_their_own():
    model = residual_net([0.5, 0.5])
    first, relu, _, second, *_ = model.graph.node
    second.input[:] = ["r0", "w0"]
    greatest = {"x": 1.0, "r0": 1.3, "c1": 1.9}
    ranges = {name: (Range(-1, size), f"{name}_scale") for name, size in greatest.items()}
    del model.graph.node[:]
    model.graph.node.extend([first, relu])
    assert "w0" in chosen(model, ranges, Quantisation(powers_of_two=True))
    model.graph.node.extend([second])
    assert "w0" not in chosen(model, ranges, Quantisation(powers_of_two=True))

"""Nets as ONNX Runtime's quantiser writes them, in each of its settings: VTA takes the work, gives
the same bits at each level, and no op is more than a step from what ONNX means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from nets.classic_nets import Net, Scale, feeds, images
from nets.int8_nets import SETTINGS, Form, quantised
from nets.measured import LEVELS, offload, same_results, steps
from quantiser_nets import QuantisedNet, quantised_nets

LEAST = 0.99
"""How much of the multiply-accumulates VTA takes at least."""
IS_FUZZ = settings.default.max_examples > 100


@settings(max_examples=500 if IS_FUZZ else 2)
@given(quantised_nets())
def test_random_nets(net: QuantisedNet):
    ways = [offload(net.model, net.feeds, levels) for levels in LEVELS]
    assert same_results(ways)
    found = steps(net.model, net.feeds)
    assert found.largest <= 1
    assert not found.unseen
    if not net.is_dynamic:  # scales that a run tells are none for VTA
        assert min(way.share for way in ways) >= LEAST


def joining() -> bytes:
    """A net of two branches that are joined, a residual sum, pools and a product."""
    net = Net(Scale(6, 1, 1), images(2, 6, 1))
    net.add("Conv", net.normal(16, 3, 3, 3), pads=[1] * 4)
    before = net.add("Relu")
    left = net.add("Conv", net.normal(8, 16, 1, 1))
    net.last = before
    net.add("Conv", net.normal(8, 16, 3, 3), pads=[1] * 4)
    net.add("LeakyRelu")
    net.add("Concat", left, axis=1)
    net.add("Add", before)
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.linear(5)
    return net.model()


@pytest.mark.parametrize(
    ("setting", "form"),
    [("u8s8", "QOperator"), ("u8u8", "QDQ")],
)
def test_settings_of_the_quantiser(setting: str, form: Form):
    model = quantised(joining(), SETTINGS[setting], form)
    ways = [offload(model, [feeds(model, 5)], levels) for levels in LEVELS[:2]]
    assert same_results(ways)
    assert min(way.share for way in ways) >= LEAST
    assert steps(model, [feeds(model, 5)]).largest <= 1

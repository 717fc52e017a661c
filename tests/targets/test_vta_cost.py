"""The estimate by which VTA competes, against the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx
import pytest
from quantised_nets import Net, mobilenet, resnet18
from xdsl.ir import Operation

import byocir

PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 16, 32] x, float[2, 32, 48] y) => (float[2, 16, 48] z)
<float s = {0.25}, int8 o = {0}> {
  [xq] xq = QuantizeLinear(x, s, o)
  [xd] xd = DequantizeLinear(xq, s, o)
  [yq] yq = QuantizeLinear(y, s, o)
  [yd] yd = DequantizeLinear(yq, s, o)
  [mix] p = MatMul(xd, yd)
  [pq] pq = QuantizeLinear(p, s, o)
  [pd] z = DequantizeLinear(pq, s, o)
}
"""

TOLD: list[Mapping[str, float]] = []


@dataclass(frozen=True)
class Asked(byocir.Vta):
    """VTA, which keeps what it told."""

    name: ClassVar[str] = "asked"

    def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
        TOLD.append(super().cost(composite, ops))
        return TOLD[-1]


def conv(channels: tuple[int, int], size: int, kernel: int, group: int = 1) -> onnx.ModelProto:
    net = Net((1, channels[0], size, size))
    value = net.conv(net.value, channels, kernel, group=group)
    return net.of(value, (1, channels[1], size, size))


def estimate(
    model: onnx.ModelProto, **options: object
) -> tuple[Mapping[str, float], byocir.Report]:
    """What the target told of the model's one convolution, and the report with what it took."""
    TOLD.clear()
    report = byocir.compile(
        model, targets=[Asked(**options)], levels=("graph",), objective="latency"
    ).report
    (told,) = TOLD
    return told, report


CONVS = [((16, 16), 8, 1), ((16, 32), 8, 3), ((32, 48), 12, 3)]


def test_larger_convolutions_cost_more_as_in_the_simulator():
    latencies, energies = [], []
    for each in CONVS:
        told, report = estimate(conv(*each))
        (device,) = report.device.values()
        latencies.append((told["latency"] * 1e8, device["cycles"]))  # at 100 MHz
        energies.append((told["energy"] * 1e12, device["energy_pj"]))
    for pairs in (latencies, energies):
        assert pairs == sorted(pairs)
        assert [real for _, real in pairs] == sorted(real for _, real in pairs)
        assert all(real / 4 < told < real for told, real in pairs)  # what is left out only adds


@pytest.mark.parametrize(
    ("channels", "kernel", "group", "rounding"),
    [
        ((16, 32), 3, 1, "floor"),
        ((16, 32), 3, 1, "half_up"),
        ((3, 16), 3, 1, "half_even"),
        ((16, 20), 1, 1, "half_up"),
        ((32, 32), 3, 32, "half_even"),
        ((32, 64), 3, 4, "floor"),
    ],
)
def test_blocks_cost_what_the_operators_cost_that_they_are(
    channels: tuple[int, int], kernel: int, group: int, rounding: str
):
    model = conv(channels, 8, kernel, group)
    told, _ = estimate(model, rounding=rounding)
    TOLD.clear()
    byocir.partition(
        byocir.import_onnx(model),
        [Asked(rounding=rounding)],
        levels=("tensor",),
        objective="latency",
    )
    assert TOLD[0] == pytest.approx(told)


def test_what_a_pool_is_taken_of_costs_as_much_as_its_maxima():
    """A convolution alone requantises four times as many sums as one before a pool of windows of
    four."""
    net = Net((1, 16, 8, 8))
    value = net.conv(net.value, (16, 16), 1)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    pooled = net.of(net.requantize(net.node("MaxPool", [value], **pool), net.scale), (1, 16, 4, 4))
    latencies: list[float] = []
    for level in ("graph", "tensor"):
        TOLD.clear()
        module = byocir.import_onnx(pooled)
        report = byocir.partition(module, [Asked()], levels=(level,), objective="latency")
        (taken,) = report.regions[0].composites
        assert taken.pattern.endswith("_pool")
        (told,) = (told for told in TOLD if told["bytes"] == 16 * (8 * 8 + 4 * 4))
        latencies.append(told["latency"])
    alone, _ = estimate(conv((16, 16), 8, 1))
    assert latencies[0] == pytest.approx(latencies[1])
    assert latencies[0] < alone["latency"]


def test_targets_compete_for_blocks():
    """Products of two activations are none of VTA's operators; a narrower unit takes longer."""
    model = onnx.parser.parse_model(PRODUCT)
    narrow = type("Narrow", (byocir.Vta,), {"name": "narrow"})
    report = byocir.partition(
        byocir.import_onnx(model), [narrow(block=4), byocir.Vta()], objective="latency"
    )
    assert report.placement["mix"] == "vta_0"
    (taken,) = (d for d in report.reasons["mix"] if d.taken)
    assert "on vta" in taken.reason
    assert "on narrow" in taken.reason


def test_bytes_are_those_that_the_report_counts():
    told, report = estimate(conv((16, 32), 8, 3))
    assert told["bytes"] == report.regions[0].bytes == (16 + 32) * 8 * 8


@pytest.mark.parametrize(("channels", "group"), [((3, 16), 1), ((16, 20), 1), ((32, 32), 32)])
def test_padding_and_groups_count_as_the_blocks_that_they_fill(
    channels: tuple[int, int], group: int
):
    """The estimate of the same convolution with whole blocks, but for the channels' bytes."""
    told, _ = estimate(conv(channels, 8, 3, group))
    whole = [16 * ((count + 15) // 16) for count in channels]
    full, _ = estimate(conv((whole[0] if group == 1 else 16, whole[1]), 8, 3))
    assert told["latency"] == pytest.approx(full["latency"])


def test_a_wider_gemm_unit_and_rounding_up_are_faster():
    model = conv((32, 48), 12, 3)
    base, _ = estimate(model)
    narrow, _ = estimate(model, block=8)
    even, _ = estimate(model, rounding="half_even")
    assert base["latency"] < even["latency"] < narrow["latency"]


@pytest.mark.parametrize("net", [resnet18, mobilenet])
def test_every_composite_of_whole_nets_has_a_cost(net: Callable[[], onnx.ModelProto]):
    TOLD.clear()
    report = byocir.partition(
        byocir.import_onnx(net()), [Asked()], levels=("graph",), objective="energy"
    )
    assert len(TOLD) >= sum(len(region.composites) for region in report.regions) > 0
    assert all(told.keys() == {"latency", "energy", "bytes"} for told in TOLD)
    views = [told for told in TOLD if not told["latency"]]
    assert all(told["bytes"] > 0 for told in TOLD)
    assert all(told["energy"] == 0 for told in views)
    assert len(views) < len(TOLD) / 2

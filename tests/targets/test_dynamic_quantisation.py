"""Products whose scales only a run tells: a target that gives 32-bit sums takes them, VTA says why
it does not, and their work is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
import pytest
from nets.classic_nets import Net, Scale, feeds, images, session
from nets.int8_nets import SETTINGS, quantised

import byocir
from byocir.dialects.types import i8, i32, ui8
from byocir.patterns import Composite, composite, constant, op, optional_operand, wildcard
from byocir.runtime.report_text import explain, summary

TINY = Scale(16, 32, 1)


def convolutions(scale: Scale) -> bytes:
    """Padded ones, one of which is depthwise."""
    net = Net(scale, images(2, 8, 1))
    for outputs, group in ((6, 1), (6, 6)):
        net.add(
            "Conv",
            net.normal(outputs, net.value.shape[1] // group, 3, 3),
            pads=[1] * 4,
            group=group,
        )
        net.add("Relu")
    return net.model()


def products(scale: Scale) -> bytes:
    net = Net(scale, np.random.default_rng(2).normal(size=(2, 5, 8)).astype(np.float32))
    net.add("MatMul", net.normal(8, 6))
    net.add("Tanh")
    net.add("MatMul", net.normal(6, 3))
    return net.model()


def sums(name: str) -> Composite:
    """Products of bytes, whatever happens to their sums."""

    @composite(f"npu.{name}")
    def made():
        return op(f"graph.{name}", wildcard("x"), constant("w"), optional_operand(constant("b")))

    @made.rule
    def factors_are_bytes(m):
        """Both factors have 8 bits, signed or not."""
        found = m["x"].type.element, m["w"].type.element
        return all(element in (i8, ui8) for element in found), found

    @made.rule
    def sums_have_32_bits(m):
        """The sums have 32 bits."""
        return m.result.type.element == i32, m.result.type.element

    return made


@dataclass(frozen=True)
class Npu(byocir.Target):
    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (sums("conv"), sums("matmul"))


@pytest.fixture(scope="module", params=[products, convolutions])
def model(request: pytest.FixtureRequest) -> bytes:
    return quantised(request.param(TINY), SETTINGS["u8u8"], "dynamic", per_channel=False)


def test_a_target_of_sums_takes_the_products_and_the_host_works_out_the_scales(model: bytes):
    package = byocir.compile(model, targets=[Npu()])
    report, feed = package.report, feeds(model, 5)
    integer = [node for node in report.nodes if "Integer" in node.op_type]
    assert integer
    assert all(node.macs and report.places[node.name] == "npu" for node in integer)
    assert report.macs["npu"] == sum(node.macs for node in integer)
    assert not report.unknown_macs
    assert "unknown size" not in summary(report)
    (found,), (expected,) = package.run(feed).values(), session(model).run(None, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.ptp(expected))


def test_vta_says_that_it_misses_the_scale(model: bytes):
    report = byocir.compile(model, targets=["vta"]).report
    integer = [node for node in report.nodes if "Integer" in node.op_type]
    for node in integer:
        lines = explain(report, node.name).splitlines()
        assert lines[0].endswith("host")
        assert "The scale of the input is known when the model is compiled" in lines[2]
        assert "seen a scale that" in lines[2]
        assert "byocir quantise" in lines[3]
    (note,) = (note for note in report.notes if "stay in float" in note)
    assert note.startswith(f"{sum(node.macs for node in integer):,} multiply-accumulates")
    assert f"{integer[0].name} has a scale that" in note
    assert "byocir quantise" in note


FOREIGN = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
net (float[3, 1, 4] x, uint8[1, 4, 8] tokens) => (float[3, 1, 1, 8] y, float[1, 4, 8] z)
<float s = {0.1}, uint8 xz = {3}, int8 z0 = {0}, float[1] ws = {0.1}, int8[1] wz = {0},
 int8[1, 4, 32] W = {WEIGHTS}, int8[1, 8, 32] R = {STATES}, int8[8, 24] Q = {ATTENTION},
 float[24] b = {BIAS}> {
  [lstm] y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 8> (x, W, R, , , , , , ws, wz, ws, wz)
  [attention] z = com.microsoft.QAttention <num_heads = 2> (tokens, Q, b, s, s, , xz, z0)
}"""


def test_operators_without_integers_of_their_own_are_told_as_such():
    """They are ONNX Runtime's, and work that nobody knows the size of."""
    text, sizes = FOREIGN, {"WEIGHTS": 128, "STATES": 256, "ATTENTION": 192, "BIAS": 24}
    for name, size in sizes.items():
        text = text.replace(name, ", ".join(["1"] * size))
    report = byocir.partition(byocir.import_onnx(onnx.parser.parse_model(text)), ["vta"])
    for node in ("lstm", "attention"):
        told = explain(report, node)
        assert "no graph op stands for this operator" in told
        assert "vta: no pattern has such an op" in told
    assert report.unknown_macs == ["lstm", "attention"]
    assert "unknown size" in summary(report)

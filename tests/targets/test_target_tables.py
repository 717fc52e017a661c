"""A target with tables of 256 entries takes activations and the exponentials of a softmax of
quantised nets; VTA, which has none, leaves them to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from nets.classic_nets import Net, Scale
from nets.int8_nets import SETTINGS, quantised
from nets.measured import steps

import byocir
from byocir.dialects.types import i8, ui8
from byocir.patterns import Composite, composite, constant, op, wildcard
from byocir.runtime.report_text import explain


@composite("npu.table")
def table():
    """Bytes looked up in a table."""
    return op("graph.gather", constant("table"), op("graph.cast", wildcard("x")))


@table.rule
def there_is_an_entry_for_each_byte(m):
    """A table of 256 entries is indexed by bytes."""
    seen = m["table"].type.shape, m["x"].type.element
    return seen[0] == (256,) and seen[1] in (i8, ui8), seen


@dataclass(frozen=True)
class Npu(byocir.Target):
    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (table,)
    tables: ClassVar[bool] = True
    fixed_point: ClassVar[Literal["half_up"]] = "half_up"


ACTIVATIONS = ("LeakyRelu", "HardSwish", "Sigmoid", "Tanh", "LeakyRelu", "Gelu", "Softmax")
"""Some of which the quantiser leaves in float, between others."""


@pytest.fixture(
    scope="module",
    params=[("QDQ", "u8s8"), ("QOperator", "s8s8"), ("QDQ", "symmetric")],
    ids=" ".join,
)
def model(request: pytest.FixtureRequest) -> bytes:
    form, setting = request.param
    net = Net(Scale(8, 1, 1), np.random.default_rng(1).normal(size=(2, 6, 8)).astype(np.float32))
    for name in ACTIVATIONS:
        net.add(name)
    return quantised(net.model(), SETTINGS[setting], form, per_channel=False)


def feed() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).normal(size=(1, 6, 8)).astype(np.float32)}


def kinds_at(report: byocir.Report, place: str) -> set[str]:
    """The activations at a place, without what their operator says of quantisation."""
    found = {
        n.op_type.removeprefix("QLinear") for n in report.nodes if report.places[n.name] == place
    }
    return found & set(ACTIVATIONS)


def test_a_target_with_tables_takes_them(model: bytes):
    package = byocir.compile(model, targets=[Npu()])
    assert kinds_at(package.report, "npu") == set(ACTIVATIONS)
    assert steps(model, [feed()], [Npu()]).largest <= 1
    reference = byocir.compile(model, targets=[])
    (found,), (expected,) = package.run(feed()).values(), reference.run(feed()).values()
    assert np.abs(found - expected).max() <= 1.01 / 256  # one step of the softmax, which is last


def test_vta_hands_them_to_the_host(model: bytes):
    report = byocir.compile(model, targets=["vta"]).report
    assert kinds_at(report, "host") >= set(ACTIVATIONS) - {"LeakyRelu"}
    softmax = next(node.name for node in report.nodes if node.op_type.endswith("Softmax"))
    assert explain(report, softmax).startswith(f"{softmax}  ")

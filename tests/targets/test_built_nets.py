"""Nets of many branches and with control flow: partitioned, they agree with ONNX Runtime."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
from built_nets import detector, inception

import byocir
from byocir.patterns import Composite, constant, op, optional, wildcard

CONV = Composite(
    "npu.conv",
    (
        optional(
            op("graph.conv", wildcard("x"), constant("w"), constant("b")),
            lambda value: op("graph.relu", value),
        ),
    ),
)


@dataclass(frozen=True)
class Npu(byocir.Target):
    """Takes convolutions, and what follows runs through the evaluator."""

    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (CONV,)


@pytest.mark.parametrize("host", ["reference", "c"])
@pytest.mark.parametrize(
    ("build", "convolutions", "regions"), [(inception, 13, 3), (detector, 6, 1)]
)
def test_partitioned_nets_agree_with_onnxruntime(
    build: Callable[[], onnx.ModelProto], convolutions: int, regions: int, host: str
):
    model = build()
    onnx.checker.check_model(model)
    package = byocir.compile(model, targets=[Npu()], host=host)
    assert package.report.host_runs_on == host
    taken = [node for region in package.report.regions for node in region.nodes]
    assert sum(node.endswith("_Conv") for node in taken) == convolutions
    assert len(package.report.regions) == regions
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for seed in range(3):
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        found = package.run({"x": x})
        for port, expected in zip(model.graph.output, session.run(None, {"x": x}), strict=True):
            spread = float(np.ptp(expected)) if expected.size else 0.0
            np.testing.assert_allclose(
                found[port.name], expected, rtol=1e-3, atol=1e-4 * spread, err_msg=port.name
            )

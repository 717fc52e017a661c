"""Well-known nets, quantised as ONNX Runtime's own tool does it.

A setting says of which types activations and weights are, and whether zero points are 0. A form
says how that is written: QDQ, QOperator, or dynamic, where the net works out the scales of
activations.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from nets.classic_nets import NETS, Scale, feeds
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

CALIBRATED_WITH = 2
"""Inputs whose least and greatest activations set the scales."""

Form = Literal["QDQ", "QOperator", "dynamic"]
FORMS: tuple[Form, ...] = ("QDQ", "QOperator", "dynamic")


@dataclass(frozen=True)
class Setting:
    """What the quantiser is asked for. Weights are unsigned with zero points, signed without."""

    activations: QuantType
    weights: QuantType
    symmetric: bool = False

    @property
    def options(self) -> dict[str, bool]:
        return {"ActivationSymmetric": True, "WeightSymmetric": True} if self.symmetric else {}


SETTINGS: Mapping[str, Setting] = {
    "symmetric": Setting(QuantType.QInt8, QuantType.QInt8, symmetric=True),
    "s8s8": Setting(QuantType.QInt8, QuantType.QInt8),
    "u8s8": Setting(QuantType.QUInt8, QuantType.QInt8),
    "u8u8": Setting(QuantType.QUInt8, QuantType.QUInt8),
}
"""By the types of activations and weights. `s8s8` are the quantiser's defaults of today, `u8s8`
those of earlier ones."""


class _Inputs(CalibrationDataReader):
    def __init__(self, model: bytes) -> None:
        self.left = [feeds(model, seed) for seed in range(CALIBRATED_WITH)]

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantised(
    model: bytes, setting: Setting, form: Form = "QDQ", *, per_channel: bool = True
) -> bytes:
    """The file of a float model, quantised with its own kind of inputs."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "float.onnx"), Path(folder, "quantised.onnx")
        before.write_bytes(model)
        if form == "dynamic":
            quantize_dynamic(before, after, per_channel=per_channel, weight_type=setting.weights)
            return after.read_bytes()
        quantize_static(
            before,
            after,
            _Inputs(model),
            quant_format=QuantFormat[form],
            per_channel=per_channel,
            activation_type=setting.activations,
            weight_type=setting.weights,
            extra_options=setting.options,
        )
        return after.read_bytes()


@cache
def prepared(name: str, scale: Scale) -> bytes:
    """A net in float as the quantiser wants it: with all shapes, batch norms folded."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "float.onnx"), Path(folder, "prepared.onnx")
        before.write_bytes(NETS[name](scale))
        quant_pre_process(before, after, skip_symbolic_shape=True)
        return after.read_bytes()


def quantised_net(
    name: str, setting: str, form: Form, scale: Scale, *, per_channel: bool = True
) -> bytes:
    return quantised(prepared(name, scale), SETTINGS[setting], form, per_channel=per_channel)


def with_powers_of_two(model: bytes) -> bytes:
    """The same QDQ net with each scale rounded up to a power of two. That of a bias, i32, stays
    the product of those of its convolution's input and weights."""
    proto = onnx.load_from_string(model)
    arrays = {i.name: i for i in proto.graph.initializer}
    makers = {output: node for node in proto.graph.node for output in node.output}
    linear = [n for n in proto.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]

    def rounded(name: str, of: np.ndarray) -> None:
        up = np.exp2(np.ceil(np.log2(of))).astype(np.float32)
        arrays[name].CopyFrom(numpy_helper.from_array(up, name))

    def scale(name: str) -> np.ndarray:
        return numpy_helper.to_array(arrays[makers[name].input[1]])

    for name in {node.input[1] for node in linear}:
        rounded(name, numpy_helper.to_array(arrays[name]))
    for node in proto.graph.node:
        if node.op_type in ("Conv", "Gemm") and len(node.input) > 2:
            x, w, b = node.input
            rounded(makers[b].input[1], scale(x) * scale(w))
    return proto.SerializeToString()


def _of(name: str, setting: str, scale: Scale) -> bytes:
    return quantised_net(name, setting, "QDQ", scale)


INT8_NETS: Mapping[str, Callable[[Scale], bytes]] = {
    f"{name} {kind}": partial(_of, name, setting)
    for kind, setting in (("u8", "u8s8"), ("s8", "s8s8"))
    for name in ("ResNet-18", "ResNet-50", "MobileNetV2")
}
"""The file of each net at a scale, with a scale for each channel: `u8` has unsigned activations,
`s8` signed ones."""

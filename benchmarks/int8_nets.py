"""Well-known nets, quantised as ONNX Runtime's own tool does it.

They are in QDQ form: weights of signed bytes with a scale for each channel, activations of unsigned
or signed bytes with zero points.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from nets.classic_nets import NETS, Scale, images
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

CALIBRATED_WITH = 2
"""Images whose least and greatest activations set the scales."""


class _Images(CalibrationDataReader):
    def __init__(self, pixels: int) -> None:
        self.left = [images(1, pixels, seed) for seed in range(CALIBRATED_WITH)]

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return {"x": self.left.pop()} if self.left else None


def quantised(name: str, activations: QuantType, scale: Scale) -> bytes:
    """The file of a net at a scale, with activations of a type."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{step}.onnx") for step in ("float", "prepared", "quantised")]
        paths[0].write_bytes(NETS[name](scale))
        quant_pre_process(*paths[:2], skip_symbolic_shape=True)
        quantize_static(
            *paths[1:],
            _Images(scale.pixels),
            per_channel=True,
            activation_type=activations,
            weight_type=QuantType.QInt8,
        )
        return paths[2].read_bytes()


INT8_NETS: Mapping[str, Callable[[Scale], bytes]] = {
    f"{name} {kind}": partial(quantised, name, activations)
    for kind, activations in (("u8", QuantType.QUInt8), ("s8", QuantType.QInt8))
    for name in ("ResNet-18", "ResNet-50", "MobileNetV2")
}
"""The file of each net at a scale: `u8` has unsigned activations, `s8` signed ones."""

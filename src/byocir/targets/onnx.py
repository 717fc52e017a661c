"""Defines the base class of targets whose toolkit reads ONNX: TensorRT, OpenVINO, QNN and the like.

```python
@dataclass(frozen=True)
class Npu(OnnxTarget):
    name, patterns = "npu", (conv_relu,)

    def build(self, symbol, model):      # once, when a model is compiled
        return toolkit.compile(model)

    def open(self, symbol, built):       # in each process that runs it
        engine = toolkit.load(built)
        return lambda inputs: engine.run(inputs)
```

A region is a model of its own: its inputs and outputs come in the order of the region's, its
weights are inside. It has the lowest opset and IR version that say the same, so that a toolkit
older than the user's model takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.isolation import go_on
from byocir.patterns.policy import ConstantPolicy
from byocir.targets.base import Target
from byocir.targets.onnx_loader import OnnxLoader, Opened
from byocir.vendor.hooks import expect_given

__all__ = ["OnnxTarget", "Opened"]


@dataclass(frozen=True)
class OnnxTarget(OnnxLoader, Target):
    """Defines what targets share whose toolkit gets each region as an ONNX model."""

    constants: ClassVar[ConstantPolicy] = "bind"

    non_finite: ClassVar[bool] = False
    """Toolkits differ in what becomes of NaN and infinities, where ONNX is silent."""

    tolerance: ClassVar[float] = 1e-6
    """They compute functions in ways of their own."""

    def build(self, symbol: str, model: bytes) -> bytes:
        """Compiles a region's ONNX model to the bytes that a package keeps of it: an engine, a
        blob. The same model must give the same bytes. The default keeps the model.
        """
        return model

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        """Exports each region and builds it. Raises ByocirError B109 for a region that has no ONNX
        form.
        """
        from byocir.frontend.onnx.exporter import export_onnx  # `byocir targets` needs no onnx

        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        blobs: dict[str, bytes] = {}
        for symbol in symbols:
            go_on(symbol)
            model = export_onnx(functions[symbol]).SerializeToString(deterministic=True)
            built: Any = self.build(symbol, model)
            expect_given(self, "build", isinstance(built, bytes), "bytes", built)
            blobs[f"{symbol}.{self.suffix}"] = built
        return blobs

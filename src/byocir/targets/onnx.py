"""The base class of targets whose toolkit reads ONNX: TensorRT, OpenVINO, QNN and the like.

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

| code | what is wrong |
| --- | --- |
| B371 | a region's model is missing or damaged |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.errors import ByocirError
from byocir.patterns.hooks import expect_given
from byocir.patterns.policy import ConstantPolicy
from byocir.targets.base import Runner, Target

Opened = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a region: its inputs in order give its outputs in order."""


@dataclass(frozen=True)
class OnnxTarget(Target):
    """A target to whose toolkit each region goes as an ONNX model."""

    constants: ClassVar[ConstantPolicy] = "bind"

    non_finite: ClassVar[bool] = False
    """Toolkits differ in what becomes of NaN and infinities, where ONNX is silent."""

    tolerance: ClassVar[float] = 1e-6
    """They compute functions in ways of their own."""

    suffix: ClassVar[str] = "onnx"
    """The last part of the names of what `build` makes, in packages."""

    def build(self, symbol: str, model: bytes) -> bytes:
        """Compiles a region's ONNX model to what a package keeps of it: an engine, a blob. The
        same model must give the same bytes. The default keeps the model."""
        return model

    def open(self, symbol: str, built: bytes) -> Opened:
        """Opens what `build` made, once in a process, when the region is first run. Gives a
        function of its inputs, which it must not write, that gives its outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its regions run")

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        """Raises ByocirError B109 for a region that has no ONNX form."""
        from byocir.frontend.onnx.exporter import export_onnx  # `byocir targets` needs no onnx

        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        blobs: dict[str, bytes] = {}
        for symbol in symbols:
            model = export_onnx(functions[symbol]).SerializeToString(deterministic=True)
            built: Any = self.build(symbol, model)
            expect_given(self, "build", isinstance(built, bytes), "bytes", built)
            blobs[f"{symbol}.{self.suffix}"] = built
        return blobs

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        """Raises ByocirError B371 for a region of which a package lacks the model."""
        opened: dict[str, Opened] = {}

        def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            region = opened.get(symbol)
            if region is None:
                built = blobs.get(f"{symbol}.{self.suffix}")
                if built is None:
                    raise damaged(symbol, "none")
                region = opened[symbol] = self.open(symbol, built)
            return [*region(inputs)]

        return run


def damaged(symbol: str, found: object) -> ByocirError:
    """The error for a region's model that is not one that was written."""
    return ByocirError(
        "B371",
        f"expected a model of region {symbol}, found: {found}",
        help="the package was changed or damaged: compile the model again",
    )

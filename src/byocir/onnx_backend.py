"""Makes byocir a backend of onnx: the interface that onnx's own test suite runs.

```python
from byocir.onnx_backend import Backend

outputs = Backend.prepare(model).run(inputs)
```

A model is compiled for no target, unless `targets` names some: graph ops run as the host runs them,
everything else as foreign ops. There is no way out: whatever fails, fails as an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx.backend import base

from byocir.compiler import compile
from byocir.errors import ByocirError
from byocir.runtime.package import Package
from byocir.runtime.report import REFERENCE


class BackendRep(base.BackendRep):
    """Runs a model that is compiled already."""

    def __init__(self, package: Package) -> None:
        self.package = package

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model; gives the outputs in order, for the inputs in order, by name, or the only
        one.
        """
        names = list(self.package.inputs)
        if isinstance(inputs, Mapping):
            return tuple(self.package.run(cast(Mapping[str, Any], inputs)).values())
        values = cast(Sequence[Any], inputs if isinstance(inputs, (list, tuple)) else [inputs])
        if len(values) != len(names):
            raise ByocirError("B310", f"expected {len(names)} inputs, found {len(values)}")
        return tuple(self.package.run(dict(zip(names, values, strict=True))).values())


class Backend(base.Backend):
    """Runs ONNX models through byocir."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Compiles a model for a `host`, by default the evaluator, and `targets`, by default none;
        raises ByocirError B101 to B106 for one that is not valid."""
        host, targets = kwargs.get("host", REFERENCE), kwargs.get("targets", ())
        return BackendRep(compile(model, targets=targets, host=host))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node on arrays, in the order of its inputs; `opset_version` is the opset of its
        domain, the newest by default."""
        given: list[Any] = list(inputs)
        names = [name for name in dict.fromkeys(node.input) if name]
        ports = [
            onnx.helper.make_tensor_value_info(
                name,
                onnx.helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype),
                np.asarray(value).shape,
            )
            for name, value in zip(names, given, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", ports, outputs)
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)]
        )
        return cls.run_model(onnx.shape_inference.infer_shapes(model), given, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tells if a device is the host's processor, the only one that is supported."""
        return device == "CPU"

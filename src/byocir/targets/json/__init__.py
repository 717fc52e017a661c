"""Writes and runs JSON as code: what a target got, as data that any language can read.

```python
@dataclass(frozen=True)
class Npu(JsonTarget):
    name, patterns = "npu", (conv_relu,)
    kernels = {**KERNELS, "npu.conv_relu": my_kernel}
```
"""

from byocir.targets.json.codegen import json_blobs
from byocir.targets.json.kernels import KERNELS
from byocir.targets.json.program import Step, Value
from byocir.targets.json.runtime import Kernel, Kernels, json_runner
from byocir.targets.json.target import Json, JsonTarget

__all__ = [
    "KERNELS",
    "Json",
    "JsonTarget",
    "Kernel",
    "Kernels",
    "Step",
    "Value",
    "json_blobs",
    "json_runner",
]

"""byocir compiles ONNX models for hardware that its user brings.

```python
import byocir

package = byocir.compile("model.onnx", targets=["vta"], shapes={"x": (1, 3, 32, 32)})
print(package.report.macs)
outputs = package.run({"x": images})
package.save("model.bpkg")
```

Nothing is imported before it is used: `import byocir` is quick.
"""

TYPE_CHECKING = False  # `typing` takes longer than all the rest
if TYPE_CHECKING:
    from byocir.compiler import compile, export_onnx, import_onnx, partition
    from byocir.errors import ByocirError
    from byocir.isolation import isolate
    from byocir.memory import limit_memory
    from byocir.quantiser.quantise import quantise
    from byocir.rewrites.schedule import Schedule
    from byocir.runtime.package import Package, load
    from byocir.runtime.report import Report
    from byocir.targets.base import Target
    from byocir.targets.vta import Vta
    from byocir.tuning.sweep import sweep
    from byocir.tuning.tune import tune

_HOMES = {
    "ByocirError": "byocir.errors",
    "Package": "byocir.runtime.package",
    "Report": "byocir.runtime.report",
    "Schedule": "byocir.rewrites.schedule",
    "Target": "byocir.targets.base",
    "Vta": "byocir.targets.vta",
    "compile": "byocir.compiler",
    "export_onnx": "byocir.compiler",
    "import_onnx": "byocir.compiler",
    "isolate": "byocir.isolation",
    "limit_memory": "byocir.memory",
    "load": "byocir.runtime.package",
    "partition": "byocir.compiler",
    "quantise": "byocir.quantiser.quantise",
    "sweep": "byocir.tuning.sweep",
    "tune": "byocir.tuning.tune",
}
"""Maps each public name to the module that defines it."""

__all__ = [
    "ByocirError",
    "Package",
    "Report",
    "Schedule",
    "Target",
    "Vta",
    "compile",
    "export_onnx",
    "import_onnx",
    "isolate",
    "limit_memory",
    "load",
    "partition",
    "quantise",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'byocir' has no attribute '{name}'")
    from importlib import import_module

    from byocir.dialects.gc_pause import gc_paused

    with gc_paused():  # modules are no garbage: looking for cycles would take a tenth of the time
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

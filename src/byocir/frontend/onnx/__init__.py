"""Reads and writes ONNX models. `table` is the one place where graph ops and ONNX operators
correspond.
"""

from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.importer import import_onnx

__all__ = ["export_onnx", "import_onnx"]

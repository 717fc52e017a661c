"""What tests of the command line give to it."""

from pathlib import Path

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = str(DIGITS / "digits_int8.onnx")
SHAPE = ["--shape", "image=1,1,8,8"]


NPU = """
import byocir
from dataclasses import dataclass
from byocir.patterns import composite, op, wildcard

@composite("npu.relu")
def relu():
    return op("graph.relu", wildcard("x"))

@dataclass(frozen=True)
class Npu(byocir.Target):
    name, patterns = "npu", (relu,)
    block: int = 8
"""

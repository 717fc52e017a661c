"""What the processor that tests run on can do."""

from __future__ import annotations

import pytest

from byocir.toolchain import x86_64_features, x86_64_level
from byocir.toolchain.cpu import CPUS

RUN_HERE = [n for n, cpu in CPUS.items() if cpu.runs_on(x86_64_level(), x86_64_features())]
HAS_VNNI = "x86-64-v4-vnni" in RUN_HERE
"""Without these instructions ONNX Runtime adds products of bytes in pairs of 16 bits, which
saturate, and oneDNN takes no bytes."""

on_vnni = pytest.mark.skipif(not HAS_VNNI, reason="needs a processor with VNNI")

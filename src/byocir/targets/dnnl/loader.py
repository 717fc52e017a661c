"""Builds the nets of the `dnnl` target and runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from byocir.targets.c_loader import CLoader


@dataclass(frozen=True)
class DnnlLoader(CLoader):
    """Links oneDNN; the state of a region is its net."""

    name = "dnnl"
    stateful = True
    headers = ("oneapi/dnnl/dnnl.h",)
    libraries = ("dnnl", "-fopenmp")
    search = ("wheels:onednn-cpu-gomp onednn-devel-cpu-gomp", "pkg-config:dnnl")

    processors: ClassVar = {
        100: "a processor with VNNI, which oneDNN needs for bytes (int8=false)",
        101: "a processor with AVX-512, which oneDNN needs for bf16 (bf16=false)",
    }

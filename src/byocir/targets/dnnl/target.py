"""Makes oneDNN a target: Intel's and Arm's library of primitives for neural nets, on this
processor.

A region is one net of primitives, built once: oneDNN chooses the order of elements between them,
weights are brought into theirs then, and arrays in between share one memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from byocir.dialects.types import bf16, element_type_of
from byocir.patterns import Composite
from byocir.rewrites.byoc.processor import Kernels
from byocir.rewrites.host.c_host import CHost, c_host_of
from byocir.targets.base import Point
from byocir.targets.c import ARRAYS, CTarget
from byocir.targets.dnnl.loader import DnnlLoader
from byocir.targets.dnnl.patterns import OF_INTEGERS, PATTERNS

FILES = ("dnnl_net.h", "dnnl_parts.h", "dnnl_net.c", "dnnl_primitives.c")


def _files() -> dict[str, str]:
    folder = resources.files("byocir.targets.dnnl")
    return {name: (folder / name).read_text() for name in FILES}


KERNELS = Kernels(
    call_seconds=2e-6,
    macs_per_clock=18,
    bytes_per_second=1e10,
    cached_bytes_per_second=2.4e10,
    fuse=True,
)
"""With 16 lanes and one thread a product of 3.4e7 multiplications took 0.61 ms, a normalisation of
0.26 MB in a cache 8 us, and convolutions of 2 to 6 MB between 0.7e10 and 1.5e10 bytes in a second:
they are read again in another order, and come from memory, by one primitive after the other."""


def _host_of(op: Operation) -> CHost:
    """Finds the host of the module that an op is in; one of one thread where it names none."""
    while (around := op.parent_op()) is not None:
        op = around
    return c_host_of(op) if isinstance(op, ModuleOp) else CHost("generic")


@dataclass(frozen=True)
class Dnnl(DnnlLoader, CTarget):
    """Runs regions in oneDNN, on the processor: `pip install 'byocir[dnnl]'`, or a library that is
    installed.

    `threads` is how many it computes a primitive with, 0 for as many as the host has. With `int8`
    it takes bytes, too, which needs a processor with VNNI, and with `bf16` arrays of these, which
    needs AVX-512.
    """

    patterns = PATTERNS
    constants = "bind"
    unsigned_bytes = True
    non_finite = False
    tolerance = 1e-6
    library: ClassVar = _files()
    preamble = '#include "dnnl_net.h"'

    threads: int = 0
    int8: bool = True
    bf16: bool = True

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ValueError(f"expected threads of at least 0, found {self.threads}")

    def composites(self) -> tuple[Composite, ...]:
        return PATTERNS if self.int8 else tuple(p for p in PATTERNS if p not in OF_INTEGERS)

    def refusal(self, ops: Sequence[Operation]) -> str:
        if self.bf16 or not any(element_type_of(v.type) == bf16 for op in ops for v in op.results):
            return ""
        return "bf16 is left to others (bf16=true)"

    @property
    def fixed_point(self) -> Literal["", "float_scale"]:
        return "float_scale" if self.int8 else ""

    def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
        return KERNELS.cost_of(ops, self.threads or _host_of(ops[0]).threads)

    def passes(self, point: Point) -> Sequence[str]:
        return ["fold-batch-norm"] if point == "before-match" else []

    def define(self, function: FuncOp, name: str) -> str:
        # Imported here, as listing targets does not need it.
        from byocir.targets.dnnl.net import Net

        threads = self.threads or _host_of(function).threads
        return Net.of(function).source(name, ARRAYS, threads)

    def data(self, function: FuncOp) -> bytes:
        from byocir.targets.dnnl.net import Net

        return Net(function).data()

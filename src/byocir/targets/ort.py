"""Defines ONNX Runtime as a target. It takes every graph op and every foreign op on tensors of
numbers, except types that numpy lacks, such as bf16, which its Python interface does not take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation

from byocir.dialects.graph import ConstantOp, ForeignOp, Graph, GraphOp, ResizeOp
from byocir.dialects.types import dtype_of, element_type_of, holds_numbers
from byocir.patterns import Composite, Match, supports
from byocir.rewrites.byoc.processor import Kernels
from byocir.targets.onnx import OnnxTarget
from byocir.targets.ort_kernels import not_taken, type_without_kernel
from byocir.targets.ort_loader import OrtLoader

KERNELS = Kernels(call_seconds=5e-6, macs_per_clock=4)
"""ONNX Runtime finds a kernel for each op, checks its inputs and holds its outputs; kernels reach
about half of eight lanes."""


@dataclass(frozen=True)
class Ort(OrtLoader, OnnxTarget):
    """Runs regions in ONNX Runtime, on the processor.

    `optimise` turns its graph optimisations on, which may change the last bits of floats and, on
    quantised models, integers by one step. `threads` is how many it computes an operator with.
    """

    def composites(self) -> tuple[Composite, ...]:
        return _composites()

    def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
        return KERNELS.cost_of(ops, self.threads)


@cache
def _composites() -> tuple[Composite, ...]:
    """Makes a composite for each op of the graph level except constants, in order of name."""
    kinds = [op for op in Graph.operations if issubclass(op, GraphOp | ForeignOp)]
    return tuple(_composite(kind) for kind in kinds if kind is not ConstantOp)


def _composite(kind: type[Operation]) -> Composite:
    @supports(kind.name, name=kind.name.removeprefix("graph."), fix=_fix)
    def takes(match: Match) -> tuple[bool, str]:
        """ONNX Runtime takes its values, weights aside, from Python, and is right about them."""
        op = cast(Operation, match["op"].op)
        found = not_taken(op)
        if found:
            return False, found
        others = _others(op)
        return not others, str(others[0]) if others else "tensors of numbers"

    return takes


def _others(op: Operation) -> list[Attribute]:
    """Lists the types of values, weights aside, that ONNX Runtime does not take from Python."""
    values = [v for v in op.operands if not isinstance(v.owner, ConstantOp)]
    return [v.type for v in (*values, *op.results) if not _crosses(v.type)]


def _fix(match: Match) -> str:
    """Says what a user can do where ONNX Runtime does not take an op."""
    op = cast(Operation, match["op"].op)
    others = _others(op)
    if isinstance(op, ResizeOp) and not others:
        return "give a Resize the sizes of its output in place of scales"
    if type_without_kernel(op):
        return "compute it in a type that it has, such as f32: cast what goes in and comes out"
    if others and others[0].name == TensorType.name and holds_numbers(element_type_of(others[0])):
        return "compute it in a type that numpy has, such as f32: cast what goes in and comes out"
    return "leave it on the host"


def _crosses(type_: Attribute) -> bool:
    """Tells if ONNX Runtime takes values of this type from Python, and gives them back."""
    if not isinstance(type_, TensorType | UnrankedTensorType):
        return False
    element = cast("TensorType", type_).element_type
    dtype = dtype_of(element) if holds_numbers(element) else None
    return dtype is not None and dtype.isbuiltin == 1 and dtype.kind != "c"

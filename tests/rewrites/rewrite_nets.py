"""Builds small modules for the tests of rewrites, and says what a module computes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from byocir.dialects.array import ArrayAttr
from byocir.dialects.context import load_context
from byocir.dialects.dominance import verify_dominance
from byocir.dialects.graph import ClipOp, ConstantOp, DequantizeOp, GraphOp, QuantizeOp
from byocir.dialects.locations import named, names
from byocir.dialects.types import element_of, tensor
from byocir.evaluate.module import evaluate_function

OpT = TypeVar("OpT", bound=Operation)


class Net:
    """A function under construction; every op gets a location of its own, `op0`, `op1`, …"""

    def __init__(self, *inputs: np.ndarray) -> None:
        types = [tensor(element_of(array.dtype), array.shape) for array in inputs]
        self.block = Block(arg_types=types)
        self.arguments = list(self.block.args)
        self._count = 0

    def add(self, op: OpT) -> SSAValue:
        op.location = named(f"op{self._count}")
        self._count += 1
        self.block.add_op(op)
        return op.results[0]

    def constant(self, values: object, dtype: type | np.dtype | None = None) -> SSAValue:
        op = ConstantOp.of(np.array(values, dtype))
        self.block.add_op(op)
        return op.result

    def quantize(
        self, value: SSAValue, scale: object, zero_point: object = 0, axis: int = 1, to=np.int8
    ) -> SSAValue:
        operands = self._grid(scale, zero_point, np.dtype(to))
        return self.add(QuantizeOp.make(value, *operands, axis=axis))

    def dequantize(
        self, value: SSAValue, scale: object, zero_point: object = 0, axis: int = 1, of=np.int8
    ) -> SSAValue:
        operands = self._grid(scale, zero_point, np.dtype(of))
        return self.add(DequantizeOp.make(value, *operands, axis=axis))

    def requantized(self, value: SSAValue, scale: float, zero_point: int = 0) -> SSAValue:
        """The value after quantize and dequantize."""
        return self.dequantize(self.quantize(value, scale, zero_point), scale, zero_point)

    def clip(self, value: SSAValue, low: float | None, high: float | None) -> SSAValue:
        bounds = {"min": low, "max": high}
        given = {k: ArrayAttr.of(np.float32(v)) for k, v in bounds.items() if v is not None}
        return self.add(ClipOp.make(value, **given))

    def _grid(self, scale: object, zero_point: object, element: np.dtype) -> list[SSAValue]:
        scales = np.array(scale, np.float32)
        zero_points = np.broadcast_to(np.array(zero_point, element), scales.shape)
        return [self.constant(scales), self.constant(zero_points)]

    def returning(self, *values: SSAValue) -> ModuleOp:
        """The module of one function that returns these values; the builder is used up."""
        self.block.add_op(func.ReturnOp(*values))
        type_ = FunctionType.from_lists(self.block.arg_types, [value.type for value in values])
        module = ModuleOp([func.FuncOp("main", type_, Region(self.block))])
        module.verify()
        return module


def evaluate(module: ModuleOp, *inputs: np.ndarray) -> list[np.ndarray]:
    """What the module's function returns for these arguments."""
    return evaluate_function(module, "main", inputs)


def run_passes(module: ModuleOp, *passes) -> ModuleOp:
    """A copy of the module after these passes; checks that it verifies."""
    context, copy = load_context(), module.clone()
    for pass_ in passes:
        pass_.apply(context, copy)
        copy.verify()
        verify_dominance(copy)
    return copy


def op_names(module: ModuleOp) -> list[str]:
    """The names of the function's graph ops but constants, in order, without `graph.`."""
    ops = [op.name.removeprefix("graph.") for op in module.walk() if isinstance(op, GraphOp)]
    return [name for name in ops if name != "constant"]


def located(module: ModuleOp) -> set[str]:
    """All names that locations in the module mention."""
    return {name for op in module.walk() for name in names(op.location)}


def assert_same_bits(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
        assert left.tobytes() == right.tobytes()

"""The way from floats between dequantize and quantize to integers, for all passes that take it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from byocir.dialects.graph import FloatHalfEvenAttr, QuantizeOp, RequantizeOp
from byocir.dialects.types import element_type_of
from byocir.rewrites.activation import (
    clip_after,
    only_quantized,
    quantized_bounds,
    relu_before,
    through_activations,
)
from byocir.rewrites.driver import NewOps, Pattern
from byocir.rewrites.grid import Grid, grid_of

ONE = np.ones((), np.float32)


@dataclass(frozen=True)
class Integers:
    """Integers that stand for `value * scale / count`.

    `scale` and `count` (both f32) broadcast to the value. They are kept apart because dividing by
    the count of a pool is exact only after multiplying by the scale, as ONNX does.
    """

    value: SSAValue
    scale: np.ndarray
    count: np.ndarray


ToGrid = Callable[[SSAValue], SSAValue]


class QuantizedChain(Pattern):
    """`quantize(clip(f(dequantize(x), …)))` becomes integers wherever `wide` knows f."""

    roots = (QuantizeOp,)

    @abstractmethod
    def wide(self, value: SSAValue, grid: Grid, new: NewOps) -> tuple[SSAValue, ToGrid] | None:
        """The integers that a float value stands for, computed without floats, and what brings them
        to the grid; or None."""

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        grid = grid_of(op)
        if grid is None or not (grid.per_tensor and grid.symmetric and grid.is_8_bit):
            return None
        activations, start = through_activations(op.input)
        bounds = quantized_bounds(activations, grid)
        if bounds is None or not only_quantized(start, activations):
            return None
        found = self.wide(start, grid, new)
        if found is None:
            return None
        value, to_grid = found
        return [clip_after(to_grid(relu_before(value, bounds, grid, new)), bounds, grid, new)]


class QuantizedToInteger(QuantizedChain):
    """A chain whose integers have a scale, so that one `graph.requantize` brings them back."""

    @abstractmethod
    def integers(self, value: SSAValue, new: NewOps) -> Integers | None:
        """The integers that a float value stands for, computed without floats, or None."""

    def wide(self, value: SSAValue, grid: Grid, new: NewOps) -> tuple[SSAValue, ToGrid] | None:
        found = self.integers(value, new)
        if found is None:
            return None
        return found.value, lambda wide: _requantize(replace(found, value=wide), grid, new)


def _requantize(integers: Integers, grid: Grid, new: NewOps) -> SSAValue:
    if _is_on(integers, grid):
        return integers.value
    scales = (integers.scale, (grid.scale * integers.count).astype(np.float32))
    rounding = FloatHalfEvenAttr()
    operands = [new.constant(scale) for scale in scales]
    op = RequantizeOp.make(integers.value, *operands, rounding=rounding, to=grid.element)
    return new.add(op).result


def _is_on(integers: Integers, grid: Grid) -> bool:
    """Whether the integers are on this grid already."""
    return (
        element_type_of(integers.value.type) == grid.element
        and np.array_equal(integers.scale, grid.scale)
        and bool(np.all(integers.count == 1))
    )

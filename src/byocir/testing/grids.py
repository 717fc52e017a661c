"""Draws what is rare in quantised programs: grids that fit each other, and values
behind ops that keep a shape, whose shape the op that uses them knows better."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from byocir.dialects.types import element_type_of, f32, i8, i32, shape_of, tensor, ui8
from byocir.testing.choose import Choose, pick

QUANTIZE, DEQUANTIZE = "graph.quantize", "graph.dequantize"
KEEP_SHAPE: dict[str, Attribute | None] = {
    DEQUANTIZE: f32,
    QUANTIZE: i8,
    "graph.requantize": None,
    **dict.fromkeys(f"graph.{name}" for name in ("abs", "clip", "neg", "relu", "sigmoid", "tanh")),
}
"""Ops whose result has the shape of their first operand, and its element type: None for that of the
operand, or for that which an attribute `to` names."""
SCALES = (1.0, 1.0, 0.5, 0.25)
"""Powers of two: their products are often among them, and exact."""


def operand_type(
    choose: Choose, name: str, result: TensorType, wanted: Attribute | None
) -> TensorType:
    """Gives the type of the first operand of such an op for its result; `wanted` is an element type
    that the pattern asks for."""
    shape, element = shape_of(result), element_type_of(result)
    if name == DEQUANTIZE:  # biases are vectors of wide integers
        element = pick(choose, (i32, i32, i8) if len(shape) == 1 else (i8, i8, i8, ui8, i32))
    if name == QUANTIZE:
        element = f32
    return tensor(wanted or element, shape)


def numbers_on_grid(choose: Choose, name: str, index: int, type_: TensorType) -> np.ndarray | None:
    """Gives a scale (operand 1) or zero point (operand 2) as quantisers choose them, most of the
    time; None for other operands, and for any numbers."""
    if name not in (QUANTIZE, DEQUANTIZE) or index == 0 or not choose(0, 7):
        return None
    shape, rng = shape_of(type_), np.random.default_rng(choose(0, 99))
    if index == 1:
        one = choose(0, 1) == 0
        return np.full(shape, pick(choose, SCALES)) if one else rng.choice(SCALES, shape)
    return np.zeros(shape) if choose(0, 3) else rng.integers(1, 4, shape)

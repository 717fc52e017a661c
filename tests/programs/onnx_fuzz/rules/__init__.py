"""Rules for what schemas cannot say of operators: how shapes fit, and the values that make
sense."""

from onnx_fuzz.rules import (
    control,
    elementwise,
    indices,
    learned,
    matrices,
    microsoft,
    movement,
    quantised,
    recurrent,
    reductions,
    sampling,
    sequences,
    signals,
    text,
    windows,
)
from onnx_fuzz.rules.registry import RULES

__all__ = [
    "RULES",
    "control",
    "elementwise",
    "indices",
    "learned",
    "matrices",
    "microsoft",
    "movement",
    "quantised",
    "recurrent",
    "reductions",
    "sampling",
    "sequences",
    "signals",
    "text",
    "windows",
]

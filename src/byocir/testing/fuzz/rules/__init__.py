"""Rules for what schemas cannot say of operators: how shapes fit, and the values that make
sense."""

from byocir.testing.fuzz.rules import (
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
from byocir.testing.fuzz.rules.registry import RULES

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

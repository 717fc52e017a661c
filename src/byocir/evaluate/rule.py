"""The form of a numpy rule for a graph op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rule = Callable[[Any, Sequence[np.ndarray]], np.ndarray | Sequence[np.ndarray]]
"""Computes the results of an op, or its only one, from its operands."""

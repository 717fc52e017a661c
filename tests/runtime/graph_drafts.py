"""A random ONNX graph as it grows: values, weights, and nodes to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

MOST, LARGEST = 400, 1e3
"""Elements of a value, and how large they may be."""


@dataclass
class Value:
    """A tensor of a graph; `exact` if all must agree on its bits."""

    name: str
    array: np.ndarray
    exact: bool


@dataclass
class Graph:
    """A graph as it grows; names begin with `prefix`."""

    rng: np.random.Generator
    prefix: str
    inputs: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def one(self, options: Sequence[Any]) -> Any:
        return options[self.rng.integers(len(options))]

    def upto(self, most: int, least: int = 1) -> int:
        return int(self.rng.integers(least, most + 1))

    def weight(self, array: np.ndarray) -> str:
        name = f"{self.prefix}w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def floats(self, *shape: int, spread: float = 1) -> str:
        return self.weight(self.rng.normal(0, spread, shape).astype(np.float32))

    def ints(self, values: Sequence[int]) -> str:
        return self.weight(np.array(values, np.int64))

    def value(self, *, dtypes: str = "", rank: int | None = None, exact: bool = False) -> Value:
        """One of the values; raises Unfit if none is as asked."""
        fits = [
            value
            for value in self.values
            if (not dtypes or value.array.dtype.kind in dtypes)
            and (rank is None or value.array.ndim == rank)
            and (value.exact or not exact)
        ]
        if not fits:
            raise Unfit
        return fits[max(self.rng.integers(len(fits)), self.rng.integers(len(fits)))]


class Unfit(Exception):
    """A draw that came to nothing."""


@dataclass
class Draft:
    """A node to try: operands, attributes, and whether exact operands give exact results."""

    op: str
    operands: list[Value | str]
    attributes: dict[str, Any] = field(default_factory=dict)
    exact: bool = False
    outputs: int = 1


Family = Callable[[Graph], Draft]

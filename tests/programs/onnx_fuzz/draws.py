"""Random choices for graphs: shapes, element types and values, all from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar, cast

import ml_dtypes
import numpy as np

T = TypeVar("T")

SIZES = (1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 8, 9, 16, 17, 33)
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5)
MOST = 600
"""Elements of a value at most."""

WEIGHTS = {
    "float32": 10,
    "float16": 3,
    "float64": 2,
    "bfloat16": 1,
    "int64": 2,
    "int32": 3,
    "int16": 1,
    "int8": 2,
    "uint8": 2,
    "uint16": 1,
    "uint32": 1,
    "uint64": 1,
    "bool": 2,
    "object": 1,
}
"""Weighs dtypes where all are allowed."""

STRINGS = ("", "a", "b", "ab c", "ü", "A,b", "x" * 20)
SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


class Unfit(Exception):
    """A draw that came to nothing."""


class Draws:
    """Choices from a seed. `special` has floats be NaN and infinite, too, `empty` sizes be 0."""

    def __init__(self, seed: int, *, special: bool = False, empty: bool = False) -> None:
        self.random = Random(seed)
        self.rng = np.random.default_rng(seed)
        self.special, self.empty = special, empty

    def upto(self, most: int, least: int = 1) -> int:
        return self.random.randint(least, max(most, least))

    def one(self, options: Sequence[T]) -> T:
        return options[self.random.randrange(len(options))]

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def dtype(self, allowed: Sequence[np.dtype]) -> np.dtype:
        weights = [WEIGHTS.get(dtype.name, 0.2) for dtype in allowed]
        return self.random.choices(list(allowed), weights)[0]

    def size(self) -> int:
        return 0 if self.empty and self.chance(0.3) else self.one(SIZES)

    def shape(self, least: int = 0, most: int = 5, elements: int = MOST) -> tuple[int, ...]:
        """Gives a shape of a rank between two, with so many elements at most."""
        rank = self.one([rank for rank in RANKS if least <= rank <= most] or [least])
        shape: list[int] = []
        for _ in range(rank):
            size, held = self.size(), int(np.prod([max(n, 1) for n in shape]))
            shape.append(size if size * held <= elements else 1)
        self.random.shuffle(shape)
        return tuple(shape)

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Gives a shape that broadcasts to this one."""
        kept = list(shape)[self.one([0, 0, 0, self.upto(len(shape), 0)]) :]
        if self.chance(0.5):
            return tuple(kept)
        return tuple(1 if self.chance(0.4) else size for size in kept)

    def array(
        self,
        dtype: np.dtype,
        shape: Sequence[int],
        low: float | None = None,
        high: float | None = None,
    ) -> np.ndarray:
        """Gives values of a dtype; between two bounds, both included for integers, if they are
        given.
        """
        shape = tuple(shape)
        if dtype.kind == "O":
            return np.array(
                [self.one(STRINGS) for _ in range(int(np.prod(shape)))], object
            ).reshape(shape)
        if dtype == np.bool_:
            return self.rng.random(shape) < 0.5
        if dtype.name.startswith(("int", "uint")):
            return self._integers(dtype, shape, low, high)
        if dtype.kind == "c":
            parts = self.rng.normal(size=(2, *shape))
            return np.asarray(parts[0] + 1j * parts[1], dtype)
        return self._floats(dtype, shape, low, high)

    def _integers(self, dtype: np.dtype, shape: Any, low: Any, high: Any) -> np.ndarray:
        least, most = limits_of(dtype)
        if low is None and high is None:
            narrow = max(least, -8), min(most, 8)
            wide = (least, most) if dtype.itemsize == 1 or self.chance(0.2) else narrow
            low, high = self.one([narrow, wide])
        low = least if low is None else max(int(low), least)
        high = most if high is None else min(int(high), most)
        if low > high:
            raise Unfit
        kind = np.int64 if high < 2**63 else np.uint64
        drawn: Any = cast(Any, self.rng).integers(low, high, shape, dtype=kind, endpoint=True)
        return np.asarray(drawn).astype(dtype)

    def _floats(self, dtype: np.dtype, shape: Any, low: Any, high: Any) -> np.ndarray:
        rng: Any = self.rng
        if low is not None or high is not None:
            bounds = -3.0 if low is None else low, 3.0 if high is None else high
            drawn = rng.uniform(*bounds, shape)
        else:
            drawn = self._styled(rng, shape)
        if self.special and low is None:
            chosen = rng.choice(np.array(SPECIALS), shape)
            drawn = cast(Any, np.where)(rng.random(shape) < 0.25, chosen, drawn)
        with np.errstate(all="ignore"):
            return np.asarray(drawn, np.float64).astype(dtype)

    def _styled(self, rng: Any, shape: Any) -> Any:
        """Ties of rounding, numbers above 0, or numbers of both signs."""
        style = self.upto(3, 0)
        if style == 0:
            return rng.integers(-6, 6, shape, endpoint=True) / self.one([1.0, 1.0, 2.0])
        if style == 1:
            return rng.uniform(0.1, 2, shape)
        return rng.normal(size=shape) * self.one([1, 1, 3, 10])


def limits_of(dtype: np.dtype) -> tuple[int, int]:
    """Gives the least and the largest integer of a dtype."""
    info: Any = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)

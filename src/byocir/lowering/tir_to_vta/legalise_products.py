"""Replaces products by shifts and additions, for VTAs whose ALU has no MUL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import LocationAttr

from byocir.dialects.intervals import Interval
from byocir.lowering.tir_to_vta.legalise_lanes import (
    WIDEST_SHIFT,
    Constant,
    Lane,
    Pooled,
    Step,
    step,
)


class NeedsProduct(Exception):
    """Says that a product cannot be made of shifts and additions."""


def is_shifts(factors: np.ndarray) -> bool:
    """Tells if shifts and additions can multiply by these numbers: by one that is not negative, or
    by powers of two.
    """
    first = int(factors.flat[0])
    if bool(np.all(factors == first)):
        return first >= 0
    return bool(np.all((factors > 0) & (factors & (factors - 1) == 0))) and (
        int(factors.max()) <= 1 << WIDEST_SHIFT
    )


def without_products(roots: Sequence[Lane]) -> list[Lane]:
    """Rewrites every product by numbers in these lanes as shifts and additions; raises NeedsProduct
    for other products."""
    made: dict[Lane, Lane] = {}

    def rewritten(lane: Lane) -> Lane:
        if lane not in made:
            made[lane] = _rewritten(lane, rewritten)
        return made[lane]

    return [rewritten(root) for root in roots]


def _rewritten(lane: Lane, rewritten: Callable[[Lane], Lane]) -> Lane:
    if isinstance(lane, Pooled):
        operand = rewritten(lane.operand)
        return lane if operand is lane.operand else replace(lane, operand=operand)
    if not isinstance(lane, Step):
        return lane
    lhs = rewritten(lane.lhs)
    if lane.name != "mul":
        rhs = rewritten(lane.rhs) if isinstance(lane.rhs, Lane) else lane.rhs
        is_same = lhs is lane.lhs and rhs is lane.rhs
        return _in_parts(lane if is_same else replace(lane, lhs=lhs, rhs=rhs))
    if isinstance(lane.rhs, Lane) or not is_shifts(lane.rhs.values):
        raise NeedsProduct
    number = lane.rhs.number
    if number is None:
        distances = Constant(np.log2(lane.rhs.values).astype(np.int64))
        return step("shl", lhs, distances, lane.location, lane.range)
    return _Sum(lhs, lane.rhs.values.ndim, lane.location).times(number, lane.range)


def _in_parts(lane: Step) -> Lane:
    """Shifts as far as a step does at a time."""
    rhs = lane.rhs
    if lane.name not in ("shl", "shr") or not isinstance(rhs, Constant) or rhs.number is None:
        return lane
    if rhs.number <= WIDEST_SHIFT:
        return lane
    distance, rank, lhs = rhs.number, rhs.values.ndim, lane.lhs
    while distance > WIDEST_SHIFT:
        lhs = step(lane.name, lhs, Constant.uniform(WIDEST_SHIFT, rank), lane.location)
        distance -= WIDEST_SHIFT
    return replace(lane, lhs=lhs, rhs=Constant.uniform(distance, rank))


@dataclass
class _Sum:
    """Builds a multiple of `x`, from its highest bit down: (… (x << a) + x) << b …"""

    x: Lane
    rank: int
    location: LocationAttr

    def __post_init__(self) -> None:
        self.value = self.x

    def times(self, factor: int, known: Interval) -> Lane:
        """Makes `x` times a number, whose values lie in a known range."""
        if factor == 0:
            self._apply("max", 0)
            self._apply("min", 0)
            return self.value
        zeros = 0
        for bit in bin(factor)[3:]:
            zeros += 1
            if bit == "1":
                self._shift(zeros)
                self.value = step("add", self.value, self.x, self.location)
                zeros = 0
        self._shift(zeros)
        return self.x if factor == 1 else replace(self.value, range=known)

    def _shift(self, distance: int) -> None:
        while distance:
            part = min(distance, WIDEST_SHIFT)
            self._apply("shl", part)
            distance -= part

    def _apply(self, name: str, number: int) -> None:
        rhs = Constant.uniform(number, self.rank)
        self.value = step(name, self.value, rhs, self.location)

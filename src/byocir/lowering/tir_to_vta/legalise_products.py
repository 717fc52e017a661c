"""Products as shifts and additions, for VTAs whose ALU has no MUL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from byocir.lowering.tir_to_vta.legalise_lanes import Constant, Lane, Step, step
from byocir.lowering.tir_to_vta.legalise_requantise import WIDEST_SHIFT


class NeedsProduct(Exception):
    """A product that shifts and additions do not make."""


def is_shifts(factors: np.ndarray) -> bool:
    """Tells if shifts and additions multiply by these numbers: by one that is not negative, or by
    powers of two."""
    first = int(factors.flat[0])
    if bool(np.all(factors == first)):
        return first >= 0
    return bool(np.all((factors > 0) & (factors & (factors - 1) == 0))) and (
        int(factors.max()) <= 1 << WIDEST_SHIFT
    )


def without_products(roots: Sequence[Lane]) -> list[Lane]:
    """These lanes with every product by numbers as shifts and additions; raises NeedsProduct for
    other products."""
    made: dict[Lane, Lane] = {}

    def rewritten(lane: Lane) -> Lane:
        if lane not in made:
            made[lane] = _rewritten(lane, rewritten)
        return made[lane]

    return [rewritten(root) for root in roots]


def _rewritten(lane: Lane, rewritten: Callable[[Lane], Lane]) -> Lane:
    if not isinstance(lane, Step):
        return lane
    lhs = rewritten(lane.lhs)
    if lane.name != "mul":
        rhs = rewritten(lane.rhs) if isinstance(lane.rhs, Lane) else lane.rhs
        return replace(lane, lhs=lhs, rhs=rhs)
    if isinstance(lane.rhs, Lane) or not is_shifts(lane.rhs.values):
        raise NeedsProduct
    number = lane.rhs.number
    if number is None:
        distances = Constant(np.log2(lane.rhs.values).astype(np.int64))
        return step("shl", lhs, distances, lane.location, lane.range)
    return _times(lhs, number, lane)


def _times(x: Lane, factor: int, product: Step) -> Lane:
    """`x` times a number, from its highest bit down: (… (x << a) + x) << b …"""
    rank, location = product.rhs.values.ndim, product.location  # pyright: ignore[reportAttributeAccessIssue]

    def apply(name: str, value: Lane, number: int) -> Lane:
        return step(name, value, Constant.uniform(number, rank), location)

    if factor == 0:
        return apply("min", apply("max", x, 0), 0)
    value, zeros = x, 0
    for bit in bin(factor)[3:]:
        zeros += 1
        if bit == "1":
            value = step("add", _shifted(value, zeros, apply), x, location)
            zeros = 0
    made = _shifted(value, zeros, apply)
    return replace(made, range=product.range) if made is not x else x


def _shifted(value: Lane, distance: int, apply: Callable[[str, Lane, int], Lane]) -> Lane:
    while distance:
        part = min(distance, WIDEST_SHIFT)
        value, distance = apply("shl", value, part), distance - part
    return value

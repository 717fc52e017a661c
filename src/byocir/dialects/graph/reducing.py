"""Makes blocks that reduce along some axes, for definitions of ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import inf

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir.emit import Emitter, Index, Read, ScalarBody, Space
from byocir.dialects.tir.scalar import Emitted, Number
from byocir.dialects.types import Shape, is_float, is_unsigned, width_of

Step = Callable[[Emitted, Emitted], Emitted]
"""A new accumulator from an element and the one so far."""


def along(shape: Shape, axes: Sequence[int]) -> tuple[Space, Index]:
    """Gives the iteration space of an array with these axes as reductions, and the index of each
    element.
    """
    kept = {f"i{axis}": size for axis, size in enumerate(shape) if axis not in axes}
    space = Space(kept, {f"r{axis}": shape[axis] for axis in axes})
    names = [f"r{axis}" if axis in axes else f"i{axis}" for axis in range(len(shape))]
    return space, [space[name] for name in names]


def others(rank: int, axes: Sequence[int]) -> Index:
    """Gives the index at which a block over the whole array reads what was reduced along these
    axes: [i, j, k] with axis 1 reduced → [i, k]."""
    return [AffineExpr.dimension(i) for i in range(rank) if i not in axes]


def reduced(
    emit: Emitter,
    reads: Sequence[SSAValue | Read],
    shape: Shape,
    axes: Sequence[int],
    initial: Number,
    element: Attribute,
    body: ScalarBody,
) -> SSAValue:
    """Emits a block that combines all elements along axes of `shape` by `body`, starting from
    `initial`; the result lacks these axes. Values without an index are read at the element's own.
    """
    space, index = along(shape, axes)
    rest = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    at = [read if isinstance(read, Read) else Read(read, index) for read in reads]
    return emit.block(space, at, emit.fill(initial, element, rest), body)


def lowest(element: Attribute) -> Number:
    """Gives the number below all others of a type."""
    if is_float(element):
        return -math.inf
    return 0 if is_unsigned(element) else -(2 ** (width_of(element) - 1))


def greatest(element: Attribute) -> Number:
    """Gives the number above all others of a type."""
    if is_float(element):
        return inf
    return 2 ** (width_of(element) - (0 if is_unsigned(element) else 1)) - 1


def extreme(name: str, element: Attribute) -> tuple[Number, Step]:
    """Gives the start and the step of a search for the greatest or the least element."""

    def step(x: Emitted, acc: Emitted) -> Emitted:
        if is_unsigned(element):
            return x.compare("gt" if name == "max" else "lt", acc).select(x, acc)
        return acc.binary(name, x)

    return (lowest if name == "max" else greatest)(element), step

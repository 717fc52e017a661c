"""Says how graph ops hand on sizes that only a run tells and of which the largest is known.

An array of such sizes lies at the start of one of the largest shape, which an op computes as a
whole. `GraphOp.open_dims` says how large its results are in a run, `GraphOp.masks` which operands
must have a certain number beside their arrays: a sum takes zeros there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from byocir.dialects.tir.scalar import Number


class OpenSize:
    """Stands for a size that only a run tells. Two are the same number if they are the same
    object."""

    bound: int
    """The largest that it can be."""

    @abstractmethod
    def number(self) -> SSAValue:
        """Gives the size as an array [1] of i64."""


Dim = int | OpenSize
Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Mask:
    """Demands that an operand is `number` beside the array, along these axes. The routine, where
    one is named, checks the sizes before.
    """

    operand: int
    axes: Sequence[int]
    number: Number = 0
    routine: str | None = None


def is_open(dims: Sequence[Dim]) -> bool:
    """Tells if one of these sizes is told by a run only."""
    return any(isinstance(dim, OpenSize) for dim in dims)


def broadcast_dims(*shapes: Dims) -> Dims | None:
    """Gives the sizes that these broadcast to; None where two of them, neither of which is 1, may
    differ in a run.
    """
    joined: list[Dim] = []
    for axis in range(-max(map(len, shapes)), 0):
        along = {dims[axis] for dims in shapes if len(dims) >= -axis} - {1}
        if len(along) > 1:
            return None
        joined.append(along.pop() if along else 1)
    return tuple(joined)


def without(dims: Dims, axes: Sequence[int], keep: int) -> Dims:
    """Gives the sizes after a reduction along these axes, which stay with size 1 if `keep` is 1:
    [a, b, c] without axis 1 → [a, c] or [a, 1, c].
    """
    return tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)

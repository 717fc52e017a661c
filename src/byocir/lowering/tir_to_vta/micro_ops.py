"""Turns iteration spaces into GEMM and ALU instructions: two hardware loops around a list of
micro-ops.

An instruction adds `i * outer + j * inner` to the indices of its micro-ops, for each operand. So of
the iterators of a block two become loops and the product of the others is spelled out as micro-ops.
The order of points does not matter: GEMM, and the ALU's sums and extrema, are commutative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim import Memory, VTAConfig
from byocir.vta_sim.isa import encode_uops

Offsets = tuple[int, int, int]
"""Indices, or steps of indices, of dst (ACC), src (INP or ACC) and wgt (WGT)."""

HAZARD_COST = 128
"""The micro-ops that may be spent so that no accumulator is used again within three
consecutive micro-ops: upstream's runtime refuses such kernels, since the pipelined hardware would
read the accumulator before it is written. This simulator runs them right."""


@dataclass(frozen=True)
class Axis:
    """Describes an iterator: its extent, and how much one step adds to each operand's index."""

    extent: int
    steps: Offsets


@dataclass(frozen=True, eq=False)
class MicroOpNest:
    """Describes one instruction, with indices relative to the operands' addresses: its loops
    [outer, inner], and micro-ops int64 [n, 3].
    """

    outer: Axis
    inner: Axis
    micro_ops: NDArray[np.int64]


UNIT = Axis(1, (0, 0, 0))


@lru_cache(maxsize=4096)
def nests(
    axes: tuple[Axis, ...], start: Offsets, config: VTAConfig, *, gemm: bool
) -> tuple[MicroOpNest, ...]:
    """Makes the instructions for all points of `axes`, the first of which is at `start`.

    One, unless its micro-ops would not fit the UOP memory. `gemm` tells whether src is INP.
    """
    flipped, shift = _upwards(axes)
    fused = _fuse(flipped)
    best = min(
        (_candidate(fused, chosen) for chosen in _choices(fused, config, gemm)),
        key=lambda nest: len(nest.micro_ops) + HAZARD_COST * _has_hazard(nest),
    )
    micro_ops = best.micro_ops + np.array(start) + np.array(shift)
    depth = config.depth(Memory.UOP)
    return tuple(
        replace(best, micro_ops=micro_ops[start : start + depth])
        for start in range(0, len(micro_ops), depth)
    )


@lru_cache(maxsize=4096)
def kernel_of(nest: MicroOpNest, bases: Offsets, config: VTAConfig) -> NDArray[np.uint32]:
    """Encodes the micro-ops of a nest whose operands are at these addresses."""
    dst, src, wgt = (nest.micro_ops + np.array(bases)).T
    return encode_uops(dst, src, wgt, config)


def _upwards(axes: Sequence[Axis]) -> tuple[list[Axis], Offsets]:
    """Turns around axes that step downwards, and gives where all then start; an axis that steps in
    both directions stays.
    """
    result: list[Axis] = []
    start = [0, 0, 0]
    for axis in axes:
        if axis.extent == 1:
            continue
        if max(axis.steps) <= 0:
            start = [
                s + (axis.extent - 1) * step for s, step in zip(start, axis.steps, strict=True)
            ]
            axis = Axis(axis.extent, _scaled(axis.steps, -1))
        result.append(axis)
    return result, (start[0], start[1], start[2])


def _scaled(steps: Offsets, factor: int) -> Offsets:
    return steps[0] * factor, steps[1] * factor, steps[2] * factor


def _fuse(axes: list[Axis]) -> list[Axis]:
    """Joins axes where one step of the first is as long as the whole second, in every operand."""
    for i, j in permutations(range(len(axes)), 2):
        outer, inner = axes[i], axes[j]
        if outer.steps == _scaled(inner.steps, inner.extent):
            rest = [axis for k, axis in enumerate(axes) if k not in (i, j)]
            return _fuse([*rest, Axis(outer.extent * inner.extent, inner.steps)])
    return axes


def _choices(axes: list[Axis], config: VTAConfig, gemm: bool) -> Iterator[tuple[int, ...]]:
    """Yields the axes that may be the hardware loops, outer first."""
    limits = (
        config.depth(Memory.ACC),
        config.depth(Memory.INP if gemm else Memory.ACC),
        config.depth(Memory.WGT),
    )
    fitting = [
        i
        for i, axis in enumerate(axes)
        if axis.extent < 1 << 14
        and all(0 <= step < limit for step, limit in zip(axis.steps, limits, strict=True))
    ]
    for count in range(min(2, len(fitting)) + 1):
        yield from permutations(fitting, count)


def _candidate(axes: list[Axis], chosen: tuple[int, ...]) -> MicroOpNest:
    loops = [axes[i] for i in chosen]
    outer, inner = [UNIT] * (2 - len(loops)) + loops
    # Innermost what changes the accumulator, so that neighbours use different ones.
    spelled = sorted(
        (axis for i, axis in enumerate(axes) if i not in chosen),
        key=lambda axis: axis.steps[0] != 0,
    )
    micro_ops = np.zeros((1, 3), np.int64)
    for axis in spelled:
        along = np.arange(axis.extent)[:, None] * np.array(axis.steps)
        micro_ops = (micro_ops[:, None] + along).reshape(-1, 3)
    return MicroOpNest(outer, inner, micro_ops)


def _has_hazard(nest: MicroOpNest) -> bool:
    """Tells if an accumulator is used again within three consecutive steps."""
    width = nest.inner.extent
    # From one iteration to the next, inside the inner loop and around its end.
    for iterations in (range(3), range(width - 2, width + 3)):
        dst = np.concatenate(
            [
                nest.micro_ops[:, 0]
                + (k // width) * nest.outer.steps[0]
                + (k % width) * nest.inner.steps[0]
                for k in iterations
                if 0 <= k < nest.outer.extent * width
            ]
        )
        if (dst[1:] == dst[:-1]).any() or (dst[2:] == dst[:-2]).any():
            return True
    return False

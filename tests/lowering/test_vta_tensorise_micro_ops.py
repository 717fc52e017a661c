"""Iteration spaces as loops and micro-ops: every point once, few micro-ops, legal fields."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.lowering.tir_to_vta.micro_ops import Axis, MicroOpNest, Offsets, nests
from byocir.lowering.tir_to_vta.micro_ops_memory import MicroOpMemory
from byocir.vta_sim import DEFAULT_CONFIG, VTAConfig

STEPS = st.tuples(*[st.sampled_from([0, 1, 2, 3, 8, -1, 2047, 2048]) for _ in range(3)])
AXES = st.lists(st.builds(Axis, st.integers(1, 4), STEPS), max_size=5).map(tuple)
STARTS = st.tuples(*[st.integers(0, 5) for _ in range(3)])


def points_of(nest: MicroOpNest) -> Counter[Offsets]:
    loops = itertools.product(range(nest.outer.extent), range(nest.inner.extent))
    return Counter(
        tuple(
            u + i * a + j * b
            for u, a, b in zip(uop, nest.outer.steps, nest.inner.steps, strict=True)
        )
        for i, j in loops
        for uop in nest.micro_ops.tolist()
    )


@given(AXES, STARTS)
def test_every_point_is_visited_once(axes: tuple[Axis, ...], start: Offsets) -> None:
    expected: Counter[Offsets] = Counter()
    for index in itertools.product(*(range(axis.extent) for axis in axes)):
        steps = list(zip(index, axes, strict=True))
        point = (p + sum(i * axis.steps[k] for i, axis in steps) for k, p in enumerate(start))
        expected[tuple(point)] += 1
    found: Counter[Offsets] = Counter()
    for nest in nests(axes, start, DEFAULT_CONFIG, gemm=True):
        found += points_of(nest)
        for axis in (nest.outer, nest.inner):
            dst, src, wgt = axis.steps
            assert 0 <= dst < 2048
            assert 0 <= src < 2048
            assert 0 <= wgt < 1024
    assert found == expected


def test_a_window_becomes_two_loops_and_few_micro_ops() -> None:
    """3x3 convolution of 14 x 14 outputs, 2 blocks of output channels: the rows and columns are the
    loops, and neighbouring micro-ops go to different accumulators as far as there are two."""
    axes = (
        Axis(2, (196, 0, 9)),
        Axis(14, (14, 16, 0)),
        Axis(14, (1, 1, 0)),
        Axis(3, (0, 16, 3)),
        Axis(3, (0, 1, 1)),
    )
    (nest,) = nests(axes, (0, 0, 0), DEFAULT_CONFIG, gemm=True)
    assert len(nest.micro_ops) <= 84
    dst = [d for d, _, _ in points_in_order(nest)]
    assert all(len(set(dst[i : i + 3])) == 3 for i in range(500))


def points_in_order(nest: MicroOpNest) -> list[list[int]]:
    grid = [
        nest.micro_ops + i * np.array(nest.outer.steps) + j * np.array(nest.inner.steps)
        for i in range(nest.outer.extent)
        for j in range(nest.inner.extent)
    ]
    return np.concatenate(grid).tolist()


def test_contiguous_axes_are_one_loop() -> None:
    axes = (Axis(4, (196, 196, 0)), Axis(14, (14, 14, 0)), Axis(14, (1, 1, 0)))
    (nest,) = nests(axes, (0, 0, 0), DEFAULT_CONFIG, gemm=False)
    assert (nest.outer.extent, nest.inner) == (1, Axis(784, (1, 1, 0)))
    assert nest.micro_ops.tolist() == [[0, 0, 0]]


def test_micro_ops_that_do_not_fit_are_more_than_one_instruction() -> None:
    config = VTAConfig(log_uop_buff_size=4)
    axes = (Axis(3, (16, 0, 0)), Axis(3, (0, 16, 0)), Axis(3, (1, 5, 1)), Axis(3, (4, 2, 2)))
    parts = nests(axes, (0, 0, 0), config, gemm=True)
    assert [len(part.micro_ops) for part in parts] == [4, 4, 1]


def test_kernels_are_stored_once_and_loaded_again_after_eviction() -> None:
    memory = MicroOpMemory(VTAConfig(log_uop_buff_size=5))
    kernels = [np.arange(i, i + 3, dtype=np.uint32) for i in range(3)]
    assert [memory.hold(kernels[n]) for n in (0, 1, 0)] == [(0, 0), (3, 1), (0, None)]
    assert [memory.hold(kernels[n]) for n in (2, 1)] == [(0, 2), (3, None)]
    assert memory.hold(kernels[0]) == (3, 0)
    assert memory.offset(2) == 6
    assert memory.table().tolist() == [0, 1, 2, 1, 2, 3, 2, 3, 4]

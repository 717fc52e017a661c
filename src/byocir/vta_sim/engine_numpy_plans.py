"""Plans how to run a GEMM or ALU loop nest in few numpy calls, with the result of the sequential
order.

The reference order is: for i in iter_out, for j in iter_in, for each micro-op
(tvm-vta ``src/sim/sim_driver.cc``). A plan depends on the instruction's loop fields and on the
micro-ops only, not on tensor data, so one plan serves every run of an instruction.

GEMM only adds into ACC, and additions commute modulo 2^32: steps are regrouped into batched matrix
products, one row per accumulator. ALU steps are sorted into segments such that no step needs what
another step of its segment writes; the steps of a segment run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import Memory, VTAConfig

Index = NDArray[np.int64]
Span = Index | slice
# Steps planned at once: bounds the memory of a plan (a few int64 per step).
MAX_STEPS = 1 << 18
# Integers of this size and below are exact in float32, whatever the order of summation.
FLOAT32_EXACT_BITS = 24


@dataclass(frozen=True)
class StepNest:
    """Describes a loop nest: its extents, the (out, in) factors of each operand, and the columns of
    indices that micro-ops have.
    """

    extents: tuple[int, int]
    factors: dict[str, tuple[int, int]]
    uops: dict[str, Index]

    @property
    def steps(self) -> int:
        """Counts the times that micro-ops are executed."""
        return self.extents[0] * self.extents[1] * len(self.uops["dst"])

    def highest(self, operand: str) -> int:
        """Gives the largest index of ``operand`` over all steps; factors are never negative."""
        (out, inner), factors = self.extents, self.factors[operand]
        loops = (out - 1) * factors[0] + (inner - 1) * factors[1]
        return int(self.uops[operand].max()) + loops

    def chunks(self, operands: tuple[str, ...]) -> Iterator[dict[str, Index]]:
        """Yields the index of each operand per step, in order, for about MAX_STEPS steps at a time,
        at most.
        """
        per_chunk = max(1, MAX_STEPS // len(self.uops["dst"]))
        points = self.extents[0] * self.extents[1]
        for start in range(0, points, per_chunk):
            i, j = np.divmod(np.arange(start, min(start + per_chunk, points)), self.extents[1])
            yield {
                name: ((i * f[0] + j * f[1])[:, None] + self.uops[name]).ravel()
                for name, f in self.factors.items()
                if name in operands
            }


@dataclass(frozen=True)
class GemmBlock:
    """Describes a batch of C products of [R, K * block_in] by [K * block_in, block_out], each added
    into R rows of ACC.

    ``dst`` int64 [C, R] rows of ACC, all distinct; ``src`` int64 [C or 1, R, K] rows of INP;
    ``wgt`` int64 [C, K] elements of WGT. A row is one of the BATCH rows of an element. K is small
    enough for the product to be exact in float32.
    """

    dst: Span
    src: Index
    wgt: Index

    @property
    def flat(self) -> bool:
        """Tells if ``dst`` is a slice that spans the C * R rows."""
        return isinstance(self.dst, slice)

    @property
    def nbytes(self) -> int:
        """Counts the bytes that the index arrays take."""
        dst = 0 if isinstance(self.dst, slice) else self.dst.nbytes
        return dst + self.src.nbytes + self.wgt.nbytes


@dataclass(frozen=True)
class AluSegment:
    """Holds steps that may run at once: their element indices into ACC, where ``src`` is None in
    immediate form.
    """

    dst: Span
    src: Span | None

    @property
    def nbytes(self) -> int:
        """Counts the bytes that the index arrays take."""
        return sum(x.nbytes for x in (self.dst, self.src) if isinstance(x, np.ndarray))


def compact(index: Index) -> Span:
    """Gives a slice when ``index`` (1-D) counts up by one, else ``index``: slices copy nothing."""
    first, count = int(index[0]), len(index)
    if int(index[-1]) - first != count - 1 or not (np.diff(index) == 1).all():
        return index
    return slice(first, first + count)


def plan_reset(nest: StepNest) -> Iterator[Span]:
    """Lists the distinct ACC elements that a GEMM with reset_reg clears."""
    for chunk in nest.chunks(("dst",)):
        yield compact(np.unique(chunk["dst"]))


def plan_gemm(nest: StepNest, config: VTAConfig) -> Iterator[GemmBlock]:
    """Yields batched products that together add what the nest adds."""
    product_bits = (1 << config.log_inp_width) + (1 << config.log_wgt_width) - 2
    longest = (1 << (FLOAT32_EXACT_BITS - product_bits)) // config.block_in
    for chunk in nest.chunks(("dst", "src", "wgt")):
        # ACC indices have at most 11 bits; numpy sorts 16-bit keys by radix.
        order = np.argsort(chunk["dst"].astype(np.uint16), kind="stable")
        dst = chunk["dst"][order]
        starts = np.flatnonzero(np.diff(dst, prepend=-1))
        counts = np.diff(starts, append=len(dst))
        while starts.size:
            taken = np.minimum(counts, longest)
            for k in np.unique(taken).tolist():
                rows = starts[taken == k]
                steps = order[rows[:, None] + np.arange(k)]
                yield from _blocks(dst[rows], chunk["src"][steps], chunk["wgt"][steps], config)
            more = counts > longest
            starts, counts = starts[more] + longest, counts[more] - longest


def _blocks(dst: Index, src: Index, wgt: Index, config: VTAConfig) -> Iterator[GemmBlock]:
    """Batches accumulators whose lists of weights agree; ``src`` and ``wgt`` are [len(dst), K]."""
    if (wgt == wgt[0]).all():
        yield _block(dst[None], src[None], wgt[:1], config)
        return
    member, first = _classes(wgt)
    order = np.argsort(member, kind="stable")
    sizes = np.bincount(member)
    ends = np.cumsum(sizes)
    for size in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == size)
        rows = order[(ends[same] - size)[:, None] + np.arange(size)]
        yield _block(dst[rows], src[rows], wgt[first[same]], config)


def _classes(rows: Index) -> tuple[Index, Index]:
    """Numbers equal rows alike; gives the number of each row, and where each number occurs first:
    [a, b, a] → [0, 1, 0], [0, 1].
    """
    numbers: dict[bytes, int] = {}
    packed: list[bytes] = np.ascontiguousarray(rows).view(f"S{rows.shape[1] * 8}").ravel().tolist()
    member = np.array([numbers.setdefault(row, len(numbers)) for row in packed], np.int64)
    return member, np.unique(member, return_index=True)[1]


def _block(dst: Index, src: Index, wgt: Index, config: VTAConfig) -> GemmBlock:
    """Makes a product from element indices, each of which stands for BATCH rows; keeps one ``src``
    if all C products read the same inputs.
    """
    if (src == src[:1]).all():
        src = src[:1]
    batch = np.arange(config.batch)
    dst_rows = (dst[:, :, None] * config.batch + batch).reshape(len(dst), -1)
    src_rows = (src[:, :, None, :] * config.batch + batch[:, None]).reshape(
        len(src), dst_rows.shape[1], -1
    )
    flat = compact(dst_rows.ravel())
    return GemmBlock(flat if isinstance(flat, slice) else dst_rows, src_rows, wgt)


def plan_alu(nest: StepNest, config: VTAConfig, immediate: bool) -> Iterator[AluSegment]:
    """Yields segments of steps in an order that gives what the steps give one by one."""
    for chunk in nest.chunks(("dst", "src")):
        dst, src = chunk["dst"], chunk["dst" if immediate else "src"]
        levels = _levels(dst, src, config.depth(Memory.ACC))
        order = np.argsort(levels, kind="stable")
        ends = np.cumsum(np.bincount(levels)).tolist()
        for start, end in pairwise([0, *ends]):
            steps = order[start:end]
            yield AluSegment(compact(dst[steps]), None if immediate else compact(src[steps]))


def _levels(dst: Index, src: Index, depth: int) -> Index:
    """Assigns each step to a segment: after the writers of what it reads, and not before readers of
    its dst.

    All reads of a segment come before its writes, so a reader and a later writer may share one.
    """
    repeats = np.bincount(dst, minlength=depth)
    if not repeats[src[src != dst]].any():
        return np.zeros_like(dst) if repeats.max() <= 1 else _occurrence(dst)
    written, read = [-1] * depth, [0] * depth
    levels: list[int] = []
    pairs: list[tuple[int, int]] = np.stack([dst, src], axis=1).tolist()
    for d, s in pairs:
        level = max(written[d] + 1, written[s] + 1, read[d])
        written[d], read[s] = level, max(read[s], level)
        levels.append(level)
    return np.array(levels, np.int64)


def _occurrence(values: Index) -> Index:
    """Counts the equal values before each one: [7, 7, 3, 7] → [0, 1, 0, 2]."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=-1))
    ranks = np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))
    result = np.empty_like(values)
    result[order] = ranks
    return result

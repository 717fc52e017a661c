"""Writes loops of schedules in C: plain, shared by threads, written out, or as lanes."""

from __future__ import annotations

from byocir.dialects.tir import LoopKind
from byocir.lowering.tir_to_c.steps import Repeat
from byocir.lowering.tir_to_c.tree import Block, Declare, For, Node, Nodes, live, printed

MOST_LINES = 2000
"""A loop whose iterations, written out, have more lines than this is left to the compiler."""
MOST_UNROLLED = 65534
"""The most that gcc's pragma takes."""

THREAD = {
    "!thread": (
        "#ifdef _OPENMP\n#include <omp.h>\n#define THREAD omp_get_thread_num()\n"
        "#else\n#define THREAD 0\n#endif\n"
    )
}
"""The number of the thread that runs, as a definition that comes before all others."""


def repeated(step: Repeat, inner: Nodes, condition: str = "") -> Nodes:
    """Writes the loop of a step around what it repeats; a condition may end it early. Each thread
    has memory of its own, by its number in `thread`. A loop that is unrolled has a C block for each
    iteration.
    """
    if step.kind is LoopKind.UNROLL and not condition:
        size = sum(1 for _ in printed(live(inner)))
        if step.extent * size <= MOST_LINES:
            return _written_out(step, inner)
    stop = f"{step.extent} && {condition}" if condition else step.extent
    # Loops that a condition ends have an extent beyond what pointers of 32 bits can tell apart.
    kind = "ptrdiff_t" if step.extent < 2**31 else "int64_t"
    own = [Declare("ptrdiff_t", "thread", "THREAD")] if step.threads > 1 else []
    return [*_pragmas(step), For(step.name, stop, [*own, *inner], kind=kind)]


def _written_out(step: Repeat, inner: Nodes) -> Nodes:
    return [Block([Declare("ptrdiff_t", step.name, str(i)), *inner]) for i in range(step.extent)]


def _pragmas(step: Repeat) -> list[Node]:
    """Writes the pragmas before a loop."""
    if step.threads > 1:
        return [f"OMP(parallel for num_threads({step.threads}) schedule(dynamic))"]
    if step.kind is LoopKind.UNROLL:
        return _for_gcc(f"unroll {min(step.extent, MOST_UNROLLED)}")
    return _for_gcc("ivdep") if step.kind is LoopKind.VECTORIZE else []


def _for_gcc(what: str) -> list[Node]:
    return ["#if defined(__GNUC__) && !defined(__clang__)", f"#pragma GCC {what}", "#endif"]

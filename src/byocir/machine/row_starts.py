"""Tells which calls begin inside a row of a memory: a machine names rows, unless it says more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byocir.dialects.tir import BlockOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.machine.description import Machine
from byocir.machine.instructions import Fit


def steps_along_rows(fit: Fit, block: BlockOp, operand: int) -> Iterator[tuple[int, int, int]]:
    """Yields the iterators that move an operand along the rows of its memory: position, step, and
    the lanes of a row. None where calls may begin inside rows.
    """
    memory = fit.memories[operand]
    if memory.is_main or memory.inside_rows:
        return
    exprs = block.maps.data[operand].data.results
    for expr, lanes in zip(exprs[::-1], memory.row[::-1], strict=False):
        form = linear(expr)
        yield from ((i, step, lanes) for i, step in (form.terms if form is not None else ()))


def calls_inside_rows(
    fit: Fit, block: BlockOp, sizes: Sequence[int], extents: Sequence[int]
) -> str:
    """Says why calls of these sizes, which do a block over these extents, would not all begin with
    a row of each memory if the first does; empty if they do.
    """
    for operand, memory in enumerate(fit.memories):
        for i, step, lanes in steps_along_rows(fit, block, operand):
            if sizes[i] < extents[i] and step * sizes[i] % lanes:
                told = (
                    f"expected calls that begin with rows of {memory.scope}, each of {lanes} lanes"
                )
                return f"{told}, found one every {step * sizes[i]} along {block.names[i]}"
    return ""


def begins_inside_row(machine: Machine, block: BlockOp) -> str:
    """Says which operand of a block begins inside a row of its memory; empty if none does."""
    for value, attr in zip(block.operands, block.maps.data, strict=False):
        index = machine.keys.index(attr)
        if not any(index.starts) or len(index.moves) < len(attr.data.results):
            continue
        memory = machine.memory_of(scope_of(value.type))
        if memory is None or memory.is_main or memory.inside_rows:
            continue
        for start, lanes in zip(index.starts[::-1], memory.row[::-1], strict=False):
            start = max(start, 0)  # what is in front of a buffer are pads
            if start % lanes:
                told = f"expected an operand that begins with a row of {memory.scope}"
                return f"{told}, found one that begins at lane {start % lanes}"
    return ""

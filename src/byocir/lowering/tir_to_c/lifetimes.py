"""Finds the steps from which to which each buffer is needed, and places buffers in the arena."""

from __future__ import annotations

from collections.abc import Sequence

from byocir.lowering.tir_to_c.arena import Arena, Lifetime, plan
from byocir.lowering.tir_to_c.steps import ARENA, Branch, Buffer, Repeat, Step, buffers_of


def arena_of(steps: Sequence[Step]) -> Arena:
    """Gives the arena of a program, in which its buffers get their offsets."""
    spans: dict[Buffer, tuple[int, int]] = {}
    _live(steps, 0, spans)
    arena = plan([Lifetime(b.stride * b.copies, *span) for b, span in spans.items()])
    for buffer, offset in zip(spans, arena.offsets, strict=True):
        buffer.index = offset
    return arena


def _live(steps: Sequence[Step], start: int, spans: dict[Buffer, tuple[int, int]]) -> int:
    """Adds the first and the last step at which each buffer of the arena is touched, counted from
    `start`; gives the count behind the last. What a loop finds must last until its end."""
    for step in steps:
        for buffer in buffers_of(step):
            if buffer.place == ARENA:
                spans[buffer] = (spans.get(buffer, (start, start))[0], start)
        if isinstance(step, Branch):
            start = _live([*step.steps, *step.otherwise], start + 1, spans)
        if isinstance(step, Repeat):
            end = _live(step.steps, start + 1, spans)
            for buffer, (first, last) in spans.items():
                if first <= start < last:
                    spans[buffer] = (first, end)
            start = end
        start += 1
    return start

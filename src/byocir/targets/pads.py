"""Defines tests of the attribute `pads` that patterns of several targets ask for."""

from __future__ import annotations


def around_the_image(pads: tuple[int, ...]) -> bool:
    """around the spatial dimensions alone"""
    begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    return min(pads, default=0) >= 0 and not any((*begins[:2], *ends[:2]))


def of_zeros(pads: tuple[int, ...]) -> bool:
    """of zeros"""
    return not any(pads)

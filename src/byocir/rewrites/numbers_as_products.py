"""Writes numbers as sums of products, so that a unit which adds products to its sums adds numbers,
too: those of a constant input, the same for all numbers, with weights.

A number has two digits to the base of the largest input: the lower one is a weight times 1, the
higher one several weights, together, times that base. With bytes, 300 is 127 * 2 + 1 * 46.
"""

from __future__ import annotations

import numpy as np


def least_count(numbers: np.ndarray, largest: int, most: int) -> int:
    """Counts the products that numbers need at least, where `largest` is the largest input and
    weights lie between `-most` and `most`.
    """
    if _within(numbers, most):
        return 1
    higher, _ = _digits(numbers, largest)
    return 1 + max(-(-int(np.abs(higher).max()) // most), 1)


def input_of_numbers(count: int, largest: int) -> np.ndarray:
    """Gives the constant input of so many products: 1 for the lower digit, and `largest` for all
    others.
    """
    return np.array([*[largest] * (count - 1), 1], np.int64)


def weights_of_numbers(
    numbers: np.ndarray, count: int, largest: int, most: int
) -> np.ndarray | None:
    """Splits numbers into weights, with one more dimension of size `count`, whose products with
    `input_of_numbers` they are; None where one is too large for that.
    """
    if count == 1:
        return numbers[..., None].astype(np.int64) if _within(numbers, most) else None
    higher, lower = _digits(numbers, largest)
    if not _within(higher, most * (count - 1)) or not _within(lower, most):
        return None
    before = np.abs(higher)[..., None] - most * np.arange(count - 1, dtype=np.int64)
    digits = np.sign(higher)[..., None] * before.clip(0, most)
    return np.concatenate([digits, lower[..., None]], axis=-1)


def _digits(numbers: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits numbers into a higher digit and a lower one."""
    numbers = numbers.astype(np.int64)
    higher = np.rint(numbers / largest).astype(np.int64)
    return higher, numbers - largest * higher


def _within(numbers: np.ndarray, most: int) -> bool:
    return bool(-most <= numbers.min() and numbers.max() <= most)

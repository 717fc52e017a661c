"""Computes non-maximum suppression: of boxes that overlap only the best are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def non_max_suppression(arrays: Sequence[np.ndarray], center: int, least: int) -> list[np.ndarray]:
    """Chooses for each class the boxes of the greatest scores that overlap no better one by more
    than a threshold: [batch, class, box].

    Arrays: boxes f32 [batches, boxes, 4], as corners, or if `center` as centers and sizes; scores
    f32 [batches, classes, boxes]; the most boxes of a class, i64; that threshold, a part of what
    both boxes cover, f32; the score that they must exceed, f32, which counts if `least`. NaN is no
    score. The second result is memory that the C function works in, i64 [boxes].
    """
    boxes, scores, most, overlap, score = arrays
    corners = _corners(boxes, bool(center))
    found: list[tuple[int, int, int]] = []
    for batch, of_batch in enumerate(scores):
        for class_, of_class in enumerate(of_batch):
            candidates = of_class > score.item() if least else ~np.isnan(of_class)
            (places,) = np.nonzero(candidates)
            order = places[np.argsort(-of_class[places], kind="stable")]
            kept = _kept(corners[batch], order, int(most.item()), np.float32(overlap.item()))
            found += [(batch, class_, box) for box in kept]
    indices = np.array(found, np.int64).reshape(-1, 3)
    return [indices, np.zeros(scores.shape[-1], np.int64)]


def _kept(
    corners: np.ndarray, order: Sequence[int] | np.ndarray, most: int, overlap: np.float32
) -> list[int]:
    kept: list[int] = []
    for box in order:
        if len(kept) >= most:
            break
        if not np.any(_shared(corners[box], corners[kept]) > overlap):
            kept.append(int(box))
    return kept


def _corners(boxes: np.ndarray, center: bool) -> np.ndarray:
    """Gives the least and the greatest of both coordinates of each box."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if center:
        half = b / np.float32(2)
        return np.concatenate([a - half, a + half], -1)
    return np.concatenate([np.where(a < b, a, b), np.where(a < b, b, a)], -1)


def _shared(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Gives the area that a box shares with each of the others, as a part of what both cover
    together; minus infinity where they share nothing.
    """
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    sizes = high - low
    shared = sizes[:, 0] * sizes[:, 1]
    first, second = _area(box[None]), _area(others)
    both = first + second - shared
    covers = np.all(high > low, -1) & (shared > 0) & (first > 0) & (second > 0) & (both > 0)
    with np.errstate(all="ignore"):
        return np.where(covers, shared / both, np.float32(-np.inf))


def _area(corners: np.ndarray) -> np.ndarray:
    return (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])

"""Computes the routines on arrays whose shape only a run tells, and of which the largest is
known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byocir.dialects.graph.movement import sliced


def non_zero(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Finds the indices of elements other than zero, in order: one row for each dimension."""
    return [np.stack(np.nonzero(arrays[0])).astype(np.int64)]


def compress(arrays: Sequence[np.ndarray], axis: int) -> list[np.ndarray]:
    """Keeps the slices along an axis, or the elements where it is -1, for which a condition
    holds.
    """
    x, holds = arrays
    return [np.compress(holds, x, None if axis < 0 else axis)]


def take(arrays: Sequence[np.ndarray], axis: int) -> list[np.ndarray]:
    """Takes the slices along an axis that indices name: one for each index."""
    x, indices = arrays
    return [np.take(x, inside(indices, x.shape[axis]), axis)]


def squeeze(arrays: Sequence[np.ndarray], dropped: int) -> list[np.ndarray]:
    """Drops the dimensions whose bits are set."""
    sizes = [size for i, size in enumerate(arrays[0].shape) if not dropped >> i & 1]
    return [arrays[0].reshape(sizes)]


def order_of(perm: Sequence[int]) -> int:
    """Encodes a permutation as one number: each dimension takes 4 bits, the first the lowest ones.
    [1, 0] → 0x01.
    """
    return sum(axis << 4 * i for i, axis in enumerate(perm))


def permute(arrays: Sequence[np.ndarray], order: int) -> list[np.ndarray]:
    """Reorders the dimensions of an array."""
    perm = [order >> 4 * i & 15 for i in range(arrays[0].ndim)]
    return [np.ascontiguousarray(arrays[0].transpose(perm))]


def sizes_of(arrays: Sequence[np.ndarray], start: int, end: int) -> list[np.ndarray]:
    """Gives the sizes of the dimensions from a start to before an end."""
    return [np.array(arrays[0].shape[start:end], np.int64)]


def inside(indices: np.ndarray, size: int) -> np.ndarray:
    """Counts negative indices from the end; raises IndexError for one outside."""
    counted = np.where(indices < 0, indices + size, indices)
    if np.any((counted < 0) | (counted >= size)):
        raise IndexError(f"expected indices inside [{-size}, {size}), found one outside")
    return counted


# -- between arrays of open shape and the arrays of static shape that hold them


def unpack(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Places an array at the start of a larger one of another shape, with 0 elsewhere."""
    x, most = arrays
    held = np.zeros([int(size) for size in most], x.dtype)
    held[tuple(slice(size) for size in x.shape)] = x
    return [held]


def pack(arrays: Sequence[np.ndarray], open_: int) -> list[np.ndarray]:
    """Takes the part at the start of an array: along each dimension whose bit is set as many
    elements as are given, along others all.
    """
    held, *sizes = arrays
    given = iter(sizes)
    ends = [
        int(next(given).item()) if open_ >> i & 1 else size for i, size in enumerate(held.shape)
    ]
    return [np.ascontiguousarray(held[tuple(slice(end) for end in ends)])]


def joint_size(arrays: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """Gives the size to which some sizes broadcast."""
    sizes = {int(size.item()) for size in arrays[:count]} - {1}
    if len(sizes) > 1:
        raise ValueError(f"expected sizes that broadcast, found {sorted(sizes)}")
    return [np.array([sizes.pop() if sizes else 1], np.int64)]


def stretch(arrays: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """Gives, for a dimension that is broadcast from one size to another, the source index of each
    element: the same index, or always 0. Beyond both sizes it is any index inside.
    """
    own, joint = (int(size.item()) for size in arrays)
    places = np.arange(count, dtype=np.int64)
    return [places * 0 if own == 1 and joint != 1 else np.clip(places, 0, max(own - 1, 0))]


# -- with sizes that a run tells


def never(_: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Raises ValueError: it stands for an operator that takes no values of these sizes, so that no
    run may get past it.
    """
    raise ValueError("an operator that takes no values of these sizes")


def not_empty(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Checks that a dimension has elements to choose from, and gives its size."""
    if not arrays[0].item():
        raise ValueError("expected elements to choose from, found none")
    return [arrays[0]]


def joined(arrays: Sequence[np.ndarray], axis: int, count: int) -> list[np.ndarray]:
    """Joins arrays along an axis."""
    return [np.concatenate(arrays[:count], axis)]


def part(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Slices an array: the arrays are it, then starts, ends, axes and steps as those of ONNX's
    Slice.
    """
    x, *given = arrays
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(*(a.tolist() for a in given), strict=True):
        if step == 0:
            raise ValueError("expected steps other than 0, found 0")
        places = sliced(start, end, step, x.shape[axis])
        # numpy counts -1, the end of what goes back to the first element, from the back.
        stop = None if places.stop < 0 else places.stop
        cut[axis] = slice(places.start, stop, step) if places else slice(0, 0)
    return [np.ascontiguousarray(x[tuple(cut)])]


def reshaped(arrays: Sequence[np.ndarray], allowzero: int) -> list[np.ndarray]:
    """Reshapes an array to a shape that is written as for ONNX's Reshape."""
    x, shape = arrays
    sizes = [int(size) for size in shape]
    if not allowzero:
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return [x.reshape(sizes)]

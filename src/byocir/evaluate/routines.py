"""Lists the routines that `tir.extern` calls, each in numpy and as a file of C that computes the
same.

A routine is one entry of `ROUTINES`. Its C file is in `runtime/routines/` and defines a function of
its name that takes arrays, results and the integers in the order of `numbers`; see `routine.h`.
Integers and the order in which floats are added must be those of `evaluate`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from byocir.dialects.locations import place
from byocir.dialects.tir import ExternOp
from byocir.errors import ByocirError, did_you_mean
from byocir.evaluate import open_routines as o
from byocir.evaluate.open_routines import inside
from byocir.evaluate.suppression import non_max_suppression

FOLDER = resources.files("byocir") / "runtime" / "routines"
"""The folder of the C files."""


@dataclass(frozen=True)
class Routine:
    """Describes a routine by name, with the names of its integers and its meaning in numpy."""

    name: str
    numbers: tuple[str, ...]
    """The integers that it takes."""
    evaluate: Callable[..., list[np.ndarray]]
    """The results from a list of arrays and the integers. Raises IndexError, or ValueError for
    sizes that do not fit."""

    @property
    def file(self) -> str:
        """Names the C file that defines the routine."""
        return f"{self.name}.c"

    def values(self, op: ExternOp) -> list[int]:
        """Gives the integers of a call in order; raises ByocirError B307 where they are not those
        that the routine takes.
        """
        given = op.values()
        if sorted(given) != sorted(self.numbers):
            raise _wrong(op, f"numbers {', '.join(self.numbers)}", ", ".join(given) or "none")
        return [given[name] for name in self.numbers]


def routine_of(op: ExternOp) -> Routine:
    """Finds the routine that an op calls; raises ByocirError B307 for an unknown name."""
    found = ROUTINES.get(op.routine.data)
    if found is None:
        raise _wrong(op, "a routine", op.routine.data, did_you_mean(op.routine.data, [*ROUTINES]))
    return found


def _wrong(op: ExternOp, expected: str, found: str, help_: str = "") -> ByocirError:
    told = f"expected {expected} of tir.extern, found {found}"
    return ByocirError("B307", told, where=place(op.location), help=help_)


# -- what they compute


def _top_k(arrays: Sequence[np.ndarray], axis: int, k: int, largest: int) -> list[np.ndarray]:
    """Finds the first `k` elements along an axis, the greatest or the least first, and their
    indices; of equal ones the first. NaN is above all.
    """
    x = np.moveaxis(arrays[0], axis, -1)
    keys = x if x.dtype.kind in "iu" else x.astype(np.float64)
    if largest:
        order = np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        order = x.shape[-1] - 1 - order
    else:
        order = np.argsort(keys, axis=-1, kind="stable")
    order = order[..., :k].astype(np.int64)
    values = np.take_along_axis(x, order, -1)
    return [np.ascontiguousarray(np.moveaxis(made, -1, axis)) for made in (values, order)]


_COMBINE: dict[int, np.ufunc] = {1: np.add, 2: np.multiply, 3: np.minimum, 4: np.maximum}
"""Maps the number `how` of a scatter to what combines two elements; 0 replaces, the last update
wins."""


def _scatter(
    x: np.ndarray, places: tuple[np.ndarray, ...], updates: np.ndarray, how: int
) -> list[np.ndarray]:
    result = x.copy()
    if how:
        _COMBINE[how].at(result, places, updates)
    else:
        result[places] = updates
    return [result]


def _scatter_elements(arrays: Sequence[np.ndarray], axis: int, how: int) -> list[np.ndarray]:
    """Puts each update at its own position, but along the axis at its index."""
    x, indices, updates = arrays
    places: list[np.ndarray] = [place.reshape(-1) for place in np.indices(indices.shape)]
    places[axis] = inside(indices, x.shape[axis]).reshape(-1)
    return _scatter(x, tuple(places), updates.reshape(-1), how)


def _scatter_nd(arrays: Sequence[np.ndarray], how: int) -> list[np.ndarray]:
    """Puts each slice of the updates at the position in the last dimension of the indices."""
    x, indices, updates = arrays
    depth = indices.shape[-1]
    flat = indices.reshape(-1, depth)
    places = tuple(inside(flat[:, i], size) for i, size in enumerate(x.shape[:depth]))
    return _scatter(x, places, updates.reshape(len(flat), *x.shape[depth:]), how)


def _remainder(arrays: Sequence[np.ndarray], towards_zero: int) -> list[np.ndarray]:
    """Divides two arrays of floats and gives the rest, which has the sign of the dividend
    (quotients `towards_zero`) or else of the divisor."""
    x, y = arrays
    rest = np.fmod(x, y)
    if towards_zero:
        return [rest]
    return [np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest).astype(x.dtype)]


ROUTINES: dict[str, Routine] = {
    routine.name: routine
    for routine in (
        Routine("compress", ("axis",), o.compress),
        Routine("float_remainder", ("towards_zero",), _remainder),
        Routine("joined", ("axis", "count"), o.joined),
        Routine("joint_size", ("count",), o.joint_size),
        Routine("never", (), o.never),
        Routine("non_max_suppression", ("center", "least"), non_max_suppression),
        Routine("non_zero", (), o.non_zero),
        Routine("not_empty", (), o.not_empty),
        Routine("pack", ("open",), o.pack),
        Routine("part", (), o.part),
        Routine("permute", ("order",), o.permute),
        Routine("reshaped", ("allowzero",), o.reshaped),
        Routine("scatter_elements", ("axis", "how"), _scatter_elements),
        Routine("scatter_nd", ("how",), _scatter_nd),
        Routine("sizes_of", ("start", "end"), o.sizes_of),
        Routine("squeeze", ("dropped",), o.squeeze),
        Routine("stretch", ("count",), o.stretch),
        Routine("take", ("axis",), o.take),
        Routine("top_k", ("axis", "k", "largest"), _top_k),
        Routine("unpack", (), o.unpack),
    )
}
"""The numpy rule of each routine, by its name."""

"""Holds samples for calibration: arrays by input, cut into feeds of the model's own batch.

An input `[batch, 1, 8, 8]` takes an array `[450, 1, 8, 8]`: feeds of up to 32 samples each; with a
fixed batch of 4 it takes feeds of 4, and the last 2 of 450 samples are left out. An input `[16]`
takes an array `[450, 16]`: 450 feeds. All other sizes must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx

from byocir.errors import ByocirError
from byocir.frontend.onnx.tensors import any_dtype

AT_ONCE = 32
"""The samples of one feed where the model takes any number."""


@dataclass(frozen=True)
class Samples:
    """Holds arrays by input, each with its samples along the first axis."""

    arrays: Mapping[str, np.ndarray]
    count: int
    """Samples that are fed."""
    step: int
    """Samples of each feed."""
    single: frozenset[str]
    """The inputs that have no axis for samples: they take one of each array at a time."""

    @staticmethod
    def of(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> Samples:
        """Fits arrays to a model's inputs; raises ByocirError B392 for arrays that do not fit."""
        weights = {each.name for each in model.graph.initializer}
        inputs = [each for each in model.graph.input if each.name not in weights]
        if not inputs:
            raise _unfit("a model with inputs", "one without")
        taken: dict[str, np.ndarray] = {}
        batches: dict[str, int | None] = {}
        for each in inputs:
            if each.name not in arrays:
                raise _unfit(f"an array '{each.name}', as the model's input", ", ".join(arrays))
            taken[each.name] = arrays[each.name]
            batches[each.name] = _batch(each, arrays[each.name])
        fixed = {name: max(batch, 1) for name, batch in batches.items() if batch is not None}
        for what, found in (
            ("as many samples for each input", {n: len(a) for n, a in taken.items()}),
            ("one batch for all inputs", fixed),
        ):
            if len(set(found.values())) > 1:
                raise _unfit(what, ", ".join(f"{name}: {size}" for name, size in found.items()))
        count = len(taken[inputs[0].name])
        step = next(iter(fixed.values()), min(AT_ONCE, max(count, 1)))
        if count < step:
            raise _unfit(f"at least {step} samples", str(count))
        single = frozenset(name for name, batch in batches.items() if batch == 0)
        return Samples(taken, count - count % step if fixed else count, step, single)

    def may_be_labels(self, name: str, array: np.ndarray) -> bool:
        """Tells if an array beside the inputs has a whole number for each sample."""
        is_beside = name not in self.arrays and array.dtype.kind in "iu" and array.ndim == 1
        given = len(next(iter(self.arrays.values())))
        return is_beside and self.count <= len(array) <= given

    def first(self, count: int) -> Samples:
        """Gives the first samples, in whole feeds, at least one."""
        whole = max(count - count % self.step, self.step)
        return replace(self, count=min(self.count, whole))

    def feeds(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the model's feeds, in order."""
        for start in range(0, self.count, self.step):
            part = slice(start, min(start + self.step, self.count))
            yield {
                # with `...` one of several scalars is an array, too
                name: array[start, ...] if name in self.single else array[part]
                for name, array in self.arrays.items()
            }


def _batch(value: onnx.ValueInfoProto, array: np.ndarray) -> int | None:
    """Gives the number of samples that an input takes at once: None for any number, 0 if it has no
    axis for them. Raises ByocirError B392 unless the array is of the input's type and sizes.
    """
    tensor = value.type.tensor_type
    sizes = [dim.dim_value or None for dim in tensor.shape.dim]
    shown = "x".join(str(size or "?") for size in sizes)
    dtype = any_dtype(tensor.elem_type)
    if array.dtype != dtype:
        raise _unfit(f"{dtype} for input '{value.name}'", str(array.dtype))
    for of_one, batch in ((sizes[1:], sizes[0] if sizes else None), (sizes, 0)):
        is_batched = batch != 0 and bool(sizes)
        if len(array.shape) == 1 + len(of_one) and (is_batched or batch == 0):
            pairs = zip(array.shape[1:], of_one, strict=True)
            if all(size is None or size == found for found, size in pairs):
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise _unfit(f"finite numbers for input '{value.name}'", "NaN or infinity")
                return batch
    found = "x".join(map(str, array.shape))
    raise _unfit(f"samples of {shown} for input '{value.name}'", found)


def _unfit(expected: str, found: str) -> ByocirError:
    return ByocirError(
        "B392",
        f"expected {expected}, found {found or 'none'}",
        where="the data for calibration",
        help="an array by the name of each input, its samples along the first axis",
    )

"""Compares a quantised model with the float one by outputs on the same data, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from byocir.errors import ByocirError
from byocir.quantiser.data import Samples
from byocir.targets.ort_session import Session

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Accuracy:
    """Says how close the outputs of one model come to those of another."""

    distance: float
    """The root of the mean square of differences, over the spread (standard deviation) of the
    float model's outputs: that of the output where it is largest."""
    same: float | None
    """The share of samples whose largest output is the same one; None for outputs that are no
    scores, [samples, classes]."""
    right: float | None
    """The share of labels found, where there are labels and scores."""


def outputs_of(
    model: onnx.ModelProto | Path, samples: Samples, tell: Callable[[str], None]
) -> Outputs:
    """Runs a model on all samples; gives each output as one array, with one sample after the other.
    Raises NotComputed.
    """
    session = Session(model)
    parts: list[Sequence[np.ndarray]] = []
    for feeds in samples.feeds():
        done = len(parts) * samples.step
        tell(f"comparing with the float model: {done:,} of {samples.count:,} samples")
        parts.append([np.asarray(each) for each in session.run(feeds)])
    return {name: _joined([part[i] for part in parts]) for i, name in enumerate(session.outputs)}


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Joins an output of all feeds to one array; outputs without axes become its elements."""
    return np.concatenate([np.atleast_1d(part) for part in parts])


def compared(outputs: Outputs, meant: Outputs, labels: np.ndarray | None) -> Accuracy:
    """Compares outputs with those that they should be."""
    distances = [_distance(outputs[name], meant[name]) for name in meant]
    name = next((n for n, each in meant.items() if _are_scores(each)), None)
    if name is None:
        return Accuracy(max(distances), None, None)
    found, wanted = outputs[name].argmax(axis=1), meant[name].argmax(axis=1)
    return Accuracy(
        max(distances),
        float((found == wanted).mean()),
        None if labels is None else float((found == labels).mean()),
    )


def labels_in(
    arrays: Mapping[str, np.ndarray], samples: Samples, wanted: str | None
) -> np.ndarray | None:
    """Finds labels among arrays that are no inputs: those asked for by name, or the only array of
    whole numbers, one for each sample. Raises ByocirError B392 for a name of something else.
    """
    fits = {name: array for name, array in arrays.items() if samples.may_be_labels(name, array)}
    if wanted is None:
        name = next(iter(fits)) if len(fits) == 1 else None
        return None if name is None else fits[name][: samples.count]
    if wanted not in fits:
        raise ByocirError(
            "B392",
            f"expected labels in '{wanted}', a whole number for each sample, found "
            + (f"an array {arrays[wanted].shape}" if wanted in arrays else "no such array"),
            where="the data for calibration",
        )
    return fits[wanted][: samples.count]


def _distance(found: np.ndarray, meant: np.ndarray) -> float:
    difference = found.astype(np.float64) - meant.astype(np.float64)
    spread = float(meant.astype(np.float64).std())
    return float(np.sqrt(np.mean(difference**2))) / (spread or 1.0)


def _are_scores(array: np.ndarray) -> bool:
    return array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind == "f"

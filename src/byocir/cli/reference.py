"""Runs ONNX Runtime as a reference: graph optimisations off, one thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from byocir.dialects.types import DTYPES
from byocir.runtime.golden import ABSOLUTE, RELATIVE, bounds, distance
from byocir.targets.ort_session import Session, reported

NEAR = 20
"""ONNX Runtime may be this part of the outputs' spread away where models round coarsely."""
ROUGH = 1e-6
"""Any float may differ by so much from ONNX Runtime's, whose sigmoid is off by a tenth of that."""


def rounds_coarsely(module: ModuleOp) -> bool:
    """Tells if a model has numbers of fewer than 32 bits, quantised or of half precision, other
    than truth values.
    """
    values = (result for op in module.walk() for result in op.results)
    elements = {getattr(value.type, "element_type", None) for value in values}
    dtypes = (DTYPES[each] for each in elements if isinstance(each, Attribute) and each in DTYPES)
    return any(dtype.itemsize < 4 and dtype.kind != "b" for dtype in dtypes)


def distances(
    array: np.ndarray, reference: np.ndarray, coarse: bool
) -> tuple[np.ndarray, np.ndarray, str]:
    """Measures how far each element is from ONNX Runtime's and how far it may be, in models that
    round coarsely or do not, and words the latter. Integers of models that do not are exact.
    Quantised integers may be one step apart, however few steps the outputs spread over.
    """
    difference, spread = distance(array, reference)
    if coarse:
        is_quantised = reference.dtype.kind in "iu" and reference.dtype.itemsize < 4
        step = 1.0 if is_quantised else 1e-3
        limit = max(spread / NEAR, step)
        of = f"a {NEAR}th of the outputs' spread" if limit > step or not is_quantised else "a step"
        told = f"limit {limit:.6g}, {of}"
        return difference, np.full(difference.shape, limit), told
    if reference.dtype.kind != "f":
        return difference, np.zeros(difference.shape), "limit 0, as no floats"
    told = f"limit {RELATIVE:g} of each, {ABSOLUTE:g} of the outputs' spread and {ROUGH:g}"
    return difference, bounds(reference, spread, ROUGH), told


def run_onnxruntime(
    model: Path, feeds: Iterable[Mapping[str, np.ndarray]]
) -> Iterator[dict[str, np.ndarray]]:
    """Runs a model with ONNX Runtime, for one feed after the other. Raises ByocirError B118
    when it is not installed, B119 when it cannot run the model."""
    with reported(str(model), "without --verify the model runs without ONNX Runtime"):
        session = Session(model)
        for feed in feeds:
            yield dict(zip(session.outputs, session.run(feed), strict=True))

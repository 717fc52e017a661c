"""Words the error for results of a target's code that are not what a region promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from byocir.errors import ByocirError

Sizes = Sequence[int | str]
"""A shape, with "?" for an open size; ["*"] for any shape."""


def unexpected_results(
    symbol: str, wanted: Sequence[tuple[Sizes, np.dtype]], found: Sequence[Any]
) -> ByocirError:
    """Makes the error B311 for the results of a region."""
    expected = ", ".join(text_of(*each) for each in wanted)
    seen = ", ".join(map(_seen, found)) or "nothing"
    return ByocirError(
        "B311",
        f"expected {expected} from the code of region {symbol}, found {seen}",
        help="the target's runner gives one numpy array for each output of the region",
    )


def _seen(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    array = cast("np.ndarray[Any, Any]", value)
    return text_of(array.shape, array.dtype)


def text_of(shape: Sizes, dtype: np.dtype) -> str:
    """Words shape and type of an array, such as "2x3 of float32"."""
    return f"{'x'.join(map(str, shape)) or 'scalar'} of {dtype}"

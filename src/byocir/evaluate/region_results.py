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
    seen = [_seen(each) for each in found]
    return ByocirError(
        "B311",
        f"expected {', '.join(_text(*each) for each in wanted)} from the code of region {symbol}, "
        f"found {', '.join(seen) or 'nothing'}",
        help="the target's runner gives one numpy array for each output of the region",
    )


def _seen(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    array = cast("np.ndarray[Any, Any]", value)
    return _text(array.shape, array.dtype)


def _text(shape: Sizes, dtype: np.dtype) -> str:
    return f"{'x'.join(map(str, shape)) or 'scalar'} of {dtype}"

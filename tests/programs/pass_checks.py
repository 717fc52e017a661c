"""Passes run one by one, and their results compared."""

from __future__ import annotations

import numpy as np

from byocir.dialects.context import load_context
from byocir.rewrites.pipeline import parse_pipeline, run_passes

PACK = "pack-weights{cpu=x86-64-v3},fold-copies"
EXACT = ",".join(
    [
        "split-phases,fold-copies",
        "fold-pads",
        "assign-layouts",
        "flatten-windows",
        "fuse-blocks",
        PACK,
    ]
)
"""The passes that prepare C code and keep every bit."""

LOOPS = "bufferize,convert-tir-to-scf"
"""Blocks as loops on memory."""


def run_on(module, pipeline):
    """The module after these passes."""
    run_passes(module, load_context(), parse_pipeline(pipeline))
    return module


def same(found, expected, rtol=0):
    """Compares types, shapes and bits; floats, where `rtol` says so, to that share of the
    largest."""
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        if left.dtype.kind == "f" and rtol:
            np.testing.assert_allclose(left, right, rtol=0, atol=rtol * max(1, np.abs(right).max()))
        else:
            np.testing.assert_array_equal(left, right)


def numbers(seed, *shape):
    """Random floats."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)

"""Imports STFT as a convolution: each frequency of a frame is a sum of products with constants."""

from __future__ import annotations

import numpy as np

from byocir.dialects import graph as g
from byocir.dialects.types import element_type_of, f32
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported

LONGEST_FRAME = 2048
"""Up to this many samples in a frame the constants take at most 17 MB (67 MB of a complex signal).
Longer frames stay with what transforms them fast."""


def read_stft(node: NodeReader) -> Value:
    """Reads an STFT of f32 [batch, time, parts] -> [batch, frames, frequencies, 2] whose window and
    step are known. The parts, real or also imaginary, become channels of a convolution over time;
    its output channels are the real parts of all frequencies and then the imaginary ones. A signal
    [batch, time] is real, as in ONNX Runtime. Raises Unsupported.
    """
    signal, is_one_sided = node.operand(0), bool(node.integer("onesided", 1))
    if element_type_of(signal.type) != f32 or node.rank not in (2, 3):
        raise Unsupported(f"expected a signal of f32 [batch, time, parts], found {signal.type}")
    batch, time, parts = (*node.shape(0), 1)[:3]
    if parts != 1 and (parts != 2 or is_one_sided):
        raise Unsupported(f"expected one real part, found {parts} parts")
    step, window = node.known(1), _window(node)
    longest = min(time, LONGEST_FRAME)
    if step is None or step.size != 1 or step.item() < 1 or not 1 <= window.size <= longest:
        raise Unsupported(f"expected a step and frames of 1 to {longest}, found {window.size}")
    channels = node.emit(g.ReshapeOp, signal, shape=[batch, time, parts])
    channels = node.emit(g.TransposeOp, channels, perm=[0, 2, 1])
    weights = _transform(window, parts, is_one_sided)
    spectrum = node.emit(
        g.ConvOp,
        channels,
        node.constant(weights),
        strides=[int(step.item())],
        pads=[0, 0],
        dilations=[1],
        group=1,
    )
    frames, frequencies = 1 + (time - window.size) // int(step.item()), len(weights) // 2
    apart = node.emit(g.ReshapeOp, spectrum, shape=[batch, 2, frequencies, frames])
    return node.emit(g.TransposeOp, apart, perm=[0, 3, 2, 1])


def _window(node: NodeReader) -> np.ndarray:
    """Gives the factors of the samples in a frame: all are 1 where only their number is known."""
    window, length = node.known(2), node.known(3)
    if window is None:
        if length is None:
            raise Unsupported("expected a window or the length of a frame, found neither")
        return np.ones(int(length.item()))
    if length is not None and length.item() != window.size:
        raise Unsupported(f"expected a window of {length.item()}, found {window.size}")
    return window


def _transform(window: np.ndarray, parts: int, is_one_sided: bool) -> np.ndarray:
    """Computes the weights [2 * frequencies, parts, samples] of a discrete Fourier transform: at
    frequency f sample t is multiplied by window[t] * exp(-2 pi i f t / samples)."""
    samples = window.size
    frequencies = samples // 2 + 1 if is_one_sided else samples
    turns = np.outer(np.arange(frequencies), np.arange(samples)) % samples  # exact, then small
    angles = 2 * np.pi / samples * turns
    real, imaginary = np.cos(angles) * window, -np.sin(angles) * window
    weights = np.stack([np.vstack([real, imaginary]), np.vstack([-imaginary, real])], axis=1)
    return weights[:, :parts].astype(np.float32)

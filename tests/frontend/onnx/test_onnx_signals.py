"""STFT as a convolution: random signals against numpy's transform, and what stays foreign."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx_models import Arrays, main_of, make_model, run_byocir

import byocir
from byocir.dialects.graph import ForeignOp
from byocir.frontend.onnx import import_onnx


def spectrum(x: np.ndarray, window: np.ndarray, step: int, is_one_sided: bool) -> np.ndarray:
    """The transform of each frame of `x` [batch, time], in doubles: [batch, frames, bins, 2]."""
    count = 1 + (x.shape[1] - len(window)) // step
    frames = np.stack([x[:, n * step :][:, : len(window)] for n in range(count)], axis=1) * window
    made = np.fft.rfft(frames) if is_one_sided else np.fft.fft(frames)
    return np.stack([made.real, made.imag], axis=-1)


@given(st.data())
def test_spectra_are_those_of_numpy(data: st.DataObject) -> None:
    time = data.draw(st.integers(1, 24))
    frame, step = data.draw(st.integers(1, time)), data.draw(st.integers(1, 5))
    parts, shape = data.draw(st.sampled_from([(1, 3), (1, 2), (2, 3)]))
    is_one_sided = parts == 1 and data.draw(st.booleans())
    has_window = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal((2, time, parts)).astype(np.float32)
    window = rng.random(frame).astype(np.float32) if has_window else np.ones(frame, np.float32)
    weights: Arrays = {"step": np.array(step)}
    weights |= {"window": window} if has_window else {"frame": np.array(frame)}
    names = ["x", "step", *(["window"] if has_window else ["", "frame"])]
    node = helper.make_node("STFT", names, ["y"], onesided=int(is_one_sided))
    x = x if shape == 3 else x[:, :, 0]
    module = import_onnx(make_model([node], {"x": x}, weights, opset=17))
    assert not any(isinstance(op, ForeignOp) for op in main_of(module).walk())
    (found,) = run_byocir(module, {"x": x})
    signal = x[..., 0] if shape == 3 and parts == 1 else x
    signal = signal[..., 0] + 1j * signal[..., 1] if parts == 2 else signal
    np.testing.assert_allclose(found, spectrum(signal, window, step, is_one_sided), atol=2e-5)


def test_a_spectrum_runs_as_c() -> None:
    x = np.linspace(-1, 1, 40, dtype=np.float32).reshape(1, 40)
    weights = {"step": np.array(4), "window": np.hanning(16).astype(np.float32)}
    model = make_model([helper.make_node("STFT", ["x", *weights], ["y"])], {"x": x}, weights)
    (found,) = byocir.compile(model, targets=(), host="c").run({"x": x}).values()
    np.testing.assert_allclose(found, spectrum(x, weights["window"], 4, True), atol=1e-5)


@pytest.mark.parametrize(("dtype", "is_known"), [(np.float64, True), (np.float32, False)])
def test_what_is_no_convolution_of_floats_stays_foreign(dtype: type, is_known: bool) -> None:
    x, window = {"x": np.ones((1, 9, 1), dtype)}, {"window": np.ones(4, dtype)}
    step = {"step": np.array(2)}
    feeds, weights = (x, step | window) if is_known else (x | window, step)
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"])
    module = import_onnx(make_model([node], feeds, weights))
    assert any(isinstance(op, ForeignOp) for op in main_of(module).walk())

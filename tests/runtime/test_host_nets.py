"""Well-known nets as C alone agree with ONNX Runtime; no op is called back.

They are reduced, but for HYPOTHESIS_PROFILE=fuzz, with which they have their full size. Trained
models are those of the extra `models`; tests of absent ones are skipped.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from nets.classic_nets import FULL, NETS, REDUCED, feeds, session

import byocir
from byocir.runtime import c_function, native

IS_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
QUICK = ("-std=c99", "-O0", "-ffp-contract=off", "-lm")
DIGITS = Path("examples/digits/digits_int8.onnx")


def check(model, feeds, atol=0.0):
    """Within 1e-3, and 1e-4 of the spread, of what ONNX Runtime computes."""
    shapes = {name: array.shape for name, array in feeds[0].items()}
    host = "c" if IS_FULL else "c{cpu=generic}"
    package = byocir.compile(model, targets=[], shapes=shapes, host=host)
    assert package.report.host_runs_on == "c", package.report.notes
    reference = session(model if isinstance(model, bytes) else Path(model).read_bytes())
    outputs = []
    for feed in feeds:
        found = package.run(feed)
        for name, expected in zip(found, reference.run(None, feed), strict=True):
            assert found[name].shape == expected.shape
            spread = float(np.ptp(expected))
            tolerance = max(1e-4 * spread, atol)
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=tolerance)
            outputs.append(expected)
    return outputs


def called_back(op):
    raise AssertionError(op.name)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """Nothing may be called back; reduced nets are not worth compiling well."""
    monkeypatch.setattr(native, "rule_of", called_back)
    if not IS_FULL:
        monkeypatch.setattr(c_function, "FLAGS", QUICK)


@pytest.mark.parametrize("name", NETS)
def test_classic_nets(name):
    scale = FULL if IS_FULL else REDUCED
    model = NETS[name](scale)
    outputs = check(model, [feeds(model, seed) for seed in (5, 6)])
    first, second = outputs[0], outputs[len(outputs) // 2]
    assert np.abs(first - second).max() > 0.05 * np.ptp(first)


def test_digits():
    rng = np.random.default_rng(0)
    check(DIGITS, [{"image": rng.random((1, 1, 8, 8)).astype(np.float32)} for _ in range(3)])


VOICE = {"input": (1, 576), "state": (2, 1, 128), "h": (1, 1, 128), "c": (1, 1, 128)}
TRAINED = [
    ("magika", "models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}),
    ("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": (1, 3, 48, 192)}),
    ("rapidocr", "models/PP-OCRv6_det_small.onnx", {"x": (1, 3, 64, 96)}),
    ("rapidocr", "models/PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 96)}),
    ("silero_vad", "data/silero_vad.onnx", VOICE),
    ("silero_vad", "data/silero_vad_op18_ifless.onnx", VOICE),
    ("silero_vad", "data/silero_vad_16k_op15.onnx", VOICE),
    ("silero_vad", "data/silero_vad_16k_sequence.onnx", VOICE),
    ("silero_vad", "data/silero_vad_half.onnx", VOICE),
    ("silero_vad", "data/silero_vad_openvino_16k.onnx", VOICE),
]


@pytest.mark.parametrize(("package", "file", "shapes"), TRAINED, ids=[row[1] for row in TRAINED])
def test_trained_models(package, file, shapes):
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    path, rng, feed = Path(spec.submodule_search_locations[0]) / file, np.random.default_rng(0), {}
    for port in session(path.read_bytes()).get_inputs():
        if port.name == "sr":
            feed["sr"] = np.array(16000)
        elif port.type == "tensor(int32)":
            feed[port.name] = rng.integers(0, 256, shapes[port.name]).astype(np.int32)
        else:
            feed[port.name] = rng.standard_normal(shapes[port.name]).astype(np.float32)
    # The Sigmoid of ONNX Runtime is wrong by up to 1.4e-7 near 0, where some outputs lie.
    check(path, [feed], atol=1e-6)

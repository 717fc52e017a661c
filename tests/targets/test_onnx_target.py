"""Targets whose toolkit reads ONNX: what it is given, when, and what is told where it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import byocir
from byocir import ByocirError
from byocir.patterns import Composite, constant, op, optional_operand, wildcard
from byocir.targets.onnx import OnnxTarget

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits_f32.onnx"
SHAPES = {"image": (1, 1, 8, 8)}
IMAGE = {"image": np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 1, 8, 8)}
CONV = op("graph.conv", wildcard("x"), constant("w"), optional_operand(constant("b")))


@dataclass(frozen=True)
class Toolkit(OnnxTarget):
    """Keeps models backwards, and counts."""

    name, patterns, suffix = "toolkit", (Composite("toolkit.conv", (CONV,)),), "engine"
    built: ClassVar[list[str]] = []
    opened: ClassVar[list[str]] = []

    def build(self, symbol: str, model: bytes) -> bytes:
        self.built.append(symbol)
        onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)
        return model[::-1]

    def open(self, symbol: str, built: bytes) -> Any:
        self.opened.append(symbol)
        engine = ReferenceEvaluator(onnx.load_model_from_string(built[::-1]))

        def run(inputs: Sequence[np.ndarray]) -> Any:
            return engine.run(None, dict(zip(engine.input_names, inputs, strict=True)))

        return run


def test_models_are_built_once_and_opened_when_first_run(tmp_path: Path):
    Toolkit.built.clear()
    Toolkit.opened.clear()
    package = byocir.compile(MODEL, targets=[Toolkit()], shapes=SHAPES)
    regions = [region.symbol for region in package.report.regions]
    assert Toolkit.built == regions
    assert Toolkit.opened == []
    assert list(package.blobs["toolkit"]) == [f"{symbol}.engine" for symbol in regions]
    package.save(tmp_path / "m.bpkg")
    loaded = byocir.load(tmp_path / "m.bpkg", targets=[Toolkit()])
    found = [loaded.run(IMAGE)["logits"] for _ in range(2)]
    assert Toolkit.opened == regions
    assert Toolkit.built == regions
    expected = byocir.compile(MODEL, targets=[], shapes=SHAPES).run(IMAGE)["logits"]
    for each in found:
        np.testing.assert_allclose(each, expected, 1e-4, 1e-4)


class Silent(Toolkit):
    def build(self, symbol: str, model: bytes) -> Any:
        return None


class Closed(OnnxTarget):
    name, patterns = "closed", (Composite("closed.conv", (CONV,)),)


def test_mistakes_are_told():
    with pytest.raises(ByocirError, match=r"B228.*build of target 'toolkit' to give bytes"):
        byocir.compile(MODEL, targets=[Silent()], shapes=SHAPES)
    package = byocir.compile(MODEL, targets=[Closed()], shapes=SHAPES)
    with pytest.raises(ByocirError, match=r"B219.*Closed does not say how its regions run"):
        package.run(IMAGE)


def test_a_package_without_a_regions_model_says_so():
    package = byocir.compile(MODEL, targets=[Toolkit()], shapes=SHAPES)
    package.blobs["toolkit"] = {"other": b""}
    with pytest.raises(ByocirError, match=r"B371.*a model of region toolkit_0, found: none"):
        package.run(IMAGE)

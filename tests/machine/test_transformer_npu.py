"""A described machine for transformers computes what the evaluator does, without hazards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import byocir
from byocir.evaluate.module import evaluate, random_feeds

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "transformer_npu.py")


def expect_equal(model: onnx.ModelProto) -> byocir.Package:
    """Compiles a model, runs it with its checks, and compares: sums are in the same order."""
    module = byocir.import_onnx(model)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    package = byocir.compile(byocir.import_onnx(model), targets=[EXAMPLE], levels=("tensor",))
    for name, found in package.run(feeds, check=True).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-5)
    return package


def model_of(ports: str, nodes: str, numbers: str = "") -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["" : 21]> net '
    return onnx.parser.parse_model(f"{header}{ports} {numbers} {{ {nodes} }}")


@pytest.mark.parametrize("shape", ["20", "2,3,10,7", "1,2,70,150"])
def test_a_softmax_is_vectors_and_their_reductions(shape: str) -> None:
    """A vector longer than a row is reduced in parts, and stays whole in each tile."""
    model = model_of(f"(float[{shape}] x) => (float[{shape}] y)", "y = Softmax (x)")
    package = expect_equal(model)
    (region,) = package.report.regions
    (composite,) = region.composites
    assert composite.pattern == "tnpu.softmax"
    assert "reduce_max, sub, exp, reduce_add, div = blocks()" in composite.schedule


@pytest.mark.parametrize("sizes", [(2, 10, 48), (1, 1, 5), (1, 33, 100)])
def test_a_norm_is_vectors_and_their_reductions(sizes: tuple[int, int, int]) -> None:
    shape, width = ",".join(map(str, sizes)), sizes[-1]
    ports = f"(float[{shape}] x) => (float[{shape}] y)"
    ones, halves = (", ".join([n] * width) for n in ("1.0", "0.5"))
    numbers = f"<float[{width}] g = {{{ones}}}, float[{width}] b = {{{halves}}}>"
    model = model_of(ports, "y = LayerNormalization <axis = -1> (x, g, b)", numbers)
    package = expect_equal(model)
    assert [each.pattern for each in package.report.decisions if each.taken] == ["tnpu.layer_norm"]


def test_attention_stays_on_the_chip() -> None:
    """Scores, their scale, softmax and contexts are one region, whose sums are not stored."""
    ports = "(float[1,2,12,16] q, float[1,2,16,12] k, float[1,2,12,16] v) => (float[1,2,12,16] y)"
    nodes = "s = MatMul (q, k) t = Div (s, root) p = Softmax (t) y = MatMul (p, v)"
    package = expect_equal(model_of(ports, nodes, "<float root = {4.0}>"))
    (region,) = package.report.regions
    taken = Counter(each.pattern for each in region.composites)
    assert taken == {"tnpu.matmul": 2, "tnpu.softmax": 1}
    assert package.report.macs["host"] == 0

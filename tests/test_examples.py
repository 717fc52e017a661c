"""The toy accelerator of the examples: what it takes, and that it computes what it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import byocir
from byocir.evaluate.module import evaluate
from byocir.testing import check_rewrite
from byocir.vendor.user_code import import_file

ROOT = Path(__file__).parents[1]
TOY = str(ROOT / "examples" / "toy_npu.py")
DIGITS = ROOT / "examples" / "digits" / "digits_f32.onnx"


def taken(package: byocir.Package) -> list[str]:
    return [c.pattern for region in package.report.regions for c in region.composites]


def test_the_toy_computes_what_the_evaluator_computes():
    shapes = {"image": (1, 1, 8, 8)}
    package = byocir.compile(DIGITS, targets=TOY, shapes=shapes)
    assert set(taken(package)) == {"npu.conv", "npu.dense", "npu.max_pool"}
    with np.load(DIGITS.parent / "digits_test.npz") as data:
        feeds = {"image": data["image"][:1]}
    expected = evaluate(byocir.import_onnx(DIGITS, shapes=shapes), feeds)
    np.testing.assert_allclose(package.run(feeds)["logits"], expected["logits"], atol=1e-4)


@st.composite
def convolutions(draw: st.DrawFn):
    """A convolution with or without a bias, then a relu, a clip or nothing."""
    sizes = st.integers(1, 3)
    kernel, strides, dilations = ([draw(sizes) for _ in range(2)] for _ in range(3))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    channels, out = draw(st.sampled_from([8, 16])), draw(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    w = rng.standard_normal((out, channels, *kernel)).astype(np.float32)
    b = rng.standard_normal(out).astype(np.float32)
    inputs = ["x", "w", "b"][: draw(st.integers(2, 3))]
    tail = draw(st.sampled_from(["", "Relu", "Clip", "Clip6"]))
    nodes = [
        helper.make_node(
            "Conv", inputs, ["c"], "conv", strides=strides, dilations=dilations, pads=pads
        )
    ]
    bounds = {"Clip": ["low"], "Clip6": ["low", "high"]}.get(tail, [])
    if tail:
        nodes.append(helper.make_node(tail.removesuffix("6"), ["c", *bounds], ["y"], "tail"))
    arrays = {"w": w, "b": b, "low": np.float32(0), "high": np.float32(6)}
    used = [name for name in arrays if name in (*inputs, *bounds)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, channels, 7, 8])],
        [
            helper.make_tensor_value_info(
                nodes[-1].output[0], TensorProto.FLOAT, ["a", "b", "c", "d"]
            )
        ],
        [
            helper.make_tensor(n, TensorProto.FLOAT, np.shape(arrays[n]), np.ravel(arrays[n]))
            for n in used
        ],
    )
    x = rng.standard_normal((2, channels, 7, 8)).astype(np.float32)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return model, x, {"Relu": 2, "Clip": 2}.get(tail, 1)


@given(convolutions())
def test_its_convolution_is_right_and_takes_clip_from_zero_as_relu(case):
    model, x, nodes = case
    package = byocir.compile(model, targets=TOY)
    (composite,) = (c for region in package.report.regions for c in region.composites)
    assert (composite.pattern, len(composite.nodes)) == ("npu.conv", nodes)
    ours = package.run({"x": x})
    theirs = evaluate(byocir.import_onnx(model), {"x": x})
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=1e-4, atol=1e-4)


def test_an_emit_that_fails_is_the_targets_mistake(tmp_path: Path):
    path = tmp_path / "broken.py"
    path.write_text(
        Path(TOY).read_text()
        + "\n    def emit(self, module, symbols):\n        return module.none\n"
    )
    with pytest.raises(byocir.ByocirError, match="target 'npu' failed in emit") as error:
        byocir.compile(DIGITS, targets=str(path), shapes={"image": (1, 1, 8, 8)})
    line = len(path.read_text().splitlines())
    assert (error.value.code, error.value.where) == ("B219", f"{path}:{line}")


def test_the_rewrite_of_the_examples_keeps_the_meaning():
    module = import_file(ROOT / "examples" / "drop_relus.py", "B294")
    check_rewrite(module.drop_relu)

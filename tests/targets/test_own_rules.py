"""Ops of a vendor's own with several operands and results, which a rule in Python evaluates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byocir
from byocir.cli.main import main
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import RULES, evaluates
from byocir.evaluate.module import evaluate
from byocir.testing import conform
from byocir.vendor import registry
from byocir.vendor.user_code import import_file

FILE = str(Path(__file__).parents[1] / "programs" / "magic_npu.py")
NPU = f"{FILE}:MagicNpu"
MAGIC = import_file(Path(FILE), "B217")
TYPES = "(tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)"
TEXT = f"""func.func @main(%x: tensor<2x4xf32>) -> tensor<2xf32> {{
  %0, %1 = magic.rows %x, %x {{gain = 1.0 : f32}} : {TYPES} loc("rows")
  func.return %1 : tensor<2xf32>
}}"""


def model() -> onnx.ModelProto:
    """Products of what is read twice, of which a softmax reads the first and an exponential the
    second result, and products of which the first is read alone."""
    node = helper.make_node
    nodes = [
        node("Tanh", ["x"], ["a"], "tanh"),
        node("Magic", ["x", "a"], ["m", "s"], "magic", domain="com.foo", gain=0.5),
        node("Softmax", ["m"], ["b"], "soft"),
        node("Exp", ["s"], ["sums"], "exp"),
        node("Magic", ["b", "m"], ["y", "unread"], "last", domain="com.foo"),
    ]
    info = helper.make_tensor_value_info
    outputs = [info(name, TensorProto.FLOAT, None) for name in ("y", "sums")]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [2, 4])], outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.foo", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


FEEDS = {"x": np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)}


def check(outputs: dict[str, np.ndarray]) -> None:
    products = FEEDS["x"] * np.tanh(FEEDS["x"]) * 0.5
    powers = np.exp(products)
    np.testing.assert_allclose(outputs["sums"], np.exp(products.sum(1)), rtol=1e-5)
    expected = powers / powers.sum(1, keepdims=True) * products
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-5)


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """Forgets what targets this process knows, as a new one would."""
    with registry.forgetting(afresh=True):
        yield


def test_it_is_checked_saved_loaded_verified_and_bisected(tmp_path: Path):
    path, saved, package = (str(tmp_path / f"m.{end}") for end in ("onnx", "mlir", "bpkg"))
    onnx.save(model(), path)
    assert main(["run", path, "--target", NPU, "--check-each", "--verify"]) == 0
    assert main(["bisect", path, "--target", NPU]) == 0
    assert main(["compile", path, "--target", NPU, "--emit", "graph", "-o", saved]) == 0
    assert main(["compile", path, "--target", NPU, "--golden", "-o", package]) == 0
    assert main(["run", package, "--target", NPU, "--selftest"]) == 0
    with registry.forgetting(afresh=True):
        check(byocir.compile(saved, targets=NPU).run(FEEDS))
        check(byocir.load(package, targets=NPU).run(FEEDS))
    check(evaluate(byocir.import_onnx(model(), targets=NPU), FEEDS))


def test_conform_draws_it_with_results_that_nothing_reads():
    score = conform(NPU, rounds=3)
    assert (score.never, score.wrong) == ([], 0), score.text()


def test_an_op_without_an_example_is_told():
    (told, _) = conform(f"{FILE}:Unshown", rounds=1).text().splitlines()
    assert told.startswith("never reached: magic.plain (no program that it takes was found in ")
    assert told.endswith("; show an example of magic.plain in the docstring of its class)")


def too_few(interpreter: Any, magic: Any):
    return []


def failing(interpreter: Any, magic: Any, arrays: Any):
    return [arrays[2]]


def one(interpreter: Any, magic: Any, arrays: Any):
    return [arrays[0]]


def nothing(interpreter: Any, magic: Any, arrays: Any):
    return None


def wide(interpreter: Any, magic: Any, arrays: Any):
    return [arrays[0], arrays[0].sum(axis=1, dtype=np.float64)]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (too_few, r"B316\]: the rule of magic.rows failed with TypeError: too_few\(\) takes 2 "),
        (failing, r"B316\]: the rule of magic.rows failed with IndexError: list index out of"),
        (one, r"B313\]: expected the rule of magic.rows to give 2 results, found 1"),
        (nothing, r"B313\]: .* to give a list of 2 results, found NoneType"),
        (wide, r"B313\]: .* to give tensor<2xf32>, found 2 of float64"),
    ],
)
def test_mistakes_of_a_rule_are_told_as_its_own(
    rule: Any, told: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(RULES, MAGIC.MagicOp, RULES[MAGIC.MagicOp])
    registry.give_dialect("magic", MAGIC.MagicNpu.dialects[0])
    module = parse_module(TEXT)
    evaluates(MAGIC.MagicOp)(rule)
    with pytest.raises(ByocirError) as caught:
        evaluate(module, {"arg0": FEEDS["x"]})
    assert re.match(rf"error\[{told}", str(caught.value))
    assert re.search(r"test_own_rules.py:\d+", caught.value.where)

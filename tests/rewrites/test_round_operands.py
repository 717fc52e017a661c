"""round-operands and read-rounded: products of halves, with sums of f32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.text import print_module
from byocir.dialects.tir import blocks_in
from byocir.dialects.types import element_type_of
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.host.contraction import multiplies_and_adds
from byocir.rewrites.pipeline import run_passes
from byocir.rewrites.round_operands import HALVES, RoundOperandsPass

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def imported(text: str, **arrays: np.ndarray) -> ModuleOp:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    made = {name: array.astype(np.float32) for name, array in arrays.items()}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in made.items())
    return byocir.import_onnx(model)


def rounded(array: np.ndarray, half: str) -> np.ndarray:
    return array.astype(DTYPES[half]).astype(np.float32)


@settings(max_examples=8 if settings.default.max_examples < 100 else 200, deadline=None)
@given(
    st.sampled_from([*DTYPES]),
    st.integers(1, 5),
    st.sampled_from([1, 3]),
    st.integers(1, 2),
    st.booleans(),
    st.integers(0, 99),
)
def test_contractions_read_halves_and_compute_with_them(
    half: str, channels: int, window: int, stride: int, twice: bool, seed: int
) -> None:
    """Of what is rounded before, the model itself makes the same: a padded convolution, and a
    product of two arrays or, with `twice`, of an array with itself."""
    random, pad = np.random.default_rng(seed), window // 2
    weights = random.normal(0, 1, (channels, 3, window, window)).astype(np.float32)
    text = f"""net (float[1,3,6,6] x, float[6,6] v) => (float[N,C,H,W] y, float[6,6] z) {{
      c = Conv <pads = [{pad},{pad},{pad},{pad}], strides = [{stride},{stride}]> (x, w)
      y = Relu (c)
      z = MatMul (v, {"v" if twice else "u"})
    }}"""
    arrays = {"w": weights} if twice else {"w": weights, "u": random.normal(0, 1, (6, 6))}
    module = imported(text, **arrays)
    feeds = random_feeds(module)
    before = imported(text, **{name: rounded(array, half) for name, array in arrays.items()})
    expected = evaluate(before, {name: rounded(array, half) for name, array in feeds.items()})
    run_passes(module, load_context(), f"round-operands{{to={half}}},fold-constants,clean-up")
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, expected[name])
    run_passes(module, load_context(), "convert-graph-to-tir{bodies=true}")
    lowered = evaluate(module, feeds)
    run_passes(module, load_context(), f"read-rounded{{to={half}}}")
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, lowered[name])
    contractions = [op for op in blocks_in(module) if multiplies_and_adds(op)]
    assert len(contractions) == 2
    types = {element_type_of(each.type) for op in contractions for each in op.ins}
    assert types == {HALVES[half]}


def test_what_is_rounded_stays_so() -> None:
    """A net of halves between casts, and a second round, change nothing."""
    module = imported("net (float[4,4] x) => (float[4,4] y) { y = MatMul (x, x) }")
    run_passes(module, load_context(), [RoundOperandsPass("f16")])
    once = print_module(module)
    run_passes(module, load_context(), [RoundOperandsPass("f16")])
    assert print_module(module) == once


def test_another_type_is_refused() -> None:
    module = imported("net (float[4,4] x) => (float[4,4] y) { y = MatMul (x, x) }")
    for name in ("round-operands", "read-rounded"):
        with pytest.raises(ByocirError, match="expected a type among f16, bf16, found f8") as error:
            run_passes(module, load_context(), f"{name}{{to=f8}}")
        assert error.value.code == "B291"


def targets(*types: str) -> list[byocir.Target]:
    """Targets that say so much of their operands, and take nothing."""
    made: list[byocir.Target] = []
    for number, type_ in enumerate(types):

        class Unit(byocir.Target):
            name = f"unit{number}"
            rounds_operands: Any = type_

        made.append(Unit())
    return made


def test_targets_agree_on_the_type() -> None:
    module = imported("net (float[4,4] x) => (float[4,4] y) { y = MatMul (x, x) }")
    byocir.compile(module.clone(), targets=targets("f16", "", "f16"))
    with pytest.raises(ByocirError, match="found bf16 and f16") as error:
        byocir.compile(module.clone(), targets=targets("f16", "bf16"))
    assert error.value.code == "B215"
    with pytest.raises(ByocirError, match="f16 or bf16, found 'half'") as error:
        byocir.compile(module.clone(), targets=targets("half"))
    assert error.value.code == "B228"

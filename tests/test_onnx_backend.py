"""A sample of onnx's own backend tests; `make onnx-score` runs them all."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from c_compilers import LEVELS, VECTOR
from onnx import helper
from onnx_suite import PASSED, Case, cases, run_case, run_cases

from byocir.errors import ByocirError
from byocir.onnx_backend import Backend

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
EVERY = 29
"""One node case in this many."""
FAILED_IN_C = ("test_linear_attention_delta_expanded",)  # the shape of a Scan's results is unknown
KNOWN = (
    *("test_image_decoder", "test_gradient_of"),  # need Pillow, and automatic gradients
    "test_bernoulli",  # expect one sequence of random numbers
    "test_attention_4d_causal_fp16_expanded",  # expects other roundings of 16 bits
)

X = np.array([[-1, 2]], np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_passes(kind: str) -> None:
    """In the evaluator, and as C for one processor."""
    found = cases_of(kind)
    every = EVERY if kind == "node" else 9
    assert failures(found[::every]) == []
    in_c = [*found[1 :: every + every // 2], *(case for case in found if case.name in FAILED_IN_C)]
    assert failures(in_c, f"c{{cpu={VECTOR}}}") == []


@pytest.mark.slow
@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_pass_as_c(kind: str, cpu: str) -> None:
    assert failures(cases_of(kind), f"c{{cpu={cpu}}}") == []


def cases_of(kind: str) -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the cases overflow, the reference says
        return list(cases(kind))


def failures(given: list[Case], host: str = "reference") -> list[str]:
    """Those of cases that nobody knows of."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = run_cases(given, host)
    failed = [f"{o.case.name}: {o.result}, {o.problem}" for o in outcomes if o.result != PASSED]
    return [text for text in failed if not text.startswith(KNOWN)]


def test_a_wrong_answer_fails() -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        )
    )
    right = Case("relu", "node", model, [([X], [np.maximum(X, 0)])], 1e-3, 1e-7)
    assert run_case(right).result == PASSED
    for expected in (X, np.maximum(X, 0)[0], np.maximum(X, 0).astype(np.float64)):
        assert run_case(Case("relu", "node", model, [([X], [expected])], 1e-3, 1e-7)).result == (
            "wrong"
        )


def test_sequences_are_compared_element_by_element() -> None:
    ports = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2])]
    result = helper.make_tensor_sequence_value_info("y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"])
    graph = helper.make_graph([node], "g", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

    def result_for(expected: list[np.ndarray]) -> str:
        return run_case(Case("s", "node", model, [([X], [expected])], 1e-3, 1e-7)).result

    assert result_for([X, X]) == PASSED
    for wrong in ([X], [X, X + 1], [X, X[0]], [X, X, X]):
        assert result_for(wrong) == "wrong"


def test_corners_of_resized_images_are_those_of_the_standard() -> None:
    image = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 0.6, 0.6], np.float32), "s")
    node = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    ports = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, image.shape)]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1, 1, 2])]
    graph = helper.make_graph([node], "g", ports, outputs, [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (found,) = Backend.run_model(model, [image])
    # The last pixel is at 3 / (4 * 0.6 - 1) of the input.
    np.testing.assert_allclose(found[0, 0, 0], [1, 1 + 3 / 1.4], rtol=1e-6)


def test_run_node_and_run_model() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (total,) = Backend.run_node(node, [X, X], opset_version=14)
    np.testing.assert_array_equal(total, X + X)
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("CUDA")


def test_the_number_of_inputs_is_checked() -> None:
    with pytest.raises(ByocirError, match=r"B310.*expected 2 inputs, found 1"):
        Backend.run_model(_add(), [X])
    (total,) = Backend.run_model(_add(), {"a": X, "b": X})
    np.testing.assert_array_equal(total, X + X)


def _add() -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 2]) for n in "abc"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])], "g", ports[:2], ports[2:]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

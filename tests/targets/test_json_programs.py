"""What is run from JSON is what the evaluator computes, for random nets and for every operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_programs import program_of, same_bits
from mixed_models import input_shape, mixed_models
from onnx_cases import node_cases
from qdq_models import images
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.compiler import generate, partition
from byocir.dialects.context import load_context
from byocir.dialects.graph import ForeignOp
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline
from byocir.targets.json.kernels import GRAPH_OPS

TARGETS = (
    "json",
    "json{ops=conv,relu,add,max_pool}",
    "json{like=vta rounding=half_up}",
    "json{like=vta.conv,vta.add ops=quantize rounding=half_even}",
)


FEW = 8
"""So many cases of an operator are tried."""


def text(target: str) -> str:
    """Names with a dot are quoted on the command line."""
    return target.replace("vta.conv,vta.add", '"vta.conv","vta.add"')


@given(mixed_models(), st.sampled_from(TARGETS))
@settings(max_examples=settings().max_examples // 2)
def test_partitioned_nets_compute_what_the_evaluator_computes(model: onnx.ModelProto, target: str):
    package = byocir.compile(model, targets=text(target))
    reference = byocir.import_onnx(model)
    run_passes(reference, load_context(), meaning_pipeline(reference, text(target)))
    for image in images(input_shape(model)):
        assert same_bits(package.run({"x": image}), evaluate(reference, {"x": image}))
    if package.report.regions:
        program = program_of(package)
        symbols = {region.symbol for region in package.report.regions}
        assert {function["symbol"] for function in program["functions"]} == symbols


def operators() -> Iterator[tuple[str, ModuleOp, dict[str, np.ndarray]]]:
    """For each operator the first of onnx's own cases that can be imported, and its inputs. Those
    are no graph ops of which the first few are not."""
    seen: set[str] = set()
    tried: Counter[str] = Counter()
    for case in node_cases():
        model, values = case.model, case.data_sets[0][0]
        kind, has_lists = model.graph.node[0].op_type, any(isinstance(v, list) for v in values)
        if kind in seen or tried[kind] == FEW or len(model.graph.node) > 1 or has_lists:
            continue
        tried[kind] += 1
        arrays = [as_array(value) for value in values]
        for count in (len(arrays), 1):
            try:
                module = byocir.import_onnx(with_constants(model, arrays, count))
            except byocir.ByocirError:
                continue  # what cannot be imported is the importer's to test
            if any(isinstance(op, ForeignOp) for op in module.walk()):
                continue
            seen.add(kind)
            yield case.name, module, dict(zip(random_feeds(module), arrays, strict=False))
            break


def as_array(value: Any) -> np.ndarray:
    is_proto = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_proto else np.asarray(value)


def with_constants(
    model: onnx.ModelProto, arrays: Sequence[np.ndarray], count: int
) -> onnx.ModelProto:
    """The model with all but its first `count` inputs as constants: axes, shapes and sizes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value, array in list(zip(model.graph.input, arrays, strict=True))[count:]:
        copy.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        copy.graph.input.remove(value)
    return copy


def test_every_operator_runs_from_json_as_it_is_evaluated():
    taken: set[str] = set()
    for name, module, feeds in operators():
        expected = evaluate(module.clone(), feeds)
        package = generate(module, partition(module, "json", levels=["graph"]))
        if not package.report.regions:
            continue  # folded, or nothing but constants
        program = program_of(package)
        assert same_bits(package.run(feeds), expected), name
        steps = [step for f in program["functions"] for c in f["steps"] for step in c["steps"]]
        taken |= {step["op"] for step in steps}
    assert len(taken) > len(GRAPH_OPS) * 0.9, sorted(set(GRAPH_OPS) - taken)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0, 1e-40])
def test_numbers_that_json_has_no_token_for_survive(value: float):
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])
    node = onnx.helper.make_node("LeakyRelu", ["x"], ["y"], name="l", alpha=float(value))
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", [x], [y]),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
    )
    feeds = {"x": np.array([-2, 0, 3], np.float32)}
    package = byocir.compile(model, targets="json")
    assert same_bits(package.run(feeds), evaluate(byocir.import_onnx(model), feeds))
    (function,) = program_of(package)["functions"]
    shown = function["steps"][0]["steps"][0]["attributes"]["alpha"]
    if np.isfinite(value):
        assert np.float32(shown["value"]).tobytes() == np.float32(value).tobytes()
    else:
        assert shown == {"type": "f32", "value": str(value)}

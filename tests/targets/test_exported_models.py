"""Models as ONNX again: they compute what they did, and say what became of each node."""

from __future__ import annotations

import mixed_models
import numpy as np
import onnx
import pytest
import qdq_models
from exported_models import (
    DIGITS,
    IMAGE,
    SHAPES,
    Npu,
    W,
    X,
    assert_close,
    assert_explained,
    assert_same,
    chain,
    node,
    notes,
    port,
    ports,
    run,
    small,
)
from hypothesis import given, settings
from onnx import TensorProto, helper

import byocir
from byocir.evaluate.module import evaluate
from byocir.targets.ort import Ort
from byocir.targets.vta import Vta

# -- numbers


DIGITS_MODELS = ("digits_f32", "digits_int8_per_channel", "digits_u8")


@pytest.mark.parametrize("name", DIGITS_MODELS)
def test_the_digits_models_compute_what_they_did(name: str) -> None:
    original = onnx.load(DIGITS / f"{name}.onnx")
    module = byocir.import_onnx(original, shapes=SHAPES)
    before = str(module)
    expected = run(original, IMAGE)
    assert_same(run(byocir.export_onnx(module), IMAGE), expected)
    assert_same(run(byocir.export_onnx(module, Vta()), IMAGE), expected)
    rewritten = byocir.export_onnx(module, Vta(), rewritten=True)
    assert str(module) == before
    found = byocir.compile(original, targets=Vta(), shapes=SHAPES).run(IMAGE)
    compare = assert_close if "f32" in name else assert_same
    compare(run(rewritten, IMAGE), found)


@given(model=qdq_models.models())
@settings(max_examples=settings.default.max_examples // 10)
def test_random_quantised_layers(model: onnx.ModelProto) -> None:
    check_both_forms(model)


@given(model=mixed_models.mixed_models())
@settings(max_examples=settings.default.max_examples // 10)
def test_random_mixed_nets(model: onnx.ModelProto) -> None:
    check_both_forms(model)


def test_a_change_of_zero_point_is_written_with_it() -> None:
    """From signed to unsigned bytes of one scale, which fixed point does without a shift."""
    grids = [np.array(0.5, np.float32), np.array(0, np.int8), np.array(0, np.uint8)]
    nodes = [
        node("QuantizeLinear", ["x", "scale", "signed"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "signed"], ["d"]),
        node("Concat", ["d", "d"], ["twice"], axis=1),
        node("QuantizeLinear", ["twice", "scale", "unsigned"], ["r"]),
        node("DequantizeLinear", ["r", "scale", "unsigned"], ["y"]),
    ]
    weights = zip(("scale", "signed", "unsigned"), grids, strict=True)
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "g", [port("x", 1, 1)], [port("y", 1, 2)], stored)
    opset = [helper.make_opsetid("", 21)]
    check_both_forms(helper.make_model(graph, opset_imports=opset, ir_version=10))


def check_both_forms(model: onnx.ModelProto) -> None:
    """The model's nodes compute what they did, and the rewritten ones what the evaluator says they
    mean, whatever was handed over at which level."""
    module = byocir.import_onnx(model)
    own, rewritten = (byocir.export_onnx(module, Vta(), rewritten=r) for r in (False, True))
    partitioned = module.clone()
    report = byocir.partition(partitioned, Vta())
    assert_explained(own, report)
    assert_explained(rewritten, report)
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    for image in qdq_models.images(shape):
        feeds = {"x": image}
        assert_same(run(own, feeds), run(model, feeds))
        assert_same(run(rewritten, feeds), evaluate(partitioned, feeds))


def nested() -> onnx.ModelProto:
    """Products in both branches of an If and in a Loop, around an operator without a graph op."""

    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])

    def branch(kind: str) -> onnx.GraphProto:
        nodes = [
            node("MatMul", ["first", "w"], [f"{kind}_m"], f"{kind}_product"),
            node(kind, [f"{kind}_m"], [f"{kind}_y"], f"{kind}_node"),
        ]
        return helper.make_graph(nodes, kind, [], [value(f"{kind}_y")])

    flag = helper.make_tensor_value_info("cond", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            node("MatMul", ["v", "w"], ["v_out"], "loop_product"),
            node("Identity", ["cond"], ["cond_out"]),
        ],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), flag, value("v")],
        [helper.make_tensor_value_info("cond_out", TensorProto.BOOL, []), value("v_out")],
    )
    nodes = [
        node("MatMul", ["x", "w"], ["p"], "product"),
        node("Relu", ["p"], ["first"], "activation"),
        node("If", ["c"], ["b"], "choice", then_branch=branch("Relu"), else_branch=branch("Tan")),
        node("Loop", ["n", "", "b"], ["l"], "loop", body=body),
        node("Compress", ["l", "rows"], ["y"], "compress", axis=0),
    ]
    arrays = {"w": W, "n": np.array(3), "rows": np.array([True, False, True, True])}
    graph = helper.make_graph(
        nodes,
        "nested",
        [value("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("rewritten", [True, False])
@pytest.mark.parametrize("target", [Npu(), Ort(), None])
def test_if_loop_and_an_operator_without_a_graph_op(
    condition: bool, rewritten: bool, target: byocir.Target | None
) -> None:
    feeds = {"x": X, "c": np.array(condition)}
    module = byocir.import_onnx(nested())
    exported = byocir.export_onnx(module, [target] if target else (), rewritten=rewritten)
    assert_close(run(exported, feeds), run(nested(), feeds))
    if target is not None:
        (choice,) = (n for n in exported.graph.node if n.op_type == "If")
        inner = [(n.op_type, notes(n)["target"]) for a in choice.attribute for n in a.g.node]
        whole = isinstance(target, Ort)  # control flow and all, where the other takes products
        taken = {"MatMul": target.name, "Relu": target.name, "Tan": "ort" if whole else "host"}
        assert notes(choice)["target"] == ("ort" if whole else "host")
        assert dict(inner) == taken
        assert len(inner) == 4
        assert notes(exported.graph.node[0])["target"] == target.name


# -- names


def test_inputs_and_outputs_keep_their_names_and_open_sizes() -> None:
    """Also an input that is an output, and outputs whose names are those of nodes."""
    model = small(
        [port("x", "rows", 4), port("unused", 3)],
        [port("x", "rows", 4), port("y", "rows", 4), port("z", "rows", 4)],
        node("MatMul", ["x", "w"], ["z"], "y"),
        node("Relu", ["z"], ["y"], "x"),
    )
    exported = byocir.export_onnx(byocir.import_onnx(model))
    assert [p.name for p in ports(exported)] == ["x", "unused", "x", "y", "z"]
    sizes = exported.graph.input[0].type.tensor_type.shape.dim
    assert [sizes[0].dim_param, sizes[1].dim_value] == ["rows", 4]
    feeds = {"x": X, "unused": np.zeros(3, np.float32)}
    assert_same(run(exported, feeds), run(model, feeds))


def test_calls_of_one_function_have_names_of_their_own() -> None:
    exported = byocir.export_onnx(byocir.import_onnx(chain()), Npu(), rewritten=True)
    assert [n.name for n in exported.graph.node] == ["first", "soft", "second"]
    assert [notes(n).get("region") for n in exported.graph.node] == ["npu_0", None, "npu_0"]
    assert [notes(n)["nodes"] for n in exported.graph.node] == ["first", "soft", "second"]
    assert_same(run(exported, {"x": X}), run(chain(), {"x": X}))


def test_one_region_alone() -> None:
    module = byocir.import_onnx(chain())
    region = byocir.export_onnx(module, Npu(), function="npu_0")
    (only,) = region.graph.node
    assert notes(only)["region"] == "npu_0"
    (found,) = run(region, {region.graph.input[0].name: X}).values()
    np.testing.assert_allclose(found, X @ W, 1e-5, 1e-5)

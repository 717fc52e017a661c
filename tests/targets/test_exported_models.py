"""Models as ONNX again: they compute what they did, and say what became of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import mixed_models
import numpy as np
import onnx
import onnxruntime
import pytest
import qdq_models
from hypothesis import given, settings
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.compiler import generate
from byocir.dialects.byoc import BeginOp, CompositeOp, EndOp, RegionOp
from byocir.dialects.context import load_context
from byocir.dialects.graph import ReluOp
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.patterns import Composite, constant, op, optional, wildcard
from byocir.patterns.targets import attr_of, register
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.explain import explain
from byocir.targets.ort import Ort
from byocir.targets.vta import Vta

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}
IMAGE = {"image": np.random.default_rng(0).normal(0, 1, (1, 1, 8, 8)).astype(np.float32)}
X = np.random.default_rng(1).normal(0, 1, (4, 4)).astype(np.float32)
W = np.random.default_rng(2).normal(0, 1, (4, 4)).astype(np.float32)
node = helper.make_node


def product() -> Composite:
    made = op("graph.matmul", wildcard("x"), constant("w"))
    return Composite("npu.product", (optional(made, lambda y: op("graph.relu", y)),))


@dataclass(frozen=True)
class Npu(byocir.Target):
    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (product(),)


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Checked, then on ONNX Runtime without optimisations. onnx's inference knows no computed
    sizes inside loops, so only the checker's own rules count."""
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found[name], array)


def assert_close(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5)


def notes(entry: onnx.NodeProto | onnx.ModelProto) -> dict[str, str]:
    return {each.key.removeprefix("byocir."): each.value for each in entry.metadata_props}


def ports(model: onnx.ModelProto) -> list[Any]:
    return [*model.graph.input, *model.graph.output]


# -- numbers


@pytest.mark.parametrize("name", ["digits_f32", "digits_int8", "digits_int8_per_channel"])
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
    compare = assert_same if "int8" in name else assert_close
    compare(run(rewritten, IMAGE), found)


@given(model=qdq_models.models())
@settings(max_examples=settings.default.max_examples // 6)
def test_random_quantised_layers(model: onnx.ModelProto) -> None:
    check_both_forms(model)


@given(model=mixed_models.mixed_models())
@settings(max_examples=settings.default.max_examples // 6)
def test_random_mixed_nets(model: onnx.ModelProto) -> None:
    check_both_forms(model)


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


def small(inputs: list[Any], outputs: list[Any], *nodes: onnx.NodeProto) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(W, "w")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def port(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


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


def chain() -> onnx.ModelProto:
    """Two equal products with a host op between them, so they share a function but no region."""
    return small(
        [port("x", 4, 4)],
        [port("y", 4, 4)],
        node("MatMul", ["x", "w"], ["a"], "first"),
        node("Softmax", ["a"], ["b"], "soft"),
        node("MatMul", ["b", "w"], ["y"], "second"),
    )


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


# -- what became of each node


def assert_explained(model: onnx.ModelProto, report: byocir.Report) -> None:
    """Nodes say what the report says of the nodes that they stand for."""
    told = explain(report).splitlines()
    placement, targets = report.placement, {r.symbol: r.target for r in report.regions}
    for entry in model.graph.node:
        about = notes(entry)
        if not about:
            assert entry.op_type == "Identity"  # the copy that names an output
            continue
        nodes = about["nodes"].split(", ")
        for line in about["explain"].splitlines():
            assert line in told
        places = {placement[name] for name in nodes}
        if len(places) == 1 and not set(nodes) & set(report.split):
            (place,) = places
            assert about["target"] == targets.get(place, "host")
            assert about.get("region", "host") == place
    left = {name for n in model.graph.node for name in notes(n).get("nodes", "").split(", ")}
    assert {n for n in placement if placement[n] != "folded"} <= left


def test_a_taken_node_names_composite_level_and_region() -> None:
    exported = byocir.export_onnx(byocir.import_onnx(chain()), Npu())
    assert notes(exported.graph.node[0]) == {
        "nodes": "first",
        "target": "npu",
        "region": "npu_0",
        "composite": "npu.product",
        "level": "graph",
        "explain": "first  MatMul  npu_0 (graph level, npu.product)",
    }
    assert "npu MACs" in notes(exported)["summary"]


def test_a_host_node_names_its_closest_miss() -> None:
    def declined(m: Any) -> Any:
        """There are at least 16 rows."""
        return m["x"].type.shape[0] >= 16, m["x"].type.shape[0]

    wide = Composite("wide.product", (op("graph.matmul", wildcard("x"), constant("w")),))
    wide.rule(declined)

    @dataclass(frozen=True)
    class Wide(byocir.Target):
        name: ClassVar[str] = "wide"
        patterns: ClassVar[tuple[Composite, ...]] = (wide,)

    exported = byocir.export_onnx(byocir.import_onnx(chain()), Wide())
    about = notes(exported.graph.node[0])
    assert (about["target"], "region" in about) == ("host", False)
    miss = about["closest_miss"]
    assert miss.startswith("graph wide.product 1/1 ops matched")
    assert miss.endswith("rule fails: There are at least 16 rows seen 4")


def test_what_is_folded_away_is_listed() -> None:
    model = small(
        [port("x", 4, 4)],
        [port("y", 4, 4)],
        node("Add", ["w", "w"], ["ww"], "sum"),
        node("MatMul", ["x", "ww"], ["y"], "product"),
    )
    exported = byocir.export_onnx(byocir.import_onnx(model), Npu())
    assert notes(exported)["folded"] == "sum"
    assert byocir.export_onnx(byocir.import_onnx(model)).metadata_props == []


# -- stages in between


def with_regions(model: onnx.ModelProto, passes: str) -> ModuleOp:
    module = byocir.import_onnx(model)
    register("npu", Npu)
    set_targets(module, [attr_of(Npu())])
    run_passes(module, load_context(), passes)
    return module


@pytest.mark.parametrize(
    ("passes", "kind"),
    [
        ("match-composites", CompositeOp),
        ("match-composites,assign-targets,merge-regions", RegionOp),
    ],
)
def test_what_is_not_outlined_yet(passes: str, kind: type) -> None:
    module = with_regions(chain(), passes)
    assert any(isinstance(each, kind) for each in module.walk())
    exported = byocir.export_onnx(module)
    assert [n.op_type for n in exported.graph.node] == ["MatMul", "Softmax", "MatMul"]
    assert notes(exported.graph.node[0])["composite"] == "npu.product"
    assert_same(run(exported, {"x": X}), run(chain(), {"x": X}))


def test_markers_are_left_out() -> None:
    module = byocir.import_onnx(
        small([port("x", 4)], [port("y", 4)], node("Relu", ["x"], ["y"], "r"))
    )
    (only,) = (each for each in module.walk() if isinstance(each, ReluOp))
    (x,) = only.operands
    begin = BeginOp.create(
        operands=[x], result_types=[x.type], properties={"target": attr_of(Npu()).target_name}
    )
    end = EndOp.create(
        operands=[only.result], result_types=[x.type], properties=dict(begin.properties)
    )
    block = only.parent
    assert block is not None
    block.insert_op_before(begin, only)
    block.insert_op_after(end, only)
    only.operands[0] = begin.output
    only.result.replace_uses_with_if(end.output, lambda use: use.operation is not end)
    module.verify()
    exported = byocir.export_onnx(module)
    assert [n.op_type for n in exported.graph.node] == ["Relu"]


# -- what has no ONNX form


def error_of(module: ModuleOp, **options: Any) -> ByocirError:
    with pytest.raises(ByocirError) as caught:
        byocir.export_onnx(module, **options)
    return caught.value


def test_a_module_below_the_graph_level_is_refused() -> None:
    module = byocir.import_onnx(chain())
    byocir.partition(module, Npu())
    error = error_of(module)
    assert (error.code, error.where) == ("B109", "soft")
    assert "found tir." in error.message
    assert "before it is lowered" in error.help
    assert len(byocir.export_onnx(module, function="npu_0").graph.node) == 1
    assert "did you mean 'npu_0'" in error_of(module, function="npu0").help


def test_a_region_that_is_code_is_refused() -> None:
    module = byocir.import_onnx(DIGITS / "digits_int8.onnx", shapes=SHAPES)
    report = byocir.partition(module, Vta())
    generate(module, report)
    error = error_of(module, function="vta_0")
    assert (error.code, error.help) == (
        "B302",
        "its code was generated: take the module before that",
    )
    assert error_of(module).code == "B302"


def test_a_region_of_buffers_is_refused() -> None:
    module = byocir.import_onnx(DIGITS / "digits_int8.onnx", shapes=SHAPES)
    byocir.partition(module, Vta())
    (lowering,) = Vta().passes("after-lowering")
    run_passes(module, load_context(), lowering.partition(",vta-tile")[0])
    assert error_of(module).code == "B109"


def test_an_attribute_without_elements_is_a_list():
    """The permutation of a number."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy")
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], "t")], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    exported = byocir.compiler.export_onnx(byocir.import_onnx(model))
    onnx.checker.check_model(exported, full_check=True)
    feeds = {"x": np.array(2.5, np.float32)}
    assert run(exported, feeds)["y"] == 2.5

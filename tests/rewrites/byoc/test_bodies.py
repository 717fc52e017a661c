"""Work in graphs of control flow is handed over like any other."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from body_nets import MAP, detector_head, info, models, quantised_attention
from byoc_graphs import takes, toy
from hypothesis import given, settings
from hypothesis import strategies as st

import byocir
from byocir.compiler import export_onnx, partition
from byocir.dialects import tir
from byocir.dialects.byoc import CallOp
from byocir.dialects.context import load_context
from byocir.dialects.graph import ForeignOp
from byocir.dialects.text import parse_module, print_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.patterns import Composite, block, constant, op, optional, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.rewrites.byoc.verify_regions import verify_regions
from byocir.rewrites.check_each import CheckEach
from byocir.rewrites.pipeline import PassRunner, run_passes
from byocir.runtime.report_text import explain, summary
from byocir.targets.hand_off_passes import meaning_pipeline

CONV = Composite(
    "npu.conv",
    (
        optional(
            op("graph.conv", wildcard("x"), constant("w"), constant("b")),
            lambda value: op("graph.relu", value),
        ),
    ),
)
WHERE = {
    "first": "npu_0",
    "loop/body/inner": "npu_0",
    "loop/body/choose/then_branch/then_conv": "npu_1",
    "loop/body/choose/then_branch/then_r": "npu_1",
    "loop/body/choose/else_branch/else_conv": "npu_0",
    "y": "npu_0",
}


def expected(model: onnx.ModelProto, feeds) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def assert_close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("host", ["reference", "c"])
def test_a_head_with_work_in_a_loop_and_in_branches(host: str, typed: bool):
    model = detector_head(typed=typed)
    package = byocir.compile(model, targets=[toy("npu", CONV)()], host=host)
    assert {n: w for n, w in package.report.placement.items() if w.startswith("npu")} == WHERE
    x = np.random.default_rng(1).normal(size=MAP).astype(np.float32)
    assert_close(package.run({"x": x}).values(), expected(model, {"x": x}))
    assert list(package.report.ran_on) == ["loop/body/positive"][: host == "reference"]


def test_nodes_in_graphs_are_explained_and_their_work_is_counted():
    package = byocir.compile(detector_head(), targets=[toy("npu", CONV)()])
    text = explain(package.report)
    assert "loop/body/inner  Conv  npu_0 (graph level, npu.conv)" in text
    assert "loop/body/positive  Greater  host" in text
    assert "graph.foreign (loop) lies between, first → loop → y" in text
    work = {node.name: node.macs for node in package.report.nodes if node.macs}
    turn = 4 * 4 * 9 * 36
    assert len(work) == 5
    assert all(macs == (3 if "/" in name else 1) * turn for name, macs in work.items())
    assert package.report.per_turn == []
    assert package.report.macs == {"npu": sum(work.values()), "host": 0}


def test_what_was_handed_over_is_back_in_its_place_in_an_exported_model():
    model = detector_head()
    made = export_onnx(byocir.import_onnx(model), [toy("npu", CONV)()], rewritten=True)
    onnx.checker.check_model(made, full_check=True)
    x = np.random.default_rng(2).normal(size=MAP).astype(np.float32)
    assert_close(expected(made, {"x": x}), expected(model, {"x": x}))
    (body,) = (a.g for n in made.graph.node if n.op_type == "Loop" for a in n.attribute)
    (conv,) = (node for node in body.node if node.op_type == "Conv")
    assert conv.name == "loop/body/inner"
    assert {p.key: p.value for p in conv.metadata_props}["byocir.region"] == "npu_0"


def test_a_package_with_calls_in_graphs_reads_back(tmp_path):
    model = detector_head()
    target = toy("npu", CONV)()
    package = byocir.compile(model, targets=[target])
    package.save(tmp_path / "head.byocir")
    x = np.ones(MAP, np.float32)
    again = byocir.load(tmp_path / "head.byocir", targets=[target])
    assert_close(again.run({"x": x}).values(), package.run({"x": x}).values())


@pytest.mark.parametrize(
    ("placement", "placed"),
    [
        ({"loop/body/inner": "host"}, {"loop/body/inner": "host"}),
        ({"loop/.*": "host"}, dict.fromkeys([n for n in WHERE if "/" in n], "host")),
    ],
)
def test_nodes_in_graphs_are_placed_by_hand(placement, placed):
    report = partition(
        byocir.import_onnx(detector_head()), [toy("npu", CONV)()], placement=placement
    )
    assert {name: report.placement[name].split("_")[0] for name in WHERE} == (
        dict.fromkeys(WHERE, "npu") | placed
    )


def test_control_flow_placed_on_a_target_that_cannot_take_it_is_refused():
    with pytest.raises(ByocirError, match=r"expected npu to take loop \(Loop\)"):
        partition(
            byocir.import_onnx(detector_head()),
            [toy("npu", CONV)()],
            placement={"loop": "npu"},
        )


def test_a_target_that_comes_first_takes_work_out_of_control_flow():
    """ONNX Runtime would take the Loop whole; what is inside went to another before."""
    module = byocir.import_onnx(detector_head())
    report = partition(module, [toy("npu", CONV)(), "ort"])
    assert report.placement["loop/body/inner"].startswith("npu")
    assert report.placement["loop/body/positive"].startswith("ort")
    assert report.placement["loop"] == "host"
    declined = [d for d in report.reasons["loop"] if d.target == "ort"]
    assert "has work of npu.conv inside" in declined[0].reason


def test_a_target_that_takes_control_flow_takes_it_whole():
    module = byocir.import_onnx(detector_head())
    report = partition(module, ["ort", toy("npu", CONV)()])
    assert report.folded == ["loop/body/still"]  # it gives its input back
    assert {where.split("_")[0] for where in report.placement.values()} == {"ort", "folded"}
    assert report.macs["host"] == 0
    loops = [op for op in module.walk() if isinstance(op, ForeignOp) and op.op_type.data == "Loop"]
    assert not any(isinstance(op, CallOp) for loop in loops for op in loop.walk())


def test_a_scalar_for_each_turn_passes_every_check():
    """onnx's reference makes [3, 1] of three scalars."""
    module = byocir.import_onnx(detector_head())
    check = CheckEach()
    check.begin(module)
    partition(module, [toy("npu", CONV)()], runner=PassRunner(check))


@settings(max_examples=settings.default.max_examples // 3)
@given(models(), st.sampled_from(["any", "connected", "none"]), st.integers(0, 1))
def test_partitioned_equals_unpartitioned(model: onnx.ModelProto, merge, swapped: int):
    policy = RegionPolicy(merge=merge)
    targets = [takes("a", "add", policy=policy)(), takes("b", "relu", policy=policy)()]
    targets = targets[::-1] if swapped else targets
    module = byocir.import_onnx(model)
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=4).astype(np.float32) for name in "xy"}
    wanted = evaluate(module, feeds).values()
    assert_close(wanted, expected(model, feeds))
    report = partition(module, targets)
    verify_regions(module)
    assert_close(evaluate(module, feeds).values(), wanted)
    for node in report.nodes:
        taken = {"Add": "a", "Relu": "b"}.get(node.op_type)
        where = report.placement[node.name]
        assert where == "folded" or (where.split("_")[0] == taken if taken else where == "host")
    text = print_module(module)
    again = parse_module(text)
    partition(again, targets)
    assert print_module(again) == text


# -- the second chance, at the tensor level


@pytest.mark.parametrize("kind", ["Loop", "Scan", "If"])
@pytest.mark.parametrize("host", ["reference", "c"])
@pytest.mark.parametrize(
    ("level", "pattern"), [("graph", "vta.product"), ("tensor", "vta.contraction")]
)
def test_an_attention_in_control_flow_runs_on_vta(kind: str, host: str, level: str, pattern: str):
    model = quantised_attention(kind)
    inner = "flow/then_branch" if kind == "If" else "flow/body"
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), meaning_pipeline(module, "vta"))
    package = byocir.compile(model, targets="vta", host=host, levels=[level])
    for node in ("scores", "mix"):
        assert package.report.placement[f"{inner}/{node}"] == "vta_0"
    taken = f"{inner}/mix  MatMul  vta_0 ({level} level, {pattern})"
    assert taken in explain(package.report)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 16, 16), scale=0.6).astype(np.float32)
    feeds = {"x": x, "go": np.array(True)}
    if kind == "Scan":
        feeds["steps"] = rng.normal(size=(3, 2, 16, 16), scale=0.6).astype(np.float32)
    wanted, found = evaluate(module, feeds)["y"], package.run(feeds)["y"]
    assert np.unique(wanted).size > 4
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("says", [True, False])
def test_a_module_saved_between_the_hand_offs_gets_its_second(says: bool):
    """One that does not say how far it is shows it: its operators are at the graph level."""
    module = byocir.import_onnx(quantised_attention("Loop"))
    run_passes(module, load_context(), meaning_pipeline(module, "vta"))
    matched = "match-composites,vta-separate,assign-targets"
    first = f"{matched},merge-regions,place-constants,outline-regions"
    run_passes(module, load_context(), first)
    assert str(module.attributes["byoc.levels"]) == '["tensor"]'
    if not says:
        del module.attributes["byoc.levels"]
    package = byocir.compile(parse_module(print_module(module)))
    assert package.report.placement["flow/body/mix"] == "vta_0"


@pytest.mark.parametrize(("kind", "turns"), [("Scan", 3), ("If", 1), ("Loop", None)])
def test_turns_that_are_known_are_counted(kind: str, turns: int | None, tmp_path):
    """The condition of the loop is an input: only the run tells how often it holds."""
    package = byocir.compile(quantised_attention(kind), targets="vta")
    report = package.report
    assert report.macs["vta"] == (turns or 1) * 2 * 2 * 16**3
    (region,) = report.regions
    assert (region.turns, region.is_open) == (turns, False)
    inner = [node.name for node in report.nodes if node.op_type == "MatMul"]
    assert report.per_turn == (inner if turns is None else [])
    text = summary(report)
    assert f"{(turns or 1) * region.bytes:,}" in text
    assert ("per turn of loops for 2 operators" in text) == (turns is None)
    assert ("at least: one turn of loops is counted" in text) == (turns is None)
    package.save(tmp_path / "p.bpkg")
    assert byocir.load(tmp_path / "p.bpkg").report == report


def test_bytes_of_open_shapes_are_said_to_be_more():
    node = onnx.helper.make_node("NonZero", ["x"], ["y"], "nonzero")
    ports = [info("x", [4]), info("y", [1, "n"], onnx.TensorProto.INT64)]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    report = byocir.compile(model, targets="ort").report
    (region,) = report.regions
    assert (region.bytes, region.is_open) == (16, True)
    assert "16   at least: sizes of some arrays depend on the inputs" in summary(report)


def sums(name: str, policy: RegionPolicy | None = None):
    """A target of sums of two arrays, at the tensor level only."""
    total = block("*i", wildcard("x")["*i"], wildcard("y")["*i"], lambda acc, x, y: x + y)
    return toy(name, Composite(f"{name}.sum", (total,)), policy=policy)


def test_graphs_without_work_for_a_target_stay_whole():
    module = byocir.import_onnx(quantised_attention("Scan"))
    report = partition(module, [sums("s", RegionPolicy(min_composites=2))()])
    (flow,) = (op for op in module.walk() if isinstance(op, ForeignOp))
    assert not any(isinstance(op, tir.BlockOp) for op in flow.walk())
    (declined,) = (d for d in report.reasons["flow/body/sum"] if d.target)
    assert (declined.level, declined.pattern, declined.taken) == ("tensor", "s.sum", False)
    assert declined.reason == "expected 2 composites in a region, found 1"
    assert report.placement["flow/body/sum"] == "host"


def test_without_the_tensor_level_graphs_stay_whole():
    for levels, place in ((["graph"], "host"), (["graph", "tensor"], "s_0")):
        model = byocir.import_onnx(quantised_attention("Scan"))
        report = partition(model, [sums("s")()], levels=levels)
        assert report.placement["flow/body/sum"] == place


@settings(max_examples=settings.default.max_examples // 5)
@given(models(), st.sampled_from(["reference", "c"]), st.booleans())
def test_partitioned_at_both_levels_equals_unpartitioned(model, host: str, small: bool):
    """Sums go away at the tensor level, rectifiers at the graph level; the rest of a graph that
    gives away sums runs as blocks."""
    module = byocir.import_onnx(model)
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=4).astype(np.float32) for name in "xy"}
    wanted = evaluate(module, feeds).values()
    policy = RegionPolicy(min_composites=1 + small)
    package = byocir.compile(module, targets=[takes("b", "relu")(), sums("s", policy)()], host=host)
    verify_regions(package.module)
    assert_close(package.run(feeds).values(), wanted)
    for node in package.report.nodes:
        where = package.report.placement[node.name].split("_")[0]
        kinds = {"Add": {"s"} if not small else {"s", "host"}, "Relu": {"b"}}
        assert where in {"folded", *kinds.get(node.op_type, {"host"})}

"""Blocks in loops are handed over like those around them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from body_nets import info
from byoc_graphs import toy
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_nets import BATCH, INPUTS, STEPS, quantised, recurrent, recurrent_models
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.compiler import partition
from byocir.dialects import tir
from byocir.dialects.byoc import CallOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.evaluate.module import evaluate
from byocir.patterns import Composite, block, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.rewrites.byoc.verify_regions import verify_regions
from byocir.rewrites.check_each import CheckEach
from byocir.rewrites.pipeline import PassRunner, run_passes
from byocir.runtime.export import export_project
from byocir.runtime.report_text import explain, summary

TARGET = """
import json

import numpy as np

import byocir
from byocir.patterns import block, composite, wildcard
from byocir.dialects.byoc import CompositeOp
from byocir.patterns.policy import RegionPolicy


@composite("npu.product")
def product():
    a, b = wildcard("a"), wildcard("b")
    return block("*m n | k", a["*m k"], b["n k"], lambda acc, x, w: acc + x * w)


class Npu(byocir.Target):
    name, patterns = "npu", (product,)
    region_policy = RegionPolicy(merge="none")

    def emit(self, module, symbols):
        functions = {f.sym_name.data: f for f in module.ops if f.name == "func.func"}
        counts = {
            symbol: sum(isinstance(op, CompositeOp) for op in functions[symbol].walk())
            for symbol in symbols
        }
        return {"code": json.dumps(counts).encode()}

    def load(self, blobs):
        counts = json.loads(blobs["code"])

        def run(symbol, inputs):
            assert counts[symbol] == 1
            a, b = inputs
            sums = np.zeros((*a.shape[:-1], b.shape[0]), np.float32)
            for k in range(a.shape[-1]):  # in order, as the evaluator adds
                sums += a[..., None, k] * b[:, k]
            return [sums]

        return run
"""
PRODUCT = Composite(
    "npu.product",
    (
        block(
            "*m n | k",
            wildcard("a")["*m k"],
            wildcard("b")["n k"],
            lambda acc, x, w: acc + x * w,
        ),
    ),
)


@pytest.fixture
def npu(tmp_path: Path) -> str:
    path = tmp_path / "npu.py"
    path.write_text(TARGET)
    return str(path)


def images(steps: int = STEPS) -> dict[str, np.ndarray]:
    x = np.random.default_rng(steps).normal(size=(steps, BATCH, INPUTS))
    return {"x": x.astype(np.float32)}


def steps_of(model) -> int:
    return model.graph.input[0].type.tensor_type.shape.dim[0].dim_value


@settings(max_examples=settings().max_examples // 12)
@given(recurrent_models(), st.booleans())
def test_recurrent_operators_compute_what_they_did(model, in_memory: bool):
    """After each pass, also those that put what is left into memory."""
    module, check = byocir.import_onnx(model), CheckEach()
    feeds = images(steps_of(model))
    expected = evaluate(module, feeds)
    check.begin(module, feeds)
    report = partition(module, [toy("npu", PRODUCT)()], runner=PassRunner(check))
    verify_regions(module)
    loops = [op for op in module.walk() if isinstance(op, tir.ForOp)]
    assert all(any(isinstance(op, CallOp) for op in loop.walk()) for loop in loops)
    assert report.macs["host"] == 0
    assert report.macs["npu"] == sum(node.macs for node in report.nodes)
    if in_memory:
        run_passes(module, load_context(), "bufferize", callback=check)
    for found, wanted in zip(evaluate(module, feeds).values(), expected.values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "host"), [("GRU", "reference"), ("LSTM", "c"), ("GRU", "c{threads=2}")]
)
def test_a_target_in_a_file_runs_products_of_states(kind: str, host: str, npu: str):
    model = recurrent(kind, direction="bidirectional")
    package = byocir.compile(model, targets=[npu], host=host)
    products = 2 if kind == "GRU" else 1  # of each step: GRU's last gate has one of its own
    assert sorted(r.turns for r in package.report.regions) == [1, 1] + [STEPS] * 2 * products
    found = package.run(images())
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for ours, theirs in zip(found.values(), session.run(None, images()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    if host == "reference":
        alone = byocir.compile(model, targets=[]).run(images())
        for name, array in found.items():
            np.testing.assert_array_equal(array, alone[name])


@settings(max_examples=settings().max_examples // 12)
@given(
    st.integers(1, 6), st.integers(1, 4), st.integers(1, 40), st.integers(3, 9), st.integers(0, 99)
)
def test_vta_takes_an_integer_step(steps: int, rows: int, hidden: int, shift: int, seed: int):
    module, feeds = quantised(steps, rows, hidden, shift, seed)
    check = CheckEach()
    check.begin(module, feeds)
    package = byocir.compile(module, targets=["vta"], after_pass=check)
    (region,) = package.report.regions
    assert (region.level, region.turns) == ("tensor", steps)
    assert [c.pattern for c in region.composites] == ["vta.contraction"]
    for name, wanted in evaluate(module, feeds).items():
        np.testing.assert_array_equal(package.run(feeds)[name], wanted)


@pytest.mark.parametrize("host", ["c", "c{threads=2}"])
def test_c_calls_vta_in_its_loop(host: str):
    module, feeds = quantised()
    package = byocir.compile(module, targets=["vta"], host=host)
    assert package.report.host_runs_on == "c"
    expected = evaluate(module, feeds)
    for name, found in package.run(feeds).items():
        np.testing.assert_array_equal(found, expected[name])


def test_an_exported_project_calls_its_device_in_a_loop(tmp_path: Path):
    module, feeds = quantised()
    expected = evaluate(module, feeds)
    for name, data in export_project(byocir.compile(module, targets=["vta"])).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for name, array in feeds.items():
        np.save(tmp_path / f"{name}.npy", array)
    subprocess.run(["make", "-s", "CFLAGS=-O0"], cwd=tmp_path, check=True)
    arrays = [f"{name}.npy" for name in (*feeds, *expected)]
    subprocess.run(["./model", *arrays], cwd=tmp_path, check=True)
    for name, wanted in expected.items():
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), wanted)


def test_a_package_with_calls_in_loops_reads_back(tmp_path: Path, npu: str):
    package = byocir.compile(recurrent(), targets=[npu])
    package.save(tmp_path / "cell.bpkg")
    again = byocir.load(tmp_path / "cell.bpkg", targets=[npu])
    for name, found in again.run(images()).items():
        np.testing.assert_array_equal(found, package.run(images())[name])


def test_a_module_that_is_saved_between_two_passes_goes_on_in_its_loops():
    module = byocir.import_onnx(recurrent())
    target = toy("npu", PRODUCT)()
    stages: list[str] = []
    runner = PassRunner(lambda pass_, module, seconds: stages.append(print_module(module)))
    partition(module, [target], runner=runner)
    for stage in stages[-5:-1]:
        again = byocir.compile(parse_module(stage), targets=None)
        assert [r.turns for r in again.report.regions] == [1, STEPS]


def test_what_the_host_keeps_of_a_node_is_counted_per_turn():
    """The rule leaves the products of the states to the host, then those of the inputs."""
    hidden, rows = 4, 16
    of_inputs, of_states = STEPS * BATCH * rows * INPUTS, STEPS * BATCH * rows * hidden
    for rank, taken in ((3, of_inputs), (2, of_states)):
        some = Composite("npu.product", PRODUCT.patterns)

        @some.rule
        def one_rank(m, rank=rank):
            """The first factor has the right rank."""
            return m["a"].type.rank == rank, m["a"].type.rank

        report = partition(byocir.import_onnx(recurrent()), [toy("npu", some)()])
        assert report.macs == {"npu": taken, "host": of_inputs + of_states - taken}
        assert report.host_macs == {"cell": report.macs["host"]}
        assert f"stay on the host: cell ({report.macs['host']:,}); `explain`" in report.notes[0]
        assert f"npu MACs{taken:>34,}" in summary(report)
        assert byocir.Report.from_dict(report.to_dict()) == report


def test_calls_in_loops_are_explained():
    report = partition(byocir.import_onnx(recurrent()), [toy("npu", PRODUCT)()])
    first, parts, *others = explain(report, "cell").splitlines()
    assert first == "cell  LSTM  npu_0, npu_1 (tensor level, npu.product, partly on the host)"
    assert parts.startswith("  on the host: x + y; ")
    assert others == [
        "  npu_1 is called 5 times",
        "  tensor npu.product        0/1 ops matched, expected body acc + (x * w), found x + w",
    ]
    assert summary(report).startswith("npu operators                            1  100.0 %")


def test_a_node_that_is_placed_on_the_host_stays_there_with_its_loop():
    module = byocir.import_onnx(recurrent())
    report = partition(module, [toy("npu", PRODUCT)()], placement={"cell": "host"})
    assert not report.regions
    assert report.reasons["cell"][0].reason.endswith("is placed on host")


def test_a_region_that_is_too_small_is_given_back_in_its_loop():
    policy = RegionPolicy(min_macs=200)  # 480 of the inputs, 128 of a turn
    report = partition(byocir.import_onnx(recurrent()), [toy("npu", PRODUCT, policy=policy)()])
    assert [(r.symbol, r.turns) for r in report.regions] == [("npu_0", 1)]
    reasons = [d.reason for d in report.reasons["cell"]]
    assert "expected 200 MACs in a region, found 128" in reasons


def test_an_operator_in_the_graph_of_a_loop_is_called_for_each_turn_and_step():
    inner = recurrent("RNN", hidden=INPUTS)
    (node,) = inner.graph.node
    shape = [STEPS, BATCH, INPUTS]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on"], ["still"], "still"),
            node,
            helper.make_node("Squeeze", ["y", "axis"], ["next"], "next"),
        ],
        "body",
        [
            info("i", [], TensorProto.INT64),
            info("on", [], TensorProto.BOOL),
            info("x", shape),
        ],
        [info("still", [], TensorProto.BOOL), info("next", shape)],
    )
    constants = {"axis": np.array([1]), "turns": np.array(3), "go": np.array(True)}
    graph = helper.make_graph(
        [helper.make_node("Loop", ["turns", "go", "x0"], ["out"], "loop", body=body)],
        "net",
        [info("x0", shape)],
        [info("out", shape)],
        [*inner.graph.initializer, *(numpy_helper.from_array(a, n) for n, a in constants.items())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x0": images()["x"]}
    package = byocir.compile(model, targets=[toy("npu", PRODUCT)()])
    assert [r.turns for r in package.report.regions] == [3, 3 * STEPS]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, feeds)
    np.testing.assert_allclose(package.run(feeds)["out"], expected, rtol=1e-4, atol=1e-5)


def test_a_loop_in_memory_is_a_schedule_and_stays_as_it_is():
    module, feeds = quantised()
    expected = evaluate(module, feeds)
    run_passes(module, load_context(), "bufferize")
    package = byocir.compile(module, targets=["vta"])
    assert not package.report.regions
    for found, wanted in zip(package.run(feeds).values(), expected.values(), strict=True):
        np.testing.assert_array_equal(found, wanted)

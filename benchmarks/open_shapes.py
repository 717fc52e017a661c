"""What a model costs of which only a run tells the sizes, beside ONNX Runtime, one thread.

    python benchmarks/open_shapes.py

Prints for two nets with an open batch microseconds a run and the ratio to ONNX Runtime without
graph optimisations: of a host in C whose operators are called back one by one, and as one model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from unittest import mock

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir import compiler

ROUNDS, RUNS = 30, 20
"""Of each the best round counts; they take turns."""


def chain() -> onnx.ModelProto:
    """Small operators [n,64]."""
    steps = [
        ("Relu", "x"),
        ("Exp", "v0"),
        ("Mul", "v0 v1"),
        ("Sigmoid", "v2"),
        ("Add", "v3 v2"),
        ("ReduceMean", "v4"),
        ("Sub", "v4 v5"),
        ("Tanh", "v6"),
    ]
    nodes = [helper.make_node(op, x.split(), [f"v{i}"]) for i, (op, x) in enumerate(steps)]
    return model(nodes, ["n", 64], {})


def convolutions() -> onnx.ModelProto:
    """Eight layers [n,8,16,16]."""
    rng = np.random.default_rng(0)
    nodes, weights = [], {}
    for i in range(8):
        weights[f"w{i}"] = rng.normal(size=(8, 8, 3, 3)).astype(np.float32) / 9
        source = "x" if i == 0 else f"v{2 * i - 1}"
        conv = helper.make_node("Conv", [source, f"w{i}"], [f"v{2 * i}"], pads=[1] * 4)
        nodes += [conv, helper.make_node("Relu", [f"v{2 * i}"], [f"v{2 * i + 1}"])]
    return model(nodes, ["n", 8, 16, 16], weights)


def model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int | str], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    """A float model of these nodes, whose last output is the model's."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def best(runs: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of each, the rivals in turn."""
    found = [float("inf")] * len(runs)
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(RUNS):
                run()
            found[i] = min(found[i], (time.perf_counter() - start) / RUNS)
    return found


def one_by_one(net: onnx.ModelProto) -> byocir.Package:
    """The package of a host that calls operators back one by one."""
    passes = compiler.host_pipeline
    with mock.patch.object(
        compiler, "host_pipeline", lambda host: passes(host).replace(",group-foreign", "")
    ):
        return byocir.compile(net, targets=[], host="c")


def session(net: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(net.SerializeToString(), options)


def main() -> None:
    for name, net, shape in (
        ("small operators", chain(), (16, 64)),
        ("convolutions", convolutions(), (2, 8, 16, 16)),
    ):
        feeds = {"x": np.random.default_rng(1).random(shape).astype(np.float32)}
        before, after = one_by_one(net), byocir.compile(net, targets=[], host="c")
        rival = session(net)
        expected = rival.run(None, feeds)[0]
        for package in (before, after):
            (found,) = package.run(feeds).values()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        runs = [partial(before.run, feeds), partial(after.run, feeds)]
        one, whole, ort_ = best([*runs, partial(rival.run, None, feeds)])
        print(
            f"{name:16} one by one {1e6 * one:6.0f} us ({one / ort_:4.1f} x ONNX Runtime), "
            f"as one model {1e6 * whole:5.0f} us ({whole / ort_:3.1f} x)"
        )


if __name__ == "__main__":
    main()

"""Models of open shapes and branches, and that the host's C gives what the evaluator gives."""

import subprocess

import numpy as np
from host_models import model_of
from onnx import TensorProto, helper
from projects import SANITIZE

import byocir


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


BOXES = {
    "anchors": np.random.default_rng(0).random((1, 12, 4)).astype(np.float32),
    "most": np.array([5]),
    "iou": np.array([0.5], np.float32),
    "score": np.array([0.1], np.float32),
    "two": np.array([2]),
}
DETECTOR = [
    node("Relu", "x", "r"),
    node("Add", "anchors r", "b"),
    node("ReduceSum", "x last", "sum", keepdims=1),
    node("Transpose", "sum", "scores", perm=[0, 2, 1]),
    node("NonMaxSuppression", "b scores most iou score", "kept"),
    node("Gather", "kept two", "i", axis=1),
    node("Squeeze", "i one", "flat"),
    node("Gather", "b flat", "boxes", axis=1),
    node("Sigmoid", "scores", "p"),
    node("Shape", "flat", "count"),
    node("Unique", "scores", "levels"),
    node("Neg", "levels", "down"),
]
"""A detector whose boxes C chooses, and of whose scores the evaluator tells the levels."""


def detector(outputs=("boxes", "p", "down")):
    weights = {**BOXES, "last": np.array([2]), "one": np.array([1])}
    return model_of(DETECTOR, {"x": (1, 12, 4)}, list(outputs), weights)


def same(model, feeds, **options):
    """C gives what the evaluator gives; the package."""
    packages = [byocir.compile(model, targets=[], host=h, **options) for h in ("reference", "c")]
    expected, found = (package.run(feeds) for package in packages)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    return packages[1]


def outputs_of(project, folder, package, feeds):
    """What the program of an exported project makes."""
    build(project, folder)
    return run(folder, package, feeds)


def build(project, folder):
    """Builds the program of an exported project."""
    for name, data in project.items():
        (folder / name).write_bytes(data)
    command = ["make", "-s", f"CFLAGS={SANITIZE}"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def run(folder, package, feeds):
    """What the program makes that was built in a folder."""
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
    inputs = [f"{name}.npy" for name in package.inputs]
    files = [f"out_{i}.npy" for i in range(len(package.outputs))]
    subprocess.run(["./model", *inputs, *files], cwd=folder, check=True)
    return dict(zip(package.outputs, (np.load(folder / f) for f in files), strict=True))


def graph(nodes, *outputs):
    ports = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    for port in ports:
        port.ClearField("type")
    return helper.make_graph(nodes, "graph", [], ports)


def if_(condition, outputs, then, otherwise):
    return node("If", condition, outputs, then_branch=then, else_branch=otherwise)


POSITIVE = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m least", "c")]
LEAST = {"least": np.float32(0)}


def both_ways(nodes, outputs, weights=None, shape=(2, 3)):
    """The package of a model whose condition `c` held, and did not."""
    model = model_of([*POSITIVE, *nodes], {"x": shape}, outputs, {**LEAST, **(weights or {})})
    x = np.random.default_rng(0).random(shape).astype(np.float32) + 0.5
    same(model, {"x": x})
    return same(model, {"x": -x})

"""The target that writes CUDA C: its kernels, run as C by a loop over grid and block."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.evaluate.module import random_feeds
from byocir.toolchain import built_and_loaded
from byocir.vendor.user_code import import_file

ROOT = Path(__file__).parents[1]
CUDA = str(ROOT / "examples" / "cuda_text.py")

SHIM = """
#include <math.h>
#define __global__
#define __device__
typedef struct { unsigned x; } place;
static place blockIdx, blockDim, threadIdx;
static long floor_mod(long, long);
static long floor_div(long, long);
"""


def as_c(source: str) -> ctypes.CDLL:
    """The kernels as C, each with a function that runs all threads."""
    text = SHIM + source.replace('extern "C" ', "")
    for name, head in re.findall(r"__global__ void (\w+)\((.*?)\)", source):
        given = ", ".join(re.findall(r"(\w+)(?:,|$)", head))
        text += f"""
void run_{name}(unsigned grid, unsigned block, {head})
{{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) {name}({given});
}}
"""
    flags = ("-std=c99", "-O1", "-ffp-contract=off", "-Wno-unused-function", "-lm")
    return built_and_loaded("cuda", {"kernels.c": text}, flags)


def launched(library: ctypes.CDLL, plan, inputs):
    """What the launches of a region make of its inputs."""
    arrays = {f"a{i}": np.ascontiguousarray(array) for i, array in enumerate(inputs)}
    assert len(inputs) == plan["arguments"]
    for launch in plan["launches"]:
        made = arrays[launch["begins_as"]].copy()
        given = [*(arrays[name] for name in launch["inputs"]), made]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in given]
        getattr(library, f"run_{launch['kernel']}")(launch["grid"], launch["block"], *pointers)
        arrays[launch["result"]] = made
    return [arrays[name] for name in plan["results"]]


def net() -> bytes:
    """Windows with pads and strides, a product, a softmax, a turned and a reshaped array."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(6, 3, 3, 3)), "b": rng.normal(size=6)}
    weights["m"] = rng.normal(size=(24, 5))
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 0, 1, 2], strides=[2, 1]),
        helper.make_node("LeakyRelu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["d"]),
        helper.make_node("Tanh", ["d"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"]),
    ]
    constants = [numpy_helper.from_array(w.astype(np.float32), k) for k, w in weights.items()]
    constants.append(numpy_helper.from_array(np.array([-1, 24]), "shape"))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 4, 4]), ("y", None))
    ]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], constants)
    opset = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def test_kernels_compute_what_blocks_mean(monkeypatch):
    package = byocir.compile(net(), targets=[CUDA])
    assert {"Conv_0", "MaxPool_2", "Transpose_3", "MatMul_5"}.isdisjoint(package.report.host)
    blobs = package.blobs["cuda"]
    library, plans = as_c(blobs["kernels.cu"].decode()), json.loads(blobs["launches.json"])
    feeds = random_feeds(package.module, 3)
    expected = byocir.compile(net(), targets=[]).run(feeds)["y"]
    np.testing.assert_allclose(package.run(feeds)["y"], expected, rtol=1e-5)
    seen = []
    kind = type(package.target("cuda"))
    load = kind.load

    def both(self, blobs):
        runner = load(self, blobs)

        def run(symbol, inputs):
            made = runner(symbol, inputs)
            for found, wanted in zip(launched(library, plans[symbol], inputs), made, strict=True):
                seen.append(symbol)
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
            return made

        return run

    monkeypatch.setattr(kind, "load", both)
    byocir.compile(net(), targets=[CUDA]).run(feeds)
    assert {*seen} == {region.symbol for region in package.report.regions}


def test_blocks_that_it_cannot_spell_stay():
    nodes = [helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Exp", ["s"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [9]) for name in "xy"]
    graph = helper.make_graph(nodes, "sine", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    report = byocir.compile(model, targets=[CUDA]).report
    assert report.places == {"Sin_0": "host", "Exp_1": "cuda"}
    rules = [rule for d in report.reasons["Sin_0"] for rule in d.rules if not rule.holds]
    assert [(rule.seen, bool(rule.fix)) for rule in rules] == [("math.sin", True)]


def test_nvrtc_takes_the_kernels():
    module = import_file(Path(CUDA), "B217")
    if module.nvrtc() is None:
        pytest.skip("NVRTC is not installed")
    source = byocir.compile(net(), targets=[CUDA]).blobs["cuda"]["kernels.cu"]
    assert module.compile_with_nvrtc(source)
    with pytest.raises(RuntimeError, match="error"):
        module.compile_with_nvrtc(source.replace(b"float sum", b"floats sum"))

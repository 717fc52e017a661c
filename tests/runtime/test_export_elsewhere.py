"""Exported projects on other machines and in other languages: their C is checked, not run."""

import importlib.util
import shutil
import subprocess
import sys

import numpy as np
import pytest
from host_models import attention, depthwise_net, model_of, recurrent
from onnx import TensorProto, helper
from open_models import BOXES, DETECTOR
from projects import write

import byocir
from byocir.runtime.export import export_project

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-O0", "-c")
DIGITS = "examples/digits/digits_int8.onnx"


def ends_by_itself():
    """A Loop without a limit, whose turns C counts."""
    ports = [
        helper.make_tensor_value_info(name, kind, ())
        for name, kind in (("i", TensorProto.INT64), ("c", TensorProto.BOOL))
    ]
    state, next_, go = (
        helper.make_tensor_value_info("h", TensorProto.FLOAT, (3,)),
        helper.make_tensor_value_info("k", TensorProto.FLOAT, (3,)),
        helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
    )
    nodes = [
        helper.make_node("Add", ["h", "w"], ["k"]),
        helper.make_node("ReduceSum", ["k"], ["r"], keepdims=0),
        helper.make_node("Less", ["r", "lim"], ["go"]),
    ]
    body = helper.make_graph(nodes, "b", [*ports, state], [go, next_])
    loop = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    weights = {"w": np.float32([1, 2, 3]), "lim": np.float32(9)}
    return model_of([loop], {"x": (3,)}, ["y"], weights)


def detector():
    weights = {**BOXES, "last": np.array([2]), "one": np.array([1])}
    return model_of(DETECTOR, {"x": (1, 12, 4)}, ["boxes", "p"], weights)


MODELS = [ends_by_itself, recurrent, attention, depthwise_net, detector]


def exported(model, folder, **options):
    shapes = {"image": (1, 1, 8, 8)} if model == DIGITS else None
    package = byocir.compile(model, shapes=shapes, host="c{cpu=generic}", **options)
    files = export_project(package, weights="c")
    write(files, folder)
    return files


def test_big_endian_machines_are_refused(tmp_path):
    """As the device's model refuses them: weights are in the other order."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    exported(depthwise_net(), tmp_path, targets=[])
    big = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]
    for flags, code in (([], 0), (big, 1)):
        command = ["gcc", *STRICT, "-Wconversion", *flags, "model.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "the weights of this model are little-endian" in done.stderr


@pytest.mark.parametrize("target", ["x86-linux-musl", "arm-linux-musleabihf"])
@pytest.mark.parametrize("model", MODELS)
def test_machines_of_32_bits(model, target, tmp_path):
    compile_for(target, exported(model(), tmp_path, targets=[]), tmp_path)


@pytest.mark.parametrize("target", ["x86-linux-musl", "arm-linux-musleabihf"])
def test_devices_on_machines_of_32_bits(target, tmp_path):
    """Sizes of 64 bits, which regions tell, are not cut off unseen."""
    compile_for(target, exported(DIGITS, tmp_path), tmp_path)


def compile_for(target, files, folder):
    """Compiles a project's sources for another machine, conversions that lose bits refused."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no compiler for other machines; pip install 'byocir[zig]' brings one")
    sources = [file for file in files if file.endswith(".c")]
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-I."]
    command = [*compiler, *STRICT, "-Wconversion", *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_endless_loop_counts_in_64_bits(tmp_path):
    """Its extent is no number of 32 bits, which pointers may have."""
    source = exported(ends_by_itself(), tmp_path, targets=[])["model.c"].decode()
    assert f"for (int64_t t0 = 0; t0 < {2**62} && " in source


def test_headers_are_those_of_c_in_cpp(tmp_path):
    """C++ that includes them calls what C defines."""
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("no g++")
    files = exported(DIGITS, tmp_path)
    assert {"model.h", "regions.h", "blob.h", "device.h"} <= {*files}
    program = """#include "blob.h"
#include "device.h"
#include "model.h"
#include "regions.h"
int main() { return !model_run || !regions_run || !device_open || !model_bytes; }
"""
    (tmp_path / "program.cc").write_text(program)
    sources = [file for file in files if file.endswith(".c") and file != "main.c"]
    for command in (
        ["gcc", "-std=c99", "-O0", "-c", *sources],
        ["g++", "-O0", "-o", "program", "program.cc", "-I.", *objects(sources), "-lm"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def objects(sources):
    return [file.rpartition("/")[2].removesuffix(".c") + ".o" for file in sources]

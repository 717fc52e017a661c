"""Exported projects on other machines and in other languages: their C is checked, not run."""

import importlib.util
import platform
import shutil
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from host_models import attention, depthwise_net, model_of, recurrent
from onnx import TensorProto, helper
from open_models import BOXES, DETECTOR
from projects import write

import byocir
from byocir.runtime.export import export_project

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-O0", "-c")
GENERIC = "c{cpu=generic}"
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


@cache
def files_of(model):
    """A project of the digits model for VTA, or of one that a function makes for the host."""
    if model == DIGITS:
        package = byocir.compile(model, shapes={"image": (1, 1, 8, 8)}, host=GENERIC)
    else:
        package = byocir.compile(model(), targets=[], host=GENERIC)
    return export_project(package, weights="c")


def exported(model, folder):
    write(files_of(model), folder)
    return files_of(model)


def test_big_endian_machines_are_refused(tmp_path):
    """As the device's model refuses them: weights are in the other order."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    exported(depthwise_net, tmp_path)
    big = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]
    for flags, code in (([], 0), (big, 1)):
        command = ["gcc", *STRICT, "-Wconversion", *flags, "model.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "the weights of this model are little-endian" in done.stderr


GCC = "gcc -m32"
MACHINES = [GCC, "x86-linux-musl", "arm-linux-musleabihf"]
"""Machines of 32 bits: the first one by gcc, the others by the compiler of the ziglang wheel."""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", MODELS)
def test_machines_of_32_bits(model, machine, tmp_path):
    compiler = compiler_for(machine, tmp_path)
    check_by(compiler, exported(model, tmp_path), tmp_path)


@pytest.mark.parametrize("machine", MACHINES)
def test_devices_on_machines_of_32_bits(machine, tmp_path):
    """Sizes of 64 bits, which regions tell, are not cut off unseen."""
    compiler = compiler_for(machine, tmp_path)
    check_by(compiler, exported(DIGITS, tmp_path), tmp_path)


def check_by(compiler, files, folder):
    """Compiles a project's sources for another machine, conversions that lose bits refused."""
    sources = [file for file in files if file.endswith(".c")]
    command = [*compiler, "-I.", *STRICT, "-Wconversion", *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def compiler_for(machine, folder):
    """The command of a compiler for a machine; skips the test where there is none."""
    if machine == GCC:
        return gcc_of_32_bits(folder)
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no compiler for other machines; pip install 'byocir[zig]' brings one")
    return [sys.executable, "-m", "ziglang", "cc", "-target", machine]


def gcc_of_32_bits(folder):
    """A command that checks C for 32 bits where only the C library of 64 bits is installed: of its
    headers, one that lists what the library lacks is missing, and an empty one does as well."""
    if shutil.which("gcc") is None or platform.machine() != "x86_64":
        pytest.skip("no gcc for x86-64")
    (folder / "gnu").mkdir()
    (folder / "gnu" / "stubs-32.h").touch()
    asked = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True)
    headers = f"/usr/include/{asked.stdout.strip()}"
    return ["gcc", "-m32", "-msse2", "-mfpmath=sse", "-idirafter", headers]


def test_an_endless_loop_counts_in_64_bits(tmp_path):
    """Its extent is no number of 32 bits, which pointers may have."""
    source = exported(ends_by_itself, tmp_path)["model.c"].decode()
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

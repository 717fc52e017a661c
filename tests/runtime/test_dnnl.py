"""Nets on oneDNN, whole: beside ONNX Runtime, and as exported projects."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from nets.classic_nets import NETS, REDUCED, feeds, session
from nets.int8_nets import INT8_NETS
from onnx import TensorProto, helper, numpy_helper
from processor import on_vnni
from projects import check, tools_alone

import byocir
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.targets import c_loader
from byocir.targets.dnnl.target import Dnnl
from byocir.toolchain import Libraries, x86_64_level


@pytest.fixture(scope="module", autouse=True)
def library():
    """What builds against oneDNN, where it is installed."""
    found = Libraries(Dnnl.name, Dnnl.headers, Dnnl.libraries, Dnnl.search)
    try:
        found.flags()
    except ByocirError as error:
        pytest.skip(error.help)
    return found


@pytest.fixture(autouse=True)
def built_in_a_hurry(monkeypatch):
    """oneDNN computes: a fifth of the compiler's time will do for the C that calls it. Processes of
    their own here, the tests of plans, and those that undo it build as users do."""
    flags = ["-O0" if flag == "-O3" else flag for flag in c_loader.FLAGS]
    monkeypatch.setattr(c_loader, "FLAGS", flags)


def expect_close(found, expected):
    for name, array in expected.items():
        difference = np.abs(found[name] - array).max()
        assert difference <= 2e-5 * max(1.0, np.abs(array).max()), name


@pytest.mark.parametrize("net", ["SSD", "encoder"])
def test_nets_are_whole_and_right(net):
    model = NETS[net](REDUCED)
    package = byocir.compile(model, targets=["dnnl"])
    assert (len(package.report.regions), package.report.host) == (1, [])
    reference = session(model)
    names = [output.name for output in reference.get_outputs()]
    for seed in (1, 2):
        given = feeds(model, seed)
        expected = dict(zip(names, reference.run(None, given), strict=True))
        expect_close(package.run(given), expected)


def small():
    """Sums of values that are read later, of an input and of what is broadcast, and views."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(4, 4, 3, 3)).astype(np.float32),
        "row": rng.normal(size=(1, 4, 1, 1)).astype(np.float32),
        "big": rng.normal(size=(3, 4, 5, 5)).astype(np.float32),
    }
    window = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], **window),
        helper.make_node("Add", ["a", "x"], ["b"]),  # an input stays as it is
        helper.make_node("Conv", ["b", "w"], ["c"], **window),
        helper.make_node("Add", ["c", "b"], ["d"]),  # what the convolution itself reads
        helper.make_node("Conv", ["d", "w"], ["e"], **window),
        helper.make_node("Add", ["e", "b"], ["f"]),  # and what is read once more
        helper.make_node("Relu", ["f"], ["g"]),
        helper.make_node("Mul", ["g", "b"], ["h"]),
        helper.make_node("Conv", ["h", "w"], ["i"], **window),
        helper.make_node("Add", ["i", "row"], ["j"]),
        helper.make_node("Transpose", ["j"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("Conv", ["j", "w"], ["l"], **window),
        helper.make_node("Add", ["l", "big"], ["m"]),  # a larger result
    ]
    ports = [("x", [1, 4, 5, 5]), ("d", [1, 4, 5, 5]), ("k", [1, 5, 5, 4]), ("m", [3, 4, 5, 5])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in ports]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", infos[:1], infos[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_places_are_shared_only_by_what_nobody_reads(library, tmp_path, monkeypatch):
    monkeypatch.undo()
    assert "-O3" in c_loader.FLAGS
    package = byocir.compile(small(), targets=["dnnl"], host="c{cpu=generic}")
    assert package.report.host == []
    given = feeds(small().SerializeToString(), 3)
    kept = {name: array.copy() for name, array in given.items()}
    expected = byocir.compile(small(), targets=[]).run(given)
    for _ in range(2):
        expect_close(package.run(given), expected)
    np.testing.assert_array_equal(given["x"], kept["x"])
    env = {**tools_alone(tmp_path), "MAKEFLAGS": library.chosen.replace(" ", "\\ ")}
    check(package, tmp_path / "project", env, flags="-O0 -Wall -Werror")


REORDERS = """
import ctypes, sys, byocir
from nets.classic_nets import NETS, REDUCED, feeds
model = NETS[sys.argv[1]](REDUCED)
package = byocir.compile(model, targets=["dnnl"])
package.run(feeds(model, 1))
print("built", flush=True)
package.run(feeds(model, 1))
ctypes.CDLL(None).fflush(None)
"""


@pytest.mark.skipif(x86_64_level() < 4, reason="orders are those of a processor with AVX-512")
@pytest.mark.parametrize(
    ("net", "count"),
    [
        ("encoder", 2),  # what is added to an input goes to a new place; heads are joined
        ("SSD", 2),  # behind the first convolutions; channels that go last lie there already
    ],
)
def test_arrays_are_not_moved_without_need(net, count):
    command = [sys.executable, "-c", REORDERS, net]
    environment = {**os.environ, "ONEDNN_VERBOSE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    runs = done.stdout.split("built")[1]
    assert len(re.findall(r"exec,cpu,reorder", runs)) == count, runs


@dataclass(frozen=True)
class Evaluated(Dnnl):
    """Takes what oneDNN does, and leaves the work to the evaluator."""

    name = "evaluated"

    def emit(self, module, symbols):
        return {}


@on_vnni
@pytest.mark.parametrize("net", ["ResNet-18 u8", "ResNet-18 s8", "MobileNetV2 s8"])
def test_nets_of_bytes_are_whole_and_right(net):
    model = INT8_NETS[net](REDUCED)
    package = byocir.compile(model, targets=["dnnl"])
    assert (len(package.report.regions), package.report.host) == (1, [])
    source = package.blobs["dnnl"]["regions.c"].decode()
    names = re.findall(r"const int (v\d+) =", source)
    assert [name for name in names if len(re.findall(rf"\b{name}\b", source)) == 1] == []
    evaluated = byocir.compile(model, targets=[Evaluated()])
    given = feeds(model, 1)
    for name, array in evaluated.run(given).items():
        assert np.unique(array).size > 20
        assert np.mean(package.run(given)[name] == array) > 0.99  # floats decide ties of sums


def grids():
    """Bytes that change their grid, with zero points and without, and sums of some without."""
    numbers = {"s": np.float32(0.02), "t": np.float32(0.05), "u": np.float32(0.0625)}
    numbers |= {"z": np.int8(3), "w": np.int8(-7), "o": np.int8(0)}
    nodes = []

    def add(op, *inputs):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"]))
        return nodes[-1].output[0]

    def through(value, scale, zero):
        return add("DequantizeLinear", add("QuantizeLinear", value, scale, zero), scale, zero)

    shifted = through(through("x", "s", "z"), "t", "w")
    plain, other = through(through("x", "s", "o"), "u", "o"), through("y", "t", "o")
    results = [shifted, through(add("Add", plain, other), "u", "o")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 40]) for name in "xy"]
    outputs = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results]
    constants = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    graph = helper.make_graph(nodes, "grids", ports, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_bytes_change_grids():
    package = byocir.compile(grids(), targets=["dnnl"])
    taken = {composite.pattern for r in package.report.regions for composite in r.composites}
    assert {"dnnl.rescale", "dnnl.sum_bytes", "dnnl.quantize", "dnnl.dequantize"} <= taken
    assert package.report.host == []
    given = random_feeds(package.module, 4)
    expected = byocir.compile(grids(), targets=[Evaluated()]).run(given)
    for name, array in package.run(given).items():
        assert np.unique(array).size > 20
        np.testing.assert_array_equal(array, expected[name])


OLD = """
import sys
sys.path[:0] = ["benchmarks", "tests/runtime"]
import test_dnnl as t
for model, without in ((t.INT8_NETS["ResNet-18 u8"](t.REDUCED), "int8"), (t.halves(), "bf16")):
    t.byocir.compile(model, targets=[f"dnnl{{{without}=false}}"]).run(t.random_for(model))
    try:
        t.byocir.compile(model, targets=["dnnl"]).run(t.random_for(model))
    except t.ByocirError as error:
        print(error.code, error.message)
"""


def random_for(model):
    return random_feeds(byocir.import_onnx(model), 1)


@pytest.mark.slow
def test_processors_that_lack_something_say_so():
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-c", OLD]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    for told in ("with VNNI, which oneDNN needs for bytes", "with AVX-512, which oneDNN needs for"):
        assert f"B405 expected a processor {told}" in done.stdout, done.stderr


def halves():
    """Layers of bf16: a convolution with a sum, a product, functions, pools, a norm, a softmax."""
    rng = np.random.default_rng(5)
    sizes = {"w": [8, 4, 3, 3], "b": [8], "d": [8, 16], "row": [16], "gain": [16], "half": []}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "z"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("AveragePool", ["m"], ["a"], kernel_shape=[2, 2]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "d"], ["p"]),
        helper.make_node("Add", ["p", "row"], ["q"]),
        helper.make_node("Sigmoid", ["q"], ["t"]),
        helper.make_node("Mul", ["q", "t"], ["u"]),
        helper.make_node("Sub", ["u", "half"], ["v"]),
        helper.make_node("LayerNormalization", ["v", "gain", "row"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"]),
    ]
    kind = TensorProto.BFLOAT16
    arrays = {n: rng.normal(size=s).astype(ml_dtypes.bfloat16) for n, s in sizes.items()}
    constants = [
        helper.make_tensor(n, kind, a.shape, a.tobytes(), raw=True) for n, a in arrays.items()
    ]
    shapes = [("x", [2, 4, 6, 6]), ("z", [2, 8, 6, 6])]
    ports = [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes]
    results = [helper.make_tensor_value_info(name, kind, None) for name in ("v", "l", "y")]
    graph = helper.make_graph(nodes, "halves", ports, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def test_bf16_is_computed_where_the_processor_does():
    """Sums are those of f32; what is done with a result is rounded once, and not each time."""
    package = byocir.compile(halves(), targets=["dnnl"])
    assert (len(package.report.regions), package.report.host) == (1, [])
    given = random_for(halves())
    try:
        found = package.run(given)
    except ByocirError as error:
        pytest.skip(error.message)
    for name, array in byocir.compile(halves(), targets=[]).run(given).items():
        assert found[name].dtype == array.dtype == ml_dtypes.bfloat16
        difference = np.abs(found[name].astype(np.float32) - array.astype(np.float32))
        assert difference.max() <= 2**-5 * np.abs(array.astype(np.float32)).max(), name


def test_bf16_may_be_left_to_others():
    report = byocir.compile(halves(), targets=["dnnl{bf16=false}"]).report
    assert report.regions == []
    assert any("bf16=true" in each.reason for each in report.reasons["Conv_0"])


def spelled_out():
    """Functions in the words of exporters, behind a convolution and alone, and with one number."""
    numbers = {
        "root": 2**0.5,
        "one": 1,
        "half": 0.5,
        "three": 3,
        "low": 0,
        "high": 6,
        "sixth": 1 / 6,
    }
    weights = np.random.default_rng(1).normal(size=(4, 3, 4, 3, 3)).astype(np.float32)
    constants = [numpy_helper.from_array(np.float32(v), name) for name, v in numbers.items()]
    constants += [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    nodes, results = [], []

    def add(op, *inputs):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"]))
        return nodes[-1].output[0]

    for a, b, c, d in ([add("Conv", "x", f"w{i}") for i in range(4)], [add("Neg", "x")] * 4):
        share = add("Add", add("Erf", add("Div", a, "root")), "one")
        results.append(add("Mul", add("Mul", a, share), "half"))
        results.append(add("Mul", add("Sigmoid", b), b))
        clipped = add("Clip", add("Add", c, "three"), "low", "high")
        results.append(add("Mul", add("Mul", c, clipped), "sixth"))
        results.append(add("Mul", d, add("Tanh", add("Softplus", d))))
    for op in ("Sub", "Max", "Min", "Div"):
        results += [add(op, "x", "half"), add(op, "half", add("Abs", "x"))]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6, 6])]
    outputs = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results]
    graph = helper.make_graph(nodes, "spelled", ports, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_functions_that_are_spelled_out_are_one():
    model = spelled_out()
    package = byocir.compile(model, targets=["dnnl"])
    taken = [composite.pattern for r in package.report.regions for composite in r.composites]
    assert (taken.count("dnnl.conv"), taken.count("dnnl.smooth")) == (4, 4)
    assert package.report.host == []
    given = feeds(model.SerializeToString(), 2)
    expect_close(package.run(given), byocir.compile(model, targets=[]).run(given))


def test_functions_are_right_far_from_zero():
    """Those that oneDNN has right: a softplus, whose logarithm may be taken, is not among them."""
    nodes = [helper.make_node("Softplus", ["x"], ["p"]), helper.make_node("Log", ["p"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [61]) for name in "xy"]
    graph = helper.make_graph(nodes, "tails", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    given = {"x": np.linspace(-30, 30, 61, dtype=np.float32)}
    found = byocir.compile(model, targets=["dnnl"]).run(given)["y"]
    np.testing.assert_allclose(found, np.log(np.log1p(np.exp(given["x"]))), rtol=1e-5)


@pytest.mark.parametrize(("size", "host"), [(4, 2), (512, 0)])
def test_the_host_keeps_what_is_too_little_for_a_call(size, host):
    nodes = [helper.make_node("MatMul", ["x", "x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size] * 2) for name in "xy"]
    graph = helper.make_graph(nodes, "product", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = {"targets": ["dnnl"], "host": "c{cpu=x86-64-v3}"}
    report = byocir.compile(model, objective="latency", **options).report
    assert len(report.host) == host
    told = {d.reason for d in report.reasons["MatMul_0"] if d.pattern == "dnnl.matmul"}
    assert any("on host" in reason and "on dnnl" in reason for reason in told)
    assert not any("decided nothing" in note for note in report.notes)
    assert byocir.compile(model, **options).report.host == []


def test_threads_give_the_same(library):
    model = NETS["encoder"](REDUCED)
    given = feeds(model, 1)
    one, two = (byocir.compile(model, targets=[f"dnnl{{threads={n}}}"]).run(given) for n in (1, 2))
    expect_close(two, one)
    with pytest.raises(ByocirError, match=r"threads of at least 0, found -1"):
        byocir.compile(model, targets=["dnnl{threads=-1}"])


@pytest.mark.parametrize(
    ("target", "host", "threads"),
    [
        ("dnnl", "c{threads=2}", 2),
        ("dnnl", "c", 1),
        ("dnnl", "reference", 1),
        ("dnnl{threads=3}", "c{threads=2}", 3),
    ],
)
def test_threads_are_those_of_the_host(target, host, threads):
    package = byocir.compile(small(), targets=[target], host=host)
    source = package.blobs["dnnl"]["regions.c"].decode()
    assert re.findall(r"dnnl_net_open\(.*, (\d+)\)", source) == [str(threads)]


CAST = "compute it in f32: cast what goes in and comes out"


@pytest.mark.parametrize(
    ("op", "dtype", "shapes", "told"),
    [
        (
            "Tanh",
            TensorProto.FLOAT,
            [[1, 2, 2, 2, 2, 2, 2]],
            r"in at most 6 dimensions, found tensor<\S+>; pin .*reshape",
        ),
        (
            "Conv",
            TensorProto.FLOAT16,
            [[1, 2, 4, 4], [2, 2, 1, 1]],
            f"f32 or bf16, found .*; {CAST}",
        ),
        ("Flatten", TensorProto.INT32, [[2, 2, 2]], f"f32, bf16 or bytes, found .*; {CAST}"),
        (
            "Conv",
            TensorProto.FLOAT,
            [[1, 2, 3, 3, 3, 3], [2, 2, 1, 1, 1, 1]],
            "three spatial dimensions, found 4; reshape to fewer",
        ),
    ],
)
def test_refusals_say_what_to_do(op, dtype, shapes, told):
    names = ["x", "w"][: len(shapes)]
    ports = [helper.make_tensor_value_info(n, dtype, s) for n, s in zip(names, shapes, strict=True)]
    result = helper.make_tensor_value_info("y", dtype, None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"])], "refused", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    reasons = byocir.compile(model, targets=["dnnl"]).report.reasons[f"{op}_0"]
    assert any(re.search(told, each.reason) for each in reasons)


def test_every_pattern_says_what_to_do():
    """Each tests an input in words, with a way out, or has rules with one."""
    for pattern in Dnnl.patterns:
        tests = [test for part in pattern.walk() for test in getattr(part, "tests", ())]
        fixes = [each.fix for each in (*tests, *pattern.rules)]
        assert any(fixes), pattern.name
        assert all(rule.fix for rule in pattern.rules), pattern.name


def test_weights_that_are_computed():
    """They are brought into oneDNN's order in each run; those of groups, too."""
    sizes = {"x": [1, 4, 6, 6], "w": [6, 2, 3, 3], "b": [6]}
    nodes = [
        helper.make_node("Tanh", ["w"], ["v"]),
        helper.make_node("Conv", ["x", "v", "b"], ["c"], group=2),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in sizes.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "computed", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    package = byocir.compile(model, targets=["dnnl"])
    assert package.report.host == []
    for seed in (1, 2):
        given = random_feeds(package.module, seed)
        expect_close(package.run(given), byocir.compile(model, targets=[]).run(given))


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("strides", "ceil_mode"), [([1, 1], 1), ([1, 2], 0)])
def test_windows_that_would_begin_in_the_pads(kind, strides, ceil_mode):
    """Where sizes are rounded up there are none, however many pads are asked for, and where they
    are not a stride may lead over them."""
    window = {"kernel_shape": [2, 1], "strides": strides, "pads": [0, 0, 0, 1]}
    window["ceil_mode"] = ceil_mode
    nodes = [helper.make_node(kind, ["x"], ["y"], **window)]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 3])]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "windows", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    package = byocir.compile(model, targets=["dnnl"])
    assert package.report.host == []
    given = random_feeds(package.module, 1)
    expect_close(package.run(given), byocir.compile(model, targets=[]).run(given))


MEANS = """
func.func @main(%0: tensor<1x4x4x8xi8>) -> tensor<1x4x2x4xi8> {
  %1 = graph.sum_pool %0 {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, kernel_shape = array<i64: 3, 1>, ceil_mode = 1 : i64} :
    (tensor<1x4x4x8xi8>) -> tensor<1x4x2x4xi32>
  %2 = graph.constant #graph.array<[0.25] : tensor<f32>>
  %3 = graph.requantize %1, %2 {rounding = #graph.float_half_even} :
    (tensor<1x4x2x4xi32>, tensor<f32>) -> tensor<1x4x2x4xi8>
  func.return %3 : tensor<1x4x2x4xi8>
}
"""


@on_vnni
def test_sums_of_windows_that_end_behind_the_image():
    module = parse_module(MEANS)
    given = random_feeds(module, 1)
    package = byocir.compile(module, targets=["dnnl"])
    assert package.report.regions
    expect_close(package.run(given), byocir.compile(parse_module(MEANS), targets=[]).run(given))

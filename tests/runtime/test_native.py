"""The host as C: whole models, what stays in the evaluator, builds and bytes."""

import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import onnx
import pytest
from c_host import build_together
from host_models import attention, depthwise_net, model_of
from onnx import TensorProto, helper
from qdq_models import small_net

import byocir
from byocir.cli.main import main
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.rewrites.host.c_host import CHost, c_host_of
from byocir.runtime.native import host_code, made_for
from byocir.runtime.report_text import summary
from byocir.toolchain import x86_64_features, x86_64_level
from byocir.toolchain.calling import FLAGS
from byocir.toolchain.cpu import fitting

DIGITS = "examples/digits/digits_int8.onnx"
DIGITS_F32 = "examples/digits/digits_f32.onnx"
SHAPES = {"image": (1, 1, 8, 8)}


def assert_equal(model, host="c", **options):
    reference, native = (byocir.compile(model, host=h, **options) for h in ("reference", host))
    return assert_same(native, reference)


def assert_same(native, reference, rtol=1e-5):
    feeds = random_feeds(reference.module)
    expected, found = reference.run(feeds), native.run(feeds)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        if array.dtype.kind == "f":
            np.testing.assert_allclose(found[name], array, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(found[name], array)
    return native


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("digits_int8_per_channel", ["vta"]),
        ("digits_f32", []),
        ("digits_int8_per_channel", []),
    ],
)
def test_digits(name, targets):
    reference, generic, own = (
        byocir.compile(f"examples/digits/{name}.onnx", shapes=SHAPES, targets=targets, host=host)
        for host in ("reference", "c{cpu=generic}", "c")
    )
    memory = assert_same(generic, reference, rtol=0).report.memory
    assert 0 < memory["arena"] <= 1.1 * memory["arena_lower_bound"]
    assert_same(own, reference)


def test_a_mobile_net_and_attention_need_no_evaluator():
    for model in (depthwise_net(), attention()):
        native = assert_equal(model, targets=[])
        assert host_code(native.module).calls == []


def test_what_has_no_c_runs_in_the_evaluator():
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Det", ["r"], ["d"]),
        helper.make_node("Neg", ["d"], ["n"]),
    ]
    native = assert_equal(model_of(nodes, {"x": (2, 3, 3)}, ["n"]), targets=[])
    assert [call.op.name for call in host_code(native.module).calls] == ["graph.foreign"]


def test_halves_and_routines_need_no_evaluator():
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"]),
        helper.make_node("Cast", ["v"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Neg", ["h"], ["n"]),
    ]
    model = model_of(nodes, {"x": (2, 9)}, ["n", "i"], {"k": np.array([3])})
    native = assert_equal(model, targets=[])
    assert host_code(native.module).calls == []


def test_a_convolutions_input_has_other_users():
    """They read it in its own layout, which it keeps."""
    weights = {"w": np.ones((4, 2, 2, 2), np.float32), "s": np.array([2, 0]), "k": np.array([2])}
    nodes = [
        helper.make_node("Split", ["x", "s"], ["a", "b"], axis=1),
        helper.make_node("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("TopK", ["a", "k"], ["v", "i"], axis=3),
    ]
    assert_equal(model_of(nodes, {"x": (2, 2, 4, 3)}, ["c", "v"], weights), targets=[])


def test_of_what_is_looked_up_a_triangle_is_kept():
    """Blocks that look elements up have no guards."""
    weights = {"i": np.random.default_rng(0).integers(0, 6, 40)}
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["g"]),
        helper.make_node("Trilu", ["g"], ["y"], upper=1),
    ]
    assert_equal(model_of(nodes, {"x": (6, 5)}, ["y"], weights), targets=[])


def test_a_product_may_be_one_number():
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=9).astype(np.float32)}
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["p"]),
        helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0),
    ]
    assert_equal(model_of(nodes, {"x": (9,)}, ["y"], weights), targets=[])


def test_a_products_result_is_looked_up():
    """Where it is looked up it is as long as it was, whatever tiles computed beside it."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(6, 5)).astype(np.float32), "s": np.array([1, 2, 6, 7])}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Resize", ["p", "", "", "s"], ["y"], mode="linear"),
    ]
    assert_equal(model_of(nodes, {"x": (1, 2, 3, 6)}, ["y"], weights), targets=[])


@pytest.mark.parametrize("yes", [True, False])
def test_graphs_of_control_flow_read_values_around_them(yes):
    """A branch that is taken finds what it captures in the C code's memory."""

    def branch(kind):
        out = helper.make_tensor_value_info(kind, TensorProto.FLOAT, [2, 3])
        return helper.make_graph([helper.make_node(kind, ["r"], [kind])], kind, [], [out])

    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "least"], ["c"]),
        helper.make_node("If", ["c"], ["i"], then_branch=branch("Sqrt"), else_branch=branch("Neg")),
        helper.make_node("Add", ["i", "x"], ["y"]),
    ]
    weights = {"least": np.array(-9 if yes else 9, np.float32)}
    package = assert_equal(model_of(nodes, {"x": (2, 3)}, ["y"], weights), targets=[])
    assert package.report.host_runs_on == "c"


def test_an_error_of_a_call_reaches_the_caller(monkeypatch):
    model = model_of([helper.make_node("Det", ["x"], ["d"])], {"x": (3, 3)}, ["d"])
    package = byocir.compile(model, targets=[], host="c")
    from byocir.runtime import native

    def fail(op):
        raise ByocirError("B301", "expected this")

    monkeypatch.setattr(native, "rule_of", fail)
    with pytest.raises(ByocirError, match="expected this"):
        package.run({"x": np.zeros((3, 3), np.float32)})


def test_constants_without_elements_stand_before_others():
    nodes = [
        helper.make_node("Gather", ["x", "none"], ["rows"], axis=0),
        helper.make_node("Add", ["x", "b"], ["z"]),
        helper.make_node("Mul", ["z", "c"], ["y"]),
    ]
    constants = {
        "none": np.zeros(0, np.int64),
        "b": np.float32([10, 20, 30]),
        "c": np.float32([[1, 2, 3], [4, 5, 6]]),
    }
    assert_equal(model_of(nodes, {"x": (2, 3)}, ["rows", "y"], constants))


def test_a_package_keeps_its_host(tmp_path):
    package = byocir.compile(small_net(), host="c")
    path = tmp_path / "small.bpkg"
    package.save(path)
    loaded = byocir.load(path)
    assert loaded.report.host_runs_on == "c"
    feeds = random_feeds(package.module)
    np.testing.assert_array_equal(*(p.run(feeds)["logits"] for p in (package, loaded)))


def test_the_command_line(tmp_path, capsys):
    model = tmp_path / "small.onnx"
    onnx.save(small_net(), model)
    assert main(["run", str(model), "--host", "c", "--verify"]) == 0
    assert "host: c" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("rust", "B225.*expected host reference or c, found 'rust'"),
        ("c{cpu=x86-64-v5}", "B229.*expected a cpu of .*, found 'x86-64-v5'"),
        ("c{speed=9}", "B229.*expected an option, found 'speed'"),
        ("c{threads=0}", "B229.*expected 1 to 1024 threads, found 0"),
        ("c{threads=two}", "B229.*expected option threads as int, found two"),
        ("c{", "B229.*expected options as"),
    ],
)
def test_hosts_that_are_refused(host, message):
    with pytest.raises(ByocirError, match=message):
        byocir.compile(DIGITS, shapes=SHAPES, host=host)


def test_the_module_names_what_its_code_is_made_for(tmp_path):
    package = byocir.compile(attention(), targets=[], host="c{cpu=native,threads=2}")
    package.save(tmp_path / "attention.bpkg")
    host = c_host_of(byocir.load(tmp_path / "attention.bpkg").module)
    assert host == CHost(fitting(x86_64_level(), x86_64_features()).name, 2)


def test_another_processor_gives_other_bytes():
    hosts = ("c{cpu=generic}", "c{cpu=x86-64-v3}", "c{cpu=x86-64-v4 threads=2}")
    packages = [byocir.compile(DIGITS_F32, shapes=SHAPES, targets=[], host=h) for h in hosts]
    sources = [host_code(package.module).source for package in packages]
    assert len(set(sources)) == 3
    assert ["FUSED void" in source for source in sources] == [False, True, True]
    assert ["OMP(for" in source for source in sources] == [False, False, True]


def test_code_for_another_processor_is_refused(monkeypatch):
    package = byocir.compile(attention(), targets=[], host="c{cpu=x86-64-v4}")
    monkeypatch.setattr("byocir.toolchain.machine.x86_64_level", lambda: 2)
    with pytest.raises(ByocirError, match=r"B405.*expected a machine that runs x86-64-v4"):
        package.run(random_feeds(package.module))


@pytest.mark.skipif(x86_64_level() < 3, reason="no instruction that fuses")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_contractions_alone_are_fused(compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    package = byocir.compile(depthwise_net(), targets=[], host="c{cpu=x86-64-v3}")
    code = host_code(package.module)
    (tmp_path / "model.h").write_text(code.header)
    (tmp_path / "model.c").write_text(code.source)
    command = [compiler, *made_for(code.host), *FLAGS, "-fno-inline", "-S", "model.c"]
    subprocess.run([c for c in command if c != "-lm"], cwd=tmp_path, check=True)
    fused, name = Counter[bool](), ""
    for line in (tmp_path / "model.s").read_text().splitlines():
        label = re.match(r"(\w+):", line)
        name = label.group(1) if label else name
        fused[name.startswith("tile_")] += "vfmadd" in line
    assert fused[True] > 0
    assert fused[False] == 0


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_sources_are_clean_c99(compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    for i, model in enumerate([DIGITS, depthwise_net(), attention()]):
        shapes = SHAPES if model is DIGITS else None
        package = byocir.compile(model, shapes=shapes, targets=[], host="c")
        code = host_code(package.module)
        (tmp_path / "model.h").write_text(code.header)
        source = tmp_path / f"model_{i}.c"
        source.write_text(code.source)
        flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-c"]
        subprocess.run([compiler, *flags, source.name], cwd=tmp_path, check=True)


def test_names_that_c_does_not_allow():
    nodes = [helper.make_node("Add", ["int", "a b"], ["*/ é"])]
    model = model_of(nodes, {"int": (2,), "a b": (2,)}, ["*/ é"])
    assert isinstance(model, onnx.ModelProto)
    assert_equal(model, targets=[])


def compiler_without(flag, folder, monkeypatch):
    """A compiler that refuses a flag, and the file that lists what it was asked."""
    real = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    wrapper, asked = folder / "cc", folder / "asked"
    refuse = f'case "$*" in *{flag}*) echo "error: no" >&2; exit 1;; esac'
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {asked}\n{refuse}\n{real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("BYOCIR_CACHE", str(folder / "cache"))
    return asked


@pytest.mark.skipif(x86_64_level() < 2, reason="no flags")
@pytest.mark.parametrize(("missing", "kept"), [("-march=", "-fopenmp"), ("-fopenmp", "-march=")])
def test_a_compiler_without_processors_or_threads_will_do(missing, kept, tmp_path, monkeypatch):
    asked = compiler_without(missing, tmp_path, monkeypatch)
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = model_of(nodes, {"x": (5,)}, ["y"])
    package = assert_equal(model, targets=[], host="c{cpu=x86-64-v2,threads=2}")
    (told,) = package.report.built_without
    assert f"note: {told}" in summary(package.report)
    assert (
        told
        == {
            "-march=": "the C compiler does not know -march=x86-64-v2: the host is built for any "
            "processor",
            "-fopenmp": "the C compiler has no OpenMP: the host runs on 1 thread instead of 2",
        }[missing]
    )
    built = asked.read_text().splitlines()[-1]
    assert "model.c" in built
    assert kept in built
    assert missing not in built


def test_c_that_a_compiler_refuses_is_not_tried_again(monkeypatch, tmp_path):
    asked = compiler_without("model.c", tmp_path, monkeypatch)
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    package = byocir.compile(model_of(nodes, {"x": (5,)}, ["y"]), targets=[], host="c{threads=2}")
    with pytest.raises(ByocirError, match="B403"):
        package.run({"x": np.zeros(5, np.float32)})
    assert sum("model.c" in line for line in asked.read_text().splitlines()) == 1


def test_many_packages_are_built_as_one_library(monkeypatch, tmp_path):
    asked = compiler_without("nothing", tmp_path, monkeypatch)
    operators = ("Neg", "Exp", "Softmax")
    models = [
        model_of([helper.make_node(op, ["x"], ["y"])], {"x": (2, 3)}, ["y"]) for op in operators
    ]
    packages = [byocir.compile(model, targets=[], host="c{cpu=generic}") for model in models]
    build_together([p.host_program(f"model{i}") for i, p in enumerate(packages)])
    x = np.array([[1, -2, 3], [0, 5, -1]], np.float32)
    for package, model in zip(packages, models, strict=True):
        expected = byocir.compile(model, targets=[]).run({"x": x})["y"]
        np.testing.assert_allclose(package.run({"x": x})["y"], expected, rtol=1e-6)
    builds = [line for line in asked.read_text().splitlines() if "-O3" in line]
    assert len(builds) == 1

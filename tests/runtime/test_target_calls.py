"""Targets from outside at work: what they may do, and how their mistakes are told."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import onnx
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.dialects.graph import ReluOp
from byocir.dialects.types import f32, tensor
from byocir.errors import OwnMistake
from byocir.patterns import Composite, RegionPolicy, op, wildcard
from byocir.patterns.target_classes import register
from byocir.patterns.targets import find, targets_of
from byocir.runtime.export import export_project
from byocir.targets.c import ARRAYS, CTarget

RELU = Composite("npu.relu", (op("graph.relu", wildcard("x")),))
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits_int8.onnx"


@dataclass(frozen=True)
class OwnPass(ModulePass):
    """A pass of the target's own, with its mistakes."""

    mistake: str
    name: ClassVar[str] = "npu-own"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.mistake == "a pass raises":
            raise KeyError("op")
        for each in op.walk():
            if isinstance(each, ReluOp):
                each.results[0].type = tensor(f32, (9,))


@dataclass(frozen=True)
class Npu(byocir.Target):
    """Runs relu in numpy, with the mistake it is told."""

    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (RELU,)

    mistake: str = ""

    codegen_level: ClassVar[Literal["graph", "tensor"]] = "tensor"

    def __post_init__(self) -> None:
        if self.mistake == "options raise":
            raise KeyError("option")

    def composites(self) -> Any:
        if self.mistake == "composites raise":
            raise KeyError("pattern")
        return 3 if self.mistake == "composites are a number" else self.patterns

    @property
    def fixed_point(self) -> Any:
        if self.mistake == "fixed_point raises":
            raise KeyError("rounding")
        return 5 if self.mistake == "fixed_point is a number" else ""

    @property
    def region_policy(self) -> Any:
        if self.mistake == "policy raises":
            raise KeyError("policy")
        return None if self.mistake == "policy is none" else RegionPolicy(merge="none")

    def cost(self, composite: str, ops: Any) -> Any:
        if self.mistake == "cost raises":
            raise KeyError("cost")
        costs = {"cost is nan": float("nan"), "cost is below zero": -1.0}
        costs |= {"cost is infinite": float("inf"), "cost is true": True, "cost is text": "cheap"}
        found = {"latency": costs.get(self.mistake, 1.0)}
        return None if self.mistake == "cost is none" else found

    def lower(self, composite: Any, emit: Any) -> Any:
        if self.mistake == "lower raises":
            raise KeyError("block")
        return None

    def passes(self, point: str) -> Any:
        if self.mistake == "passes raise":
            raise KeyError("pass")
        if self.mistake.startswith("a pass") and point == "before-match":
            return [OwnPass(self.mistake)]
        numbers: Any = {"passes are numbers": [3], "passes are a number": 5}
        return numbers.get(self.mistake, "clean-up")

    def emit(self, module: Any, symbols: Sequence[str]) -> Mapping[str, bytes]:
        if self.mistake == "emits none":
            return None  # type: ignore[return-value]
        if self.mistake == "emit exits":
            raise SystemExit
        names = {"emits elsewhere": "../evil", "emits no text": "a\0b"}
        return {names.get(self.mistake, "code"): " ".join(symbols).encode()}

    def device(self, blobs: Mapping[str, bytes]) -> Any:
        raise KeyError("device")

    def load(self, blobs: Mapping[str, bytes]) -> Any:
        if self.mistake == "load raises":
            raise OSError("no device")
        buffer = np.zeros((2, 3), np.float32)

        def run(symbol: str, inputs: Sequence[np.ndarray]) -> Any:
            if self.mistake == "runner raises":
                raise ZeroDivisionError("code")
            out = inputs[0] if self.mistake == "writes inputs" else buffer
            return [np.maximum(inputs[0], 0, out=out)]

        return {"no load": None, "loads a number": 3}.get(self.mistake, run)

    def profile(self, blobs: Mapping[str, bytes]) -> Any:
        if self.mistake == "profile raises":
            raise ValueError("time")
        profiles: Any = {"profile is a dict": {"npu_0": 1}, "profile is of numbers": [1]}
        return profiles.get(self.mistake, ())


def model() -> onnx.ModelProto:
    """y = relu(x) + relu(-x), the size of x."""

    def info(name: str) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])

    nodes = [
        onnx.helper.make_node(kind, inputs, [output], output)
        for kind, inputs, output in (
            ("Relu", ["x"], "p"),
            ("Neg", ["x"], "n"),
            ("Relu", ["n"], "q"),
            ("Add", ["p", "q"], "y"),
        )
    ]
    graph = onnx.helper.make_graph(nodes, "g", [info("x")], [info("y")])
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )


@pytest.mark.parametrize("host", ["reference", "c"])
def test_a_runner_may_give_the_same_buffer_each_time(host: str):
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    package = byocir.compile(model(), targets=[Npu()], host=host)
    np.testing.assert_array_equal(package.run({"x": x})["y"], np.abs(x))


@pytest.mark.parametrize("host", ["reference", "c"])
def test_a_runner_cannot_write_its_inputs(host: str):
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    kept = x.copy()
    package = byocir.compile(model(), targets=[Npu(mistake="writes inputs")], host=host)
    with pytest.raises(byocir.ByocirError, match=r"B219.*ValueError: output array is read-only"):
        package.run({"x": x})
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("passes raise", r"B219.*failed in passes with KeyError: 'pass'\n.*\.py:\d+"),
        ("a pass raises", r"B219.*'npu' failed in pass npu-own with KeyError: 'op'\n.*\.py:\d+"),
        ("a pass breaks", r"B219.*'npu' failed in pass npu-own with (.|\n)*\.py:\d+"),
        ("composites raise", r"B219.*failed in composites with KeyError: 'pattern'\n.*\.py:\d+"),
        ("composites are a number", r"B228.*composites of target 'npu' to give .*found int"),
        ("fixed_point raises", r"B219.*failed in fixed_point with KeyError.*\n.*\.py:\d+"),
        ("policy raises", r"B219.*failed in region_policy with KeyError.*\n.*\.py:\d+"),
        ("policy is none", r"B228.*region_policy of target 'npu' to give a RegionPolicy, found No"),
        ("cost raises", r"B219.*failed in cost with KeyError: 'cost'\n.*\.py:\d+"),
        ("cost is none", r"B228.*'npu' to give numbers by objective, as .*1e-6}, found NoneType"),
        ("cost is text", r"B228.*'npu' to give latency as a finite .* 0, found cheap for npu.relu"),
        ("lower raises", r"B219.*failed in lower with KeyError: 'block'\n.*\.py:\d+"),
        ("passes are numbers", r"B228.*passes of target 'npu' .* before-match, found int"),
        ("passes are a number", r"B228.*passes of target 'npu' .* before-match, found int"),
        ("fixed_point is a number", r"B228.*fixed_point of target 'npu' to give text, found int"),
        ("cost is nan", r"B228.*'npu' to give latency as a finite .* 0, found nan for npu.relu"),
        ("cost is below zero", r"B228.*finite number of at least 0, found -1.0 for npu.relu"),
        ("cost is infinite", r"B228.*finite number of at least 0, found inf for npu.relu"),
        ("cost is true", r"B228.*finite number of at least 0, found True for npu.relu"),
        ("emit exits", r"B219.*failed in emit with SystemExit.*\n.*\.py:\d+"),
        ("profile is a dict", r"B228.*profile of target 'npu' to give a list of Profile, found di"),
        ("profile is of numbers", r"B228.*to give a list of Profile, found int"),
        ("emits elsewhere", r"B218.*'\.\./evil'"),
        ("emits no text", r"B218.*found bytes for 'a\\x00b'"),
        ("emits none", r"B218.*by plain names, found NoneType"),
        ("profile raises", r"B219.*failed in profile with ValueError: time"),
    ],
)
def test_mistakes_while_compiling(mistake: str, message: str):
    with pytest.raises(byocir.ByocirError, match=message):
        byocir.compile(model(), targets=[Npu(mistake=mistake), "json"], objective="latency")


@dataclass(frozen=True)
class Dsp(CTarget):
    """Writes C, with the mistake it is told."""

    name: ClassVar[str] = "dsp"
    patterns: ClassVar[tuple[Composite, ...]] = (RELU.renamed("relu"),)
    mistake: str = ""

    def define(self, function: Any, name: str) -> Any:
        if self.mistake == "define raises":
            raise KeyError("kernel")
        texts = {"nothing": None, "fails": "return 7;", "is no C": "retrn 0;"}
        if self.mistake == "calls nothing":
            return f"int gone(void); int {name}({ARRAYS}) {{ return gone(); }}"
        if self.mistake == "is another":
            name = "another"
        text = texts.get(self.mistake, "return 0;")
        return None if text is None else f"int {name}({ARRAYS}) {{ {text} }}"


@dataclass(frozen=True)
class Undefined(CTarget):
    """Does not say how regions become C."""

    name: ClassVar[str] = "undefined"
    patterns: ClassVar[tuple[Composite, ...]] = (RELU.renamed("relu"),)


@dataclass(frozen=True)
class OneFile(Dsp):
    """Forgets the name of its file."""

    library: ClassVar[Any] = "static int one(void);"


@dataclass(frozen=True)
class OneHeader(Dsp):
    """Forgets a comma."""

    headers: ClassVar[Any] = "math.h"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Dsp("define raises"), r"B219.*failed in emit with KeyError: 'kernel'"),
        (Dsp("nothing"), r"B228.*define of target 'dsp' to give C as text, found NoneType"),
        (Dsp("fails"), r"B219.*failed in run with CodeFailed: the code of dsp_0 gave 7"),
        (Dsp("is no C"), r"B403(.|\n)*regions.c:\d+(.|\n)*retrn"),
        (Dsp("calls nothing"), r"B404.*undefined symbol: gone"),
        (Dsp("is another"), r"B219.*CodeFailed: the code of dsp_0 defines no function dsp_0"),
        (OneFile(), r"B228.*library of target 'dsp' to give C files by name, found str"),
        (OneHeader(), r"B228.*headers of target 'dsp' to give a tuple of texts, found str"),
        (Undefined(), r"B219.*failed in emit with NotImplementedError: Undefined does not say"),
    ],
)
def test_mistakes_of_targets_in_c_are_in_their_own_files(target: CTarget, message: str):
    with pytest.raises(byocir.ByocirError, match=message) as caught:
        byocir.compile(model(), targets=[target]).run({"x": np.zeros((2, 3), np.float32)})
    place = rf"{re.escape(__file__)}:\d+(, region dsp_0 of \S.*)?"
    assert re.fullmatch(place, caught.value.where) or "B228" in message


def test_hooks_may_be_attributes():
    @dataclass(frozen=True)
    class Plain(byocir.Target):
        name: ClassVar[str] = "plain"
        patterns: ClassVar[tuple[Composite, ...]] = (RELU.renamed("relu"),)
        region_policy: ClassVar[RegionPolicy] = RegionPolicy(merge="none")  # type: ignore[misc]
        fixed_point: str = "half_up"  # type: ignore[assignment]

    for rounding in ("half_up", ""):
        package = byocir.compile(model(), targets=[Plain(rounding)])
        assert len(package.report.regions) == 2
    with pytest.raises(byocir.ByocirError, match=r"B291.*"):
        byocir.compile(model(), targets=[Plain("down")])


def test_mistakes_while_exporting():
    package = byocir.compile(model(), targets=[Npu()], host="c")
    with pytest.raises(byocir.ByocirError, match=r"B219.*failed in device with KeyError: 'device'"):
        export_project(package)


def test_mistakes_in_options():
    register("npu", Npu)
    with pytest.raises(byocir.ByocirError, match=r"B219.*failed in its options with KeyError"):
        byocir.compile(model(), targets='npu{mistake="options raise"}')
    with pytest.raises(
        byocir.ByocirError, match=r"B213.*option mistake of .*'npu' as str, found 3"
    ):
        byocir.compile(model(), targets="npu{mistake=3}")


def test_options_of_any_letters_come_back_from_a_package(tmp_path: Path):
    path = tmp_path / "a.bpkg"
    given = Npu(mistake="keine, \u00e9 \u4e2d")
    byocir.compile(model(), targets=[given]).save(path)
    package = byocir.load(path, targets=[given])
    (target,) = targets_of(package.module)
    assert find(target) == given
    assert package.run({"x": np.zeros((2, 3), np.float32)})["y"].shape == (2, 3)


def test_a_package_keeps_its_options(tmp_path: Path):
    path = tmp_path / "a.bpkg"
    byocir.compile(model(), targets=[Npu()]).save(path)
    with pytest.raises(byocir.ByocirError, match=r"B213.*targets of a package without options"):
        byocir.load(path, targets=['npu{mistake="no load"}'])
    with pytest.raises(byocir.ByocirError, match=r"B210.*unknown target 'npv'"):
        byocir.load(path, targets=["npv"])


@pytest.mark.parametrize(
    ("broken", "hook"),
    [
        ("byocir.targets.vta_emit.files_of", "emit"),
        ("byocir.targets.vta_runs.runner_of", "load"),
        ("byocir.targets.vta_runs.Executable.run", "run"),
    ],
)
def test_a_mistake_of_byocirs_own_targets_is_one_message(
    broken: str, hook: str, small: str, monkeypatch: pytest.MonkeyPatch
):
    feeds = {"x": np.zeros((1, 16, 8, 8), np.float32)}
    monkeypatch.setattr(broken, None)
    with pytest.raises(OwnMistake) as caught:
        byocir.compile(small).run(feeds)
    error = caught.value
    assert error.code == "B232"
    assert error.message.startswith(f"target 'vta' failed in {hook} with TypeError: 'NoneType'")
    assert re.fullmatch(r"byocir\.targets\.\w+:\d+(, region vta_0 of .+)?", error.where)
    assert "please report it" in error.help


def test_a_mistake_of_byocir_is_no_mistake_of_a_class_that_inherits_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("byocir.targets.c.CTarget.device", None)
    source = f"int dsp_0({ARRAYS}) {{ return 0; }}"
    monkeypatch.setattr(Dsp, "define", lambda *_: source)
    with pytest.raises(OwnMistake, match=r"B232.*'dsp' failed in load with TypeError"):
        byocir.compile(model(), targets=[Dsp()]).run({"x": np.zeros((2, 3), np.float32)})


def test_a_call_of_byocir_that_fails_is_told_with_the_line_that_calls():
    @dataclass(frozen=True)
    class Caller(Npu):
        name: ClassVar[str] = "caller"
        patterns: ClassVar[tuple[Composite, ...]] = (RELU.renamed("relu"),)

        def emit(self, module: Any, symbols: Sequence[str]) -> Mapping[str, bytes]:
            return {"code": tensor(f32, symbols[0]).encode()}  # type: ignore

    with pytest.raises(byocir.ByocirError) as caught:
        byocir.compile(model(), targets=[Caller()])
    assert (caught.value.code, caught.value.where.rpartition(":")[0]) == ("B219", __file__)
    assert re.search(r"called byocir\.dialects\.types:\d+ of byocir, which", caught.value.help)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("no load", r"B227.*found no load"),
        ("loads a number", r"B227.*found int"),
        ("load raises", r"B219.*failed in load with OSError: no device\n.*\.py:\d+"),
        ("runner raises", r"B219.*failed in run with ZeroDivisionError: code\n.*\.py:\d+"),
    ],
)
def test_mistakes_while_running(mistake: str, message: str):
    package = byocir.compile(model(), targets=[Npu(mistake=mistake)])
    with pytest.raises(byocir.ByocirError, match=message):
        package.run({"x": np.zeros((2, 3), np.float32)})


def test_a_package_keeps_its_targets_whatever_is_called_like_them_later(tmp_path: Path):
    """Who tries things out in a notebook writes a class again and again."""

    def constant(value: float) -> byocir.Target:
        @dataclass(frozen=True)
        class Again(byocir.Target):
            name: ClassVar[str] = "again"
            patterns: ClassVar[tuple[Composite, ...]] = (RELU.renamed("relu"),)

            @property
            def region_policy(self) -> RegionPolicy:
                return RegionPolicy(merge="none")

            def emit(self, module: Any, symbols: Sequence[str]) -> Mapping[str, bytes]:
                return {"code": b"any"}

            def load(self, blobs: Mapping[str, bytes]) -> Any:
                return lambda symbol, inputs: [np.full_like(each, value) for each in inputs]

        return Again()

    feeds = {"x": np.zeros((2, 3), np.float32)}
    first = byocir.compile(model(), targets=[constant(1)])
    first.save(tmp_path / "first.bpkg")
    loaded = byocir.load(tmp_path / "first.bpkg", targets=[constant(2)])
    second = byocir.compile(model(), targets=[constant(3)])
    assert [p.run(feeds)["y"][0, 0] for p in (first, loaded, second)] == [2, 4, 6]


@pytest.mark.parametrize("targets", [Npu, 3, [Npu], [None]])
def test_what_is_no_target(targets: Any):
    with pytest.raises(byocir.ByocirError, match=r"B216.*a target's name or an instance of"):
        byocir.compile(model(), targets=targets)


@pytest.mark.parametrize("value", [Path("x"), b"x", 2**70, np.int64(3), ((1,), (2,)), {"a": 1}])
def test_options_that_no_module_can_carry(value: Any):
    @dataclass(frozen=True)
    class Odd(Npu):
        name: ClassVar[str] = "odd"
        lanes: Any = 1

    with pytest.raises(byocir.ByocirError, match=r"B213.*option lanes of target 'odd' to be a"):
        byocir.compile(model(), targets=[Odd(lanes=value)])


@pytest.mark.parametrize("host", ["reference", "c"])
def test_threads_take_turns(host: str, small: str):
    package = byocir.compile(small, host=host)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.random((1, 16, 8, 8), np.float32)} for _ in range(40)]
    expected = [[*package.run(feed).values()] for feed in feeds]
    with ThreadPoolExecutor(4) as threads:
        found = [[*outputs.values()] for outputs in threads.map(package.run, feeds)]
    np.testing.assert_array_equal(found, expected)


def test_a_target_of_floats_is_not_told_to_quantise():
    """What it missed is told as a share of the work."""
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [2, 4]), ("y", [2, 3]))
    )
    weights = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weights])
    opsets = [onnx.helper.make_opsetid("", 17)]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (note,) = byocir.compile(proto, targets=[Npu()]).report.notes
    assert note.startswith("100.0 % of the multiply-accumulates stay on the host: product (24)")
    (note,) = byocir.compile(proto, targets="vta").report.notes
    assert note.startswith("nothing was offloaded to vta: the model's tensors are f32")

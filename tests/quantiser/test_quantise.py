"""`byocir quantise`: nets in the form that a target wants, and what it says of bad data."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.lib import format as npy
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.cli.main import main
from byocir.patterns.policy import Quantisation
from byocir.quantiser.quantise import Quantised, quantise

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
FLOAT, DATA = DIGITS / "digits_f32.onnx", DIGITS / "digits_test.npz"
SHAPES = {"image": (1, 1, 8, 8)}


def samples(count: int = 450) -> dict[str, np.ndarray]:
    return {name: array[:count] for name, array in np.load(DATA).items()}


@cache
def digits(powers_of_two: bool) -> Quantised:
    return quantise(FLOAT, samples(), powers_of_two=powers_of_two)


def cycles(made: Quantised) -> int:
    package = byocir.compile(made.model, targets=["vta"], shapes=SHAPES)
    assert package.report.macs["host"] == 0
    return sum(program.cycles for program in package.profile())


@pytest.mark.parametrize("powers_of_two", [False, True])
def test_digits_lose_at_most_half_a_point(powers_of_two: bool):
    made = digits(powers_of_two)
    assert made.samples == 450
    assert made.float_accuracy.right - made.accuracy.right <= 0.005
    package = byocir.compile(made.model, targets=["vta"], shapes={"image": (150, 1, 8, 8)})
    right = 0
    for part in range(0, 450, 150):
        scores = package.run({"image": samples()["image"][part : part + 150]})["logits"]
        right += int((scores.argmax(axis=1) == samples()["label"][part : part + 150]).sum())
    assert made.float_accuracy.right - right / 450 <= 0.005


def test_powers_of_two_take_vta_less_time():
    assert cycles(digits(True)) < cycles(digits(False))


def net(batch: int | str | None) -> onnx.ModelProto:
    """A product of weights and an input of 6 numbers, with an axis for samples unless None."""
    leading = [] if batch is None else [batch]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [*leading, size])
        for name, size in (("x", 6), ("y", 3))
    ]
    weight = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    graph = helper.make_graph(
        nodes, "net", values[:1], values[1:], [numpy_helper.from_array(weight, "w")]
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def saved(path: Path, batch: int | str | None) -> Path:
    onnx.save(net(batch), path)
    return path


@pytest.mark.parametrize(("batch", "used"), [("n", 10), (1, 10), (4, 8), (None, 10)])
def test_samples_are_fed_in_the_models_batch(batch: int | str | None, used: int, tmp_path: Path):
    x = np.random.default_rng(1).standard_normal((10, 6)).astype(np.float32)
    made = quantise(saved(tmp_path / "net.onnx", batch), {"x": x})
    assert made.samples == used
    assert 0 < made.accuracy.distance < 0.05


@pytest.mark.parametrize("batch", ["n", 1, None])
def test_inputs_without_an_axis_for_samples_take_one_at_a_time(batch, tmp_path: Path):
    """A number, beside an input with or without such an axis."""
    model = net(batch)
    model.graph.input.append(helper.make_tensor_value_info("by", TensorProto.FLOAT, []))
    model.graph.node.append(helper.make_node("Mul", ["y", "by"], ["scaled"]))
    model.graph.output[0].name = "scaled"
    random = np.random.default_rng(1)
    x, by = random.standard_normal((10, 6)), random.uniform(1, 2, 10)
    onnx.save(model, path := tmp_path / "net.onnx")
    made = quantise(path, {"x": x.astype(np.float32), "by": by.astype(np.float32)})
    assert made.samples == 10
    assert 0 < made.accuracy.distance < 0.05


@dataclass(frozen=True)
class Asymmetric(byocir.Target):
    name = "asymmetric"

    @property
    def quantisation(self) -> Quantisation:
        return Quantisation(symmetric=False)


@pytest.mark.parametrize(("target", "has_zero_points"), [(Asymmetric(), True), ("json", False)])
def test_a_target_says_if_there_are_zero_points(target, has_zero_points: bool, tmp_path: Path):
    x = np.random.default_rng(1).uniform(0, 1, (10, 6)).astype(np.float32)
    made = quantise(saved(tmp_path / "net.onnx", "n"), {"x": x}, target=target)
    zeros = [
        numpy_helper.to_array(each)
        for each in made.model.graph.initializer
        if each.name.endswith("zero_point")
    ]
    assert any(zero.any() for zero in zeros) == has_zero_points


@dataclass(frozen=True)
class Careless(byocir.Target):
    name = "careless"
    quantisation = {"symmetric": True}


def test_a_target_that_says_nonsense_is_told_so(tmp_path: Path):
    with pytest.raises(byocir.ByocirError, match=r"B228.*Quantisation"):
        quantise(saved(tmp_path / "net.onnx", "n"), {}, target=Careless())


BAD_DATA = [
    ({}, "expected an array 'x'"),
    ({"x": np.zeros((10, 7), np.float32)}, "expected samples of ?x6"),
    ({"x": np.zeros((10, 6))}, "expected float32"),
    ({"x": np.zeros((0, 6), np.float32)}, "expected at least 1 samples"),
    ({"x": np.full((2, 6), np.nan, np.float32)}, "expected finite numbers"),
]


@pytest.mark.parametrize(("data", "message"), BAD_DATA)
def test_data_that_do_not_fit_are_refused(data, message: str, tmp_path: Path):
    with pytest.raises(byocir.ByocirError) as error:
        quantise(saved(tmp_path / "net.onnx", "n"), data)
    assert error.value.code == "B392"
    assert message in str(error.value)


def test_a_model_of_an_old_opset_gets_scales_by_channel(tmp_path: Path):
    """DequantizeLinear has no axis before opset 13, and biases are by channel."""
    make, rng = helper.make_tensor_value_info, np.random.default_rng(0)
    values = [
        make(name, TensorProto.FLOAT, [1, channels, 8, 8])
        for name, channels in (("x", 3), ("y", 4))
    ]
    constants = {"w": rng.standard_normal((4, 3, 3, 3)), "b": rng.standard_normal(4)}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv", pads=[1, 1, 1, 1])],
        "net",
        values[:1],
        values[1:],
        [numpy_helper.from_array(np.float32(array), name) for name, array in constants.items()],
    )
    path = tmp_path / "old.onnx"
    opsets = [helper.make_opsetid("", 11)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=7), path)
    data = {"x": rng.standard_normal((8, 3, 8, 8)).astype(np.float32)}
    made = quantise(path, data, per_channel=True, powers_of_two=False)
    assert made.accuracy.distance < 0.05
    axes = [n for n in made.model.graph.node if any(a.name == "axis" for a in n.attribute)]
    assert {node.input[0] for node in axes} == {"w_quantized", "b_quantized"}


OLD = """<ir_version: 7, opset_import: ["" : 11]>
net (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y)
<float[4, 3, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[4] s = {1, 2, 3, 4},
 float[4] b = {0, 1, 2, 3}> {
  z = Conv (x, w)
  y = BatchNormalization (z, s, b, b, s)
}"""


def test_batch_norms_of_a_model_of_an_old_opset_are_folded(tmp_path: Path):
    path, rng = tmp_path / "old.onnx", np.random.default_rng(0)
    onnx.save(onnx.parser.parse_model(OLD), path)
    data = {"x": rng.standard_normal((8, 3, 8, 8)).astype(np.float32)}
    made = quantise(path, data)
    kinds = {node.op_type for node in made.model.graph.node}
    assert kinds == {"QuantizeLinear", "DequantizeLinear", "Conv"}
    assert made.notes == []


def test_what_cannot_be_folded_is_a_note_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no room")

    module = importlib.import_module("onnxruntime.quantization.shape_inference")
    ours = {**vars(module.onnxruntime), "InferenceSession": fail}
    monkeypatch.setattr(module, "onnxruntime", SimpleNamespace(**ours))
    data = {"x": np.ones((4, 6), np.float32)}
    made = quantise(saved(tmp_path / "net.onnx", "n"), data)
    told = "ONNX Runtime quantises the model without folding it first: ValueError: no room"
    assert list(made.notes) == [told]
    assert "Traceback" not in capfd.readouterr().err


def test_sizes_that_a_model_declares_wrongly_are_not_told_at_each_run(tmp_path: Path):
    model = net(1)
    model.graph.output[0].type.tensor_type.shape.dim.pop()
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((2, 6), np.float32))
    files = [str(tmp_path / name) for name in ("net.onnx", "x.npz", "q.onnx")]
    command = ["quantise", files[0], "--data", files[1], "-o", files[2]]
    code = f"import sys; from byocir.cli.main import main; sys.exit(main({command!r}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_labels_must_be_whole_numbers_of_each_sample():
    with pytest.raises(byocir.ByocirError, match=r"B392.*labels in 'image'"):
        quantise(FLOAT, samples(32), labels="image")


def test_a_quantised_model_is_refused():
    with pytest.raises(byocir.ByocirError, match=r"B393.*quantised"):
        quantise(DIGITS / "digits_int8.onnx", samples(32))


def test_the_command_writes_the_model_and_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "q.onnx"
    command = ["quantise", str(FLOAT), "--data", str(DATA), "--samples", "64", "-o", str(path)]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["450", "samples", "distance", "same", "class", "top-1"]
    assert [line.split()[0] for line in lines[1:]] == ["float", "ONNX", "for", "wrote"]
    assert onnx.load(path).graph.node
    assert main([*command, "--target", "no_such"]) == 1
    assert "B210" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["HardSwish", "Relu"])
def test_operators_that_become_others_are_told(name: str, tmp_path: Path, capsys):
    model = net("n")
    model.graph.node.append(helper.make_node(name, ["y"], ["z"], name="activation"))
    model.graph.output[0].name = "z"
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((4, 6), np.float32))
    files = [str(tmp_path / file) for file in ("net.onnx", "x.npz", "q.onnx")]
    assert main(["quantise", files[0], "--data", files[1], "-o", files[2]]) == 0
    kinds = [
        node.op_type for node in onnx.load(files[2]).graph.node if "Linear" not in node.op_type
    ]
    assert kinds[1:] == (["HardSigmoid", "Mul"] if name == "HardSwish" else ["Relu"])
    told = "note: ONNX Runtime writes 1 HardSwish with HardSigmoid, Mul, and what lies between"
    assert (told in capsys.readouterr().out) == (name == "HardSwish")


NET = """<ir_version: 9, opset_import: ["" : 17]>
net (float[N, 6] x) => (float[N, 6] y)
<float[6] k = {1, 2, 3, 4, 5, 6}, float o = {0}, float h = {9}>
"""


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        # A sum and its product are a Gemm, and a Relu goes into a Clip, which computes no Relu.
        ("a = MatMul(x, w) b = Add(a, k) r = Relu(b) y = Clip(r, o, h)", []),
        # A Clip is folded beside an operator that is written with others.
        (
            "a = MatMul(x, w) r = Relu(a) c = Clip(r, o, h) y = HardSwish(c)",
            ["1 HardSwish with HardSigmoid, Mul"],
        ),
        # One is gone though the net has others of its parts.
        (
            "a = MatMul(x, w) b = HardSwish(a) c = HardSigmoid(b) y = Mul(c, c)",
            ["1 HardSwish with HardSigmoid, Mul"],
        ),
    ],
)
def test_only_operators_that_are_computed_by_several_are_told(
    nodes: str, told: list[str], tmp_path: Path
):
    model = onnx.parser.parse_model(f"{NET}{{ {nodes} }}")
    weight = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    made = quantise(tmp_path / "net.onnx", {"x": np.ones((4, 6), np.float32)})
    assert list(made.notes) == [
        f"ONNX Runtime writes {each}, and what lies between is quantised, too" for each in told
    ]


def test_arrays_that_are_not_wanted_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A few megabytes of zeros, compressed, would take gigabytes."""
    images, read = samples(32)["image"], list[tuple[int, ...]]()
    whole = npy.read_array

    def noting(file: Any, **options: Any) -> np.ndarray:
        found = whole(file, **options)
        read.append(found.shape)
        return found

    monkeypatch.setattr("byocir.cli.user_files.npy.read_array", noting)
    data = tmp_path / "data.npz"
    command = ["quantise", str(FLOAT), "--data", str(data), "-o", str(tmp_path / "q.onnx")]
    np.savez(data, image=np.zeros((9, 1, 8, 9), np.float32))
    assert main(command) == 1
    assert "error[B392]: expected samples of" in capsys.readouterr().err
    assert not read
    np.savez(data, image=images, other=np.zeros(9, np.float32), more=np.zeros(99, np.int64))
    assert main(command) == 0
    assert read == [images.shape]

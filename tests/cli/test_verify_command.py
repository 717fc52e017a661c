"""`--verify` where outputs are not all numbers, or only one."""

from pathlib import Path

import numpy as np
import pytest
from onnx import (
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    save_model,
    shape_inference,
)

import byocir
from byocir.cli.main import main
from byocir.dialects.graph import NegOp
from byocir.evaluate.numpy_rules import NUMPY_RULES
from byocir.targets import ort_session
from byocir.targets.ort_session import Session
from byocir.vendor.engine import NotComputed


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch):
    """Has packages give outputs that are so far away."""

    def by(step: float) -> None:
        run = byocir.Package.run
        monkeypatch.setattr(
            "byocir.runtime.package.Package.run",
            lambda *args, **options: {k: v + step for k, v in run(*args, **options).items()},
        )

    return by


def model(path: Path, op: str, size: int) -> str:
    node = helper.make_node(op, ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy")
    made = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    (path / "model.onnx").write_bytes(made.SerializeToString())
    return str(path / "model.onnx")


@pytest.mark.parametrize(("step", "code"), [(1e-6, 0), (0.1, 3)])
def test_outputs_that_are_no_numbers(step: float, code: int, tmp_path: Path, moved):
    path = model(tmp_path, "Log", 8)
    feeds = {"x": np.array([-1, 0, 1, 2, 3, 4, 5, 6], np.float32)}  # NaN, -inf, …
    np.savez(tmp_path / "in.npz", **feeds)
    moved(step)
    assert main(["run", path, "--input", str(tmp_path / "in.npz"), "--verify"]) == code


@pytest.mark.parametrize(("step", "code"), [(3e-8, 0), (1e-4, 3)])
def test_one_small_number(step: float, code: int, tmp_path: Path, moved):
    path = model(tmp_path, "Sigmoid", 1)
    np.savez(tmp_path / "in.npz", x=np.array([-12], np.float32))
    moved(step)
    assert main(["run", path, "--input", str(tmp_path / "in.npz"), "--verify"]) == code


def test_a_number_in_place_of_infinity(tmp_path: Path, monkeypatch, capsys):
    path = model(tmp_path, "Log", 3)
    np.savez(tmp_path / "in.npz", x=np.array([0, 1, 2], np.float32))
    wrong = np.array([-7, 0, np.log(2)], np.float32)
    monkeypatch.setattr("byocir.runtime.package.Package.run", lambda *_, **__: {"y": wrong})
    assert main(["run", path, "--input", str(tmp_path / "in.npz"), "--verify"]) == 3
    assert "FAIL y: the evaluator" in capsys.readouterr().out


def save(path: Path, nodes: list, feeds: dict[str, np.ndarray], weights: dict) -> list[str]:
    """The arguments that run a model of these nodes on these inputs; its output is `y`."""
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    y = [ValueInfoProto(name="y")]
    made = helper.make_model(
        helper.make_graph(nodes, "g", ports, y, initializers),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    save_model(shape_inference.infer_shapes(made), path / "model.onnx")
    np.savez(path / "in.npz", **feeds)
    return ["run", str(path / "model.onnx"), "--input", str(path / "in.npz"), "--verify"]


BACKWARDS = {
    "starts": np.array([3]),
    "ends": np.array([2**31 - 1]),
    "axes": np.array([0]),
    "steps": np.array([-1]),
}


def test_a_known_difference_is_a_note_that_names_its_row(tmp_path: Path, capsys):
    """Of another shape, and of other values further down."""
    x = {"x": np.arange(8, dtype=np.float32).reshape(4, 2)}
    sliced = helper.make_node("Slice", ["x", *BACKWARDS], ["y"], name="back")
    assert main(save(tmp_path, [sliced], x, BACKWARDS)) == 0
    found = capsys.readouterr().out
    assert "ok   y: equal to the evaluator, bit for bit" in found
    assert "note y: ONNX Runtime: shape (4, 2), found (0, 2); at Slice 'back' " in found
    assert "(slice-greatest-end in docs/differences.md)" in found
    nodes = [
        helper.make_node("Hardmax", ["x"], ["h"], name="most", axis=0),
        helper.make_node("ReduceSum", ["h"], ["s"], keepdims=0),
        helper.make_node("Mul", ["h", "s"], ["y"]),
    ]
    assert main(save(tmp_path, nodes, {"x": np.float32([1, np.nan, 3])}, {})) == 0
    assert "at Hardmax 'most' (argmax-nan in docs/diff" in capsys.readouterr().out


def test_a_difference_that_is_not_known_fails_and_names_the_node(
    tmp_path: Path, monkeypatch, capsys
):
    """Beside a known one."""
    nodes = [
        helper.make_node("Hardmax", ["x"], ["h"], name="most", axis=0),
        helper.make_node("Neg", ["h"], ["y"], name="wrong"),
    ]
    arguments = save(tmp_path, nodes, {"x": np.float32([1, np.nan, 3])}, {})
    monkeypatch.setitem(NUMPY_RULES, NegOp, lambda op, operands: operands[0])
    assert main(arguments) == 3
    assert "at Hardmax 'most' (argmax-nan in docs/differences.md), Neg 'wrong'" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("dtype", "code", "told"),
    [
        (
            np.float32,
            3,
            "(limit 0.001 of each, 0.0001 of the outputs' spread and 1e-06); at Neg 'Neg_0'",
        ),
        (np.float16, 0, ", a 20th of the outputs' spread)"),
    ],
)
def test_what_does_not_round_coarsely_has_to_be_nearer(
    dtype: type, code: int, told: str, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.setattr(Session, "run", lambda _, feeds: [feeds["x"] * dtype(-1.01)])
    neg, x = helper.make_node("Neg", ["x"], ["y"]), np.linspace(-1, 1, 9, dtype=dtype)
    assert main(save(tmp_path, [neg], {"x": x}, {})) == code
    found = capsys.readouterr().out
    assert "ok   y: equal to the evaluator, bit for bit" in found
    assert found.endswith(f"{told}\n")


@pytest.mark.parametrize(("steps", "code"), [(1, 0), (2, 3)])
def test_quantised_outputs_may_be_a_step_apart(
    steps: int, code: int, tmp_path: Path, monkeypatch, capsys
):
    """A softmax of many classes has few steps in all; a twentieth of them is less than one."""
    monkeypatch.setattr(Session, "run", lambda _, feeds: [steps - feeds["x"]])
    neg, x = helper.make_node("Neg", ["x"], ["y"]), np.arange(6, dtype=np.int8)
    assert main(save(tmp_path, [neg], {"x": x}, {})) == code
    assert "(limit 1, a step)" in capsys.readouterr().out


def computed_as(values: dict[str, np.ndarray]):
    """What ONNX Runtime's sessions do where it computes these values by name."""
    return lambda session, feeds: [values[name] for name in session.outputs]


@pytest.mark.parametrize(("part", "code"), [(1e-6, 0), (1e-2, 3)])
def test_floats_that_a_model_amplifies_are_a_note(
    part: float, code: int, tmp_path: Path, monkeypatch, capsys
):
    """Sines of great numbers hang on how the product before them rounds. If it is off by more, it
    is at fault; and nothing is known where ONNX Runtime does not tell what lies between."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 64), (64, 64)))
    w *= 500
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("Sin", ["p"], ["y"]),
    ]
    arguments = [*save(tmp_path, nodes, {"x": x}, {"w": w}), "--target", "json"]
    p = x @ w * np.float32(1 + part)
    monkeypatch.setattr(Session, "run", computed_as({"p": p, "y": np.sin(p)}))
    assert main(arguments) == code
    line = capsys.readouterr().out.splitlines()[-1]
    note = "; no node differs by itself: the model amplifies how floats round"
    assert line.startswith("FAIL y: ONNX Runtime" if code else "note y: ONNX Runtime")
    assert line.endswith("at MatMul 'product'" if code else note)
    monkeypatch.setattr("byocir.cli.differing._all_values", not_told)
    assert main(arguments) == 3


def not_told(model, feeds):
    raise NotComputed("inner values")


@pytest.mark.parametrize(("gap", "code"), [(0.0, 0), (0.5, 3)])
def test_indices_are_exact_or_a_note(gap: float, code: int, tmp_path: Path, monkeypatch, capsys):
    """Index 9000 is not near 8999, other than where numbers that are nearly equal round."""
    x = np.zeros((1, 9001), np.float32)
    x[0, 8999:] = -3 - gap, -3
    nodes = [
        helper.make_node("Neg", ["x"], ["s"], name="negative"),
        helper.make_node("ArgMax", ["s"], ["y"], axis=1, keepdims=0),
    ]
    arguments = save(tmp_path, nodes, {"x": x}, {})
    s = -x
    s[0, 9000] = 3 + gap + 1e-6
    monkeypatch.setattr(Session, "run", computed_as({"s": s, "y": s.argmax(1)}))
    assert main(arguments) == code
    line = capsys.readouterr().out.splitlines()[-1]
    assert "largest difference 1, 0.00 % equal (limit 0, as no floats); " in line
    assert line.endswith("at Neg 'negative'" if code else "the model amplifies how floats round")


GRID = {"scale": np.float32(1), "zero": np.int8(0)}


def means_of_bytes(result: str, x: str = "x") -> list[NodeProto]:
    """Nodes that quantise `x`, take means of 2x2 numbers, and quantise these."""
    return [
        helper.make_node("QuantizeLinear", [x, *GRID], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *GRID], ["d"]),
        helper.make_node("AveragePool", ["d"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("QuantizeLinear", ["p", *GRID], ["r"]),
        helper.make_node("DequantizeLinear", ["r", *GRID], [result]),
    ]


@pytest.mark.parametrize(("ties", "code"), [(1, 0), (4, 3)])
def test_few_single_steps_are_a_note(ties: int, code: int, tmp_path: Path, capsys):
    """A mean of 0.5 is 0 for ONNX and 1 in fixed point, and the outputs are between 0 and 1."""
    x = np.zeros((1, 1, 2, 64), np.float32)
    x[..., 32:] = 1
    x[..., 0, : 2 * ties] = 1
    arguments = save(tmp_path, means_of_bytes("y"), {"x": x}, GRID)
    assert main([*arguments, "--target", "vta"]) == code
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("FAIL y:" if code else "note y:")
    told = f"given the same inputs, {ties} of 160 quantised values are "
    off = "off, by up to 1, where a step for 1% is taken for rounding"
    assert last.endswith(told + (off if code else "one step off, none more"))


def test_steps_are_counted_in_the_channels_of_the_model(tmp_path: Path, capsys):
    """Also for a target that pads 8 channels to 16: one mean of 0.5 is a step off, and all bytes
    are compared.
    """
    x = np.zeros((1, 8, 2, 64), np.float32)
    x[..., 32:] = 1
    x[0, 0, 0, :2] = 1
    weights = np.eye(8, dtype=np.int8)[..., None, None]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *GRID], ["b"]),
        helper.make_node("DequantizeLinear", ["b", *GRID], ["a"]),
        helper.make_node("DequantizeLinear", ["weights", *GRID], ["w"]),
        helper.make_node("Conv", ["a", "w"], ["c"]),
        *means_of_bytes("y", "c"),
    ]
    arguments = save(tmp_path, nodes, {"x": x}, {**GRID, "weights": weights})
    assert main([*arguments, "--target", "examples/vta_machine.py"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("note y:")
    told = "given the same inputs, 1 of 2304 quantised values are one step off, none more"
    assert last.endswith(told)


@pytest.mark.parametrize(("weight", "code"), [(2, 0), (3, 3)])
def test_a_model_that_amplifies_single_steps_by_itself_is_a_note(
    weight: int, code: int, tmp_path: Path, monkeypatch, capsys
):
    """ONNX Runtime quantises one input a step higher, which makes one output 1 in place of 0. Of
    two means of 0.5, 0 for ONNX and 1 in fixed point, one becomes `weight`.
    """
    x = np.zeros((1, 1, 2, 128), np.float32)
    x[..., 64:] = 1
    x[..., 0, :4] = 1
    nodes = [*means_of_bytes("e"), helper.make_node("Mul", ["e", "weights"], ["y"])]
    factors = np.ones(64, np.float32)
    factors[0] = weight
    arguments = save(tmp_path, nodes, {"x": x}, {**GRID, "weights": factors})
    q = x.astype(np.int8)
    q[..., 1, 2] = 1
    p = q.astype(np.float32).reshape(1, 1, 2, 64, 2).mean((2, 4))[:, :, None]
    r = np.rint(p).astype(np.int8)
    e = r.astype(np.float32)
    computed = {"q": q, "d": q.astype(np.float32), "p": p, "r": r, "e": e, "y": e * factors}
    monkeypatch.setattr(Session, "run", computed_as(computed))
    assert main([*arguments, "--target", "vta"]) == code
    last = capsys.readouterr().out.splitlines()[-1]
    told = "no node differs by itself, but without fixed point it is 1 away; "
    assert last.startswith("FAIL y:" if code else "note y:")
    assert (told in last) is (code == 0)


def test_without_onnx_runtime_the_evaluator_verifies_alone(
    tmp_path: Path, moved, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def missing(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(ort_session, "import_module", missing)
    path = model(tmp_path, "Sigmoid", 4)
    assert main(["run", path, "--verify"]) == 0
    assert "note not compared with ONNX Runtime, onnxruntime is not installed" in (
        capsys.readouterr().out
    )
    moved(0.1)
    assert main(["run", path, "--verify"]) == 3


ROUNDS = """
import byocir

class Unit(byocir.Target):
    name = "unit"
    rounds_operands = "bf16"
"""


def test_a_target_that_rounds_what_it_multiplies(tmp_path: Path, capsys) -> None:
    """Differences of large numbers, which bf16 does not tell apart, are noted as such."""
    (tmp_path / "unit.py").write_text(ROUNDS)
    x = np.array([[1000, 1001], [1002, 1000]], np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": np.array([[1, -1], [-1, 1]], np.float32)}
    arguments = save(tmp_path, nodes, {"x": x}, weights)
    assert main([*arguments, "--target", f"{tmp_path}/unit.py"]) == 0
    told = capsys.readouterr().out
    assert "ok   y: equal to the evaluator" in told
    assert "without rounding what is multiplied to bf16 it is near" in told

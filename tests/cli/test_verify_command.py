"""`--verify` where outputs are not all numbers, or only one."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import byocir
from byocir.cli.main import main


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

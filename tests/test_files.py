"""Files in the place of others: whole, or as they were."""

import errno
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import byocir
from byocir.cli.main import main
from byocir.errors import ByocirError
from byocir.files import replaced, write_whole


def test_what_fails_leaves_what_was_there(tmp_path: Path):
    path = tmp_path / "file"
    write_whole(path, b"before")
    with pytest.raises(TypeError), replaced(path) as file:
        file.writelines([b"half of", "text"])
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]
    write_whole(path, b"after")
    assert path.read_bytes() == b"after"


def test_links_and_permissions_stay(tmp_path: Path):
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to("file")
    write_whole(link, b"new")
    path.chmod(0o600)
    write_whole(link, b"newer")
    assert path.read_bytes() == b"newer"
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_regular_file_is_written_to():
    write_whole(os.devnull, b"gone")
    assert not Path(os.devnull).is_file()


@pytest.fixture
def model(tmp_path: Path) -> str:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [32]) for name in "xy")
    weight = helper.make_tensor("w", TensorProto.FLOAT, [32], np.arange(32, dtype=np.float32))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    return str(tmp_path / "model.onnx")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_package_stays_where_there_is_no_room_for_another(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "model.bpkg"
    package = byocir.compile(model, targets=[])
    package.save(path)
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(ByocirError, match=r"B130.*No space left"):
        package.save(path)
    monkeypatch.undo()
    assert byocir.load(path).inputs == package.inputs
    assert sorted(os.listdir(tmp_path)) == ["model.bpkg", "model.onnx"]


@pytest.mark.parametrize(
    "command", [["compile", "--emit", "tir", "-o", "s.mlir"], ["run", "--dump", "stages"]]
)
def test_no_room_for_weights(
    command: list[str],
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("byocir.dialects.weights.write_whole", full)
    assert main([command[0], model, *command[1:]]) == 1
    err = capsys.readouterr().err
    assert "error[B112]: expected a file that can be written, found No space left" in err
    assert ".safetensors" in err


def test_no_room_for_what_is_known_of_an_error(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("byocir.cli.steps.StepTimer.begin", lambda *_: 1 // 0)
    monkeypatch.setattr("tempfile.mkdtemp", full)
    assert main(["run", model]) == 70
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in err
    assert "cannot be written: No space left on device" in err


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "empty"])
def test_a_project_is_written_whole_or_not_at_all(
    is_there: bool, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "project"
    if is_there:
        folder.mkdir()
    left = [*(["project"] if is_there else []), "model.onnx"]
    written: list[Path] = []

    def soon_full(path: Path, data: bytes) -> None:
        if len(written) == 3:
            full()
        written.append(path)
        write_whole(path, data)

    monkeypatch.setattr("byocir.cli.user_files.write_whole", soon_full)
    assert main(["export", model, "-o", str(folder)]) == 1
    assert len(written) == 3
    assert sorted(os.listdir(tmp_path)) == sorted(left)
    assert not is_there or not os.listdir(folder)
    monkeypatch.undo()
    assert main(["export", model, "-o", str(folder)]) == 0
    assert (folder / "Makefile").is_file()
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "project"]

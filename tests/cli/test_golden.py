"""Golden inputs and outputs: `compile --golden` keeps them, `run --selftest` compares."""

from __future__ import annotations

import copy
import zipfile
from pathlib import Path

import numpy as np
import pytest

import byocir
from byocir.cli.main import main
from byocir.cli.user_files import read_arrays
from byocir.runtime.golden import Golden

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = [str(DIGITS / "digits_int8.onnx"), "--shape", "image=1,1,8,8", "--target", "json"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / "d.bpkg"
    assert main(["compile", *MODEL, "--golden", "-o", str(made)]) == 0
    return made


def test_a_package_is_held_to_what_the_evaluator_makes_of_the_model(
    package: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", str(package), "--selftest"]) == 0
    assert "ok   logits: equal to the golden output, bit for bit" in capsys.readouterr().out
    loaded = byocir.load(package)
    golden = loaded.golden
    assert golden is not None
    loaded.golden = Golden(golden.inputs, {"logits": golden.outputs["logits"] + 1})
    loaded.save(package)
    assert main(["run", str(package), "--selftest"]) == 3
    assert "FAIL logits: the golden output: largest difference 1" in capsys.readouterr().out


def test_golden_inputs_may_be_given_and_are_read_once(tmp_path: Path, monkeypatch):
    image = np.load(DIGITS / "digits_test.npz")["image"][:1]
    np.savez(tmp_path / "in.npz", image=image)
    made = tmp_path / "d.bpkg"
    read: list[Path] = []

    def noting(path: Path, *rest: object):
        read.append(path)
        return read_arrays(path, *rest)

    monkeypatch.setattr("byocir.cli.user_files.read_arrays", noting)
    main(["compile", *MODEL, "-o", str(made), "--golden", str(tmp_path / "in.npz")])
    assert read == [tmp_path / "in.npz"]
    assert main(["run", *MODEL, "--input", str(tmp_path / "in.npz")]) == 0
    assert len(read) == 2
    golden = byocir.load(made).golden
    assert golden is not None
    np.testing.assert_array_equal(golden.inputs["image"], image)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({}, "expected a feed for input 'image', found none"),
        ({"image": np.zeros((1, 8, 8), np.float32)}, "expected tensor<1x1x8x8xf32> for input"),
    ],
)
@pytest.mark.parametrize("asked", [("compile", "--golden"), ("run", "--input")])
def test_inputs_that_do_not_fit_are_told_before_the_work(
    asked: tuple[str, str], arrays: dict, told: str, tmp_path: Path, capsys
):
    verb, option = asked
    np.savez(tmp_path / "in.npz", **arrays)
    assert main([verb, *MODEL, option, str(tmp_path / "in.npz")]) == 1
    found = capsys.readouterr().err
    assert f"error[B310]: {told}" in found
    assert "partition" not in found


def test_they_stay_where_a_package_is_copied_and_written_again(package: Path, tmp_path: Path):
    loaded = byocir.load(package)
    for each in (loaded, copy.deepcopy(loaded)):
        each.save(tmp_path / "again.bpkg")
        assert (tmp_path / "again.bpkg").read_bytes() == package.read_bytes()


def test_packages_without_are_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = str(tmp_path / "d.bpkg")
    assert main(["compile", *MODEL, "-o", made]) == 0
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if "golden" in name]
    assert main(["run", made, "--selftest"]) == 1
    assert "error[B136]" in capsys.readouterr().err
    assert main(["run", *MODEL, "--selftest"]) == 1
    assert "expected no --selftest with a model" in capsys.readouterr().err
    assert main(["run", made, "--selftest", "--input", "x.npz"]) == 1
    assert "expected no --input with --selftest" in capsys.readouterr().err


def test_what_is_no_array_of_numbers_is_refused(package: Path):
    loaded = byocir.load(package)
    with pytest.raises(byocir.ByocirError, match="expected arrays of numbers, found 'y'") as error:
        loaded.golden = Golden({}, {"y": np.array(["text"])})
    assert error.value.code == "B136"


@pytest.mark.parametrize("text", [b"[]", b'{"inputs": {"image": "0"}, "outputs": {}}', b"{"])
def test_members_that_byocir_did_not_write_are_refused(package: Path, text: bytes):
    class Forged(Golden):
        def members(self) -> dict[str, bytes]:
            return {**super().members(), "golden.json": text}

    loaded = byocir.load(package)
    assert loaded.golden is not None
    loaded.golden = Forged(loaded.golden.inputs, loaded.golden.outputs)
    loaded.save(package)
    with pytest.raises(byocir.ByocirError) as error:
        _ = byocir.load(package).golden
    assert error.value.code == "B135"

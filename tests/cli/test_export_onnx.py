"""`byocir export-onnx`: the file, what it says, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import byocir
from byocir.cli.main import main
from byocir.cli.user_files import write_model
from byocir.runtime.report_text import explain

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = str(DIGITS / "digits_int8.onnx")
PINNED = [MODEL, "--shape", "image=1,1,8,8"]
VTA = ["--target", "vta"]
IMAGE = {"image": np.random.default_rng(0).normal(0, 1, (1, 1, 8, 8)).astype(np.float32)}


def logits(path: str | Path) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (found,) = session.run(["logits"], IMAGE)
    return found


def test_the_model_says_what_explain_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.onnx"
    assert main(["export-onnx", *PINNED, *VTA, "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote 72 nodes to {path}\n"
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    said: dict[str, tuple[str, str]] = {}
    for node in model.graph.node:
        about = {each.key: each.value for each in node.metadata_props}
        # A Gemm became several nodes, and the further ones are numbered.
        assert node.name.startswith(about["byocir.nodes"])
        said[node.op_type] = about["byocir.nodes"], about["byocir.explain"]
    report = byocir.partition(byocir.import_onnx(MODEL, shapes={"image": (1, 1, 8, 8)}), "vta")
    for node, explained in said.values():
        assert explain(report, node).startswith(explained.splitlines()[0])
    node, _ = said["Conv"]
    assert main(["explain", *PINNED, *VTA, "--node", node]) == 0
    assert capsys.readouterr().out == f"{explain(report, node)}\n"
    np.testing.assert_array_equal(logits(path), logits(MODEL))


def test_without_a_target_the_model_is_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    assert main(["export-onnx", MODEL, "-o", str(path)]) == 0
    model = onnx.load(path)
    assert not any(node.metadata_props for node in model.graph.node)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    np.testing.assert_array_equal(logits(path), logits(MODEL))


def test_one_region_and_the_whole_after_rewrites(tmp_path: Path) -> None:
    whole, region = tmp_path / "whole.onnx", tmp_path / "region.onnx"
    assert main(["export-onnx", *PINNED, *VTA, "--rewritten", "-o", str(whole)]) == 0
    assert main(["export-onnx", *PINNED, *VTA, "--region", "vta_0", "-o", str(region)]) == 0
    all_nodes, inside = (onnx.load(path).graph.node for path in (whole, region))
    ours = [
        node.op_type
        for node in all_nodes
        if any(e.key == "byocir.region" and e.value == "vta_0" for e in node.metadata_props)
    ]
    assert [node.op_type for node in inside] == ours
    assert ours.count("ConvInteger") >= 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--region", "vta_0"], "B114", "expected --target with --region, found none"),
        (["--levels", "graph"], "B114", "expected --target with --levels, found none"),
        ([*VTA, "--region", "vta_9"], "B302", "did you mean 'vta_0'?"),
    ],
)
def test_options_that_have_no_meaning(
    arguments: list[str],
    code: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "out.onnx"
    assert main(["export-onnx", *PINNED, *arguments, "-o", str(path)]) == 1
    err = capsys.readouterr().err
    assert f"error[{code}]" in err
    assert message in err
    assert not path.exists()


def test_a_package_and_the_model_itself_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package, copy = tmp_path / "digits.bpkg", tmp_path / "copy.onnx"
    byocir.compile(MODEL, targets=["ort"], shapes={"image": (1, 1, 8, 8)}).save(package)
    assert main(["export-onnx", str(package), "-o", str(tmp_path / "out.onnx")]) == 1
    assert "error[B109]: expected an ONNX model, found a package" in capsys.readouterr().err
    copy.write_bytes(Path(MODEL).read_bytes())
    assert main(["export-onnx", str(copy), "-o", str(copy)]) == 1
    assert "error[B112]" in capsys.readouterr().err
    assert copy.read_bytes() == Path(MODEL).read_bytes()


def test_weights_that_are_too_large_for_one_file_go_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    sizes: list[int] = []
    for _ in range(2):
        model = byocir.export_onnx(byocir.import_onnx(DIGITS / "digits_f32.onnx"))
        files = write_model(path, model, limit=1000)
        assert files == [path, tmp_path / "out.onnx.data"]
        sizes.append(files[1].stat().st_size)
    assert sizes[0] == sizes[1] > path.stat().st_size
    onnx.checker.check_model(str(path))
    np.testing.assert_array_equal(logits(path), logits(DIGITS / "digits_f32.onnx"))

"""The verbs of `byocir`, their output and their exit codes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_inputs import DIGITS, MODEL, NPU, SHAPE
from onnx import TensorProto, helper

from byocir.cli.main import main


def test_run_prints_what_went_where_and_verifies(small: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", small, "--verify"]) == 0
    out, err = capsys.readouterr()
    assert "vta MACs" in out
    assert "host: reference" in out
    assert "% equal" in out
    assert "[1/5] import" in err


def test_all_is_left_to_the_host(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No pattern is tried, and nothing is said of a target."""
    assert main(["run", small, "--target", "host"]) == 0
    out = capsys.readouterr().out
    assert "host operators" in out
    assert "vta" not in out
    package = str(tmp_path / "digits.bpkg")
    assert main(["compile", small, "--target", "host", "-o", package]) == 0
    assert main(["run", package]) == 0
    assert "vta" not in capsys.readouterr().out


def test_run_reads_and_writes_arrays(small: str, tmp_path: Path):
    np.savez(tmp_path / "in.npz", x=np.ones((1, 16, 8, 8), np.float32))
    arguments = ["--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main(["run", small, *arguments, "--report", str(tmp_path / "r.json")]) == 0
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs["logits"].shape == (1, 10)
    assert json.loads((tmp_path / "r.json").read_text())["schema_version"] == 2


def test_a_number_with_a_value_of_its_own_is_fed(tmp_path: Path):
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [2]), ("scale", []), ("y", [2]))
    ]
    node = helper.make_node("Mul", ["x", "scale"], ["y"])
    own = [helper.make_tensor("scale", TensorProto.FLOAT, [], [3.0])]
    graph = helper.make_graph([node], "g", ports[:2], ports[2:], own)
    opsets = [helper.make_opsetid("", 17)]
    model, feeds, found = (str(tmp_path / name) for name in ("m.onnx", "in.npz", "out.npz"))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), model)
    np.savez(feeds, x=np.float32([1, 2]), scale=np.float32(5))
    ran = ["run", model, "--input", feeds, "--output", found]
    assert main(ran) == 1
    assert main([*ran, "--shape", "scale=scalar"]) == 0
    with np.load(found) as outputs:
        assert outputs["y"].tolist() == [5, 10]


def test_a_seed_chooses_the_inputs(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found: list[np.ndarray] = []
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        path = str(tmp_path / f"{name}.npz")
        assert main(["run", small, "--seed", seed, "--output", path]) == 0
        with np.load(path) as outputs:
            (only,) = outputs.values()
            found.append(only)
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    with pytest.raises(SystemExit) as caught:
        main(["run", small, "--seed", "-1"])
    assert caught.value.code == 2
    assert "--seed: expected a number from 0 on, found '-1'" in capsys.readouterr().err


def test_compile_then_run_the_package(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = str(tmp_path / "digits.bpkg")
    assert main(["compile", small, "-o", path]) == 0
    assert main(["run", path]) == 0
    assert "logits: 1x10 float32" in capsys.readouterr().out


def test_dump_writes_every_stage(small: str, tmp_path: Path):
    assert main(["run", small, "--dump", str(tmp_path)]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:3] == ["00_import.mlir", "01_signed-bytes.mlir", "02_fold-constants.mlir"]
    assert any(name.endswith("_vta-encode.mlir") for name in names)
    assert "vta_0.asm" in names
    assert "gemm" in (tmp_path / "vta_0.asm").read_text()


def test_explain_names_every_node(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", MODEL, *SHAPE]) == 0
    out = capsys.readouterr().out
    for node in onnx.load(MODEL).graph.node:
        assert node.name in out


def test_explain_of_a_host_node_tells_every_pattern_and_failed_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = grouped_conv(tmp_path / "grouped.onnx")
    assert main(["explain", model, "--node", "grouped"]) == 0
    out = capsys.readouterr().out
    assert "grouped  Conv  host" in out
    assert "vta.conv" in out
    assert "rule fails: Groups of channels, several together if they are small, fill" in out
    assert "seen 3 groups of 5 and 5 channels for blocks of 16" in out


def grouped_conv(path: Path) -> str:
    """A grouped QDQ convolution, of which VTA's blocks would be filled in part."""
    scale, zero = ("scale", "zero")
    initializers = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("zero", TensorProto.INT8, [], [0]),
        helper.make_tensor("w", TensorProto.INT8, [15, 5, 3, 3], [1] * 675),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", scale, zero], ["xq"], "q0"),
        helper.make_node("DequantizeLinear", ["xq", scale, zero], ["xd"], "d0"),
        helper.make_node("DequantizeLinear", ["w", scale, zero], ["wd"], "dw"),
        helper.make_node("Conv", ["xd", "wd"], ["y"], "grouped", group=3, pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["y", scale, zero], ["yq"], "q1"),
        helper.make_node("DequantizeLinear", ["yq", scale, zero], ["out"], "d1"),
    ]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 15, 8, 8]) for n in ("x", "out")
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return str(path)


def test_targets_lists_options_and_rules(capsys: pytest.CaptureFixture[str]):
    assert main(["targets"]) == 0
    assert "fill whole blocks." in capsys.readouterr().out
    assert main(["targets", "--json"]) == 0
    targets = {target["name"]: target for target in json.loads(capsys.readouterr().out)}
    assert targets["vta"]["options"]["rounding"] == ["floor"]
    assert targets["json"]["options"]["ops"] == []


def test_targets_of_files_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["targets", "examples/toy_npu.py", "vta{block=32}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "npu  A toy accelerator whose code is JSON."
    assert "  graph  npu.conv" in lines
    assert "           Input channels are a multiple of 8." in lines
    assert "  option block = 32" in lines
    assert lines[lines.index("  option config =") + 1].startswith(
        "           A whole configuration"
    )
    assert not any(line.startswith("ort ") for line in lines)
    assert main(["targets", "examples/none.py"]) == 1
    assert "error[B217]" in capsys.readouterr().err


def test_a_package_goes_into_the_current_folder(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "models").mkdir()
    model = tmp_path / "models" / "digits.onnx"
    model.write_bytes(Path(small).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(model)]) == 0
    assert (tmp_path / "digits.bpkg").exists()
    assert capsys.readouterr().out.endswith("wrote digits.bpkg\n")
    assert [each.name for each in model.parent.iterdir()] == ["digits.onnx"]


def test_a_target_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "npu.py").write_text(NPU)
    model, target = str(DIGITS / "digits_f32.onnx"), f"{tmp_path / 'npu.py'}:Npu{{block=4}}"
    package = str(tmp_path / "digits.bpkg")
    assert main(["run", model, *SHAPE, "--target", target, "--verify"]) == 0
    assert "npu" in capsys.readouterr().out
    assert (
        main(["compile", model, *SHAPE, "--target", str(tmp_path / "npu.py"), "-o", package]) == 0
    )
    assert main(["run", package, "--target", target]) == 1
    assert "error[B213]: expected targets of a package without" in capsys.readouterr().err
    assert main(["run", package, "--target", f"{tmp_path / 'npu.py'}:Npu"]) == 0


def test_explain_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "why.html"
    assert main(["explain", MODEL, *SHAPE, "--html", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert "/block1/conv2/conv/Conv" in path.read_text(encoding="utf-8")
    assert main(["explain", MODEL, *SHAPE, "--html", f"{tmp_path}/no/why.html"]) == 1
    assert "B112" in capsys.readouterr().err


def test_explain_reads_packages_and_tells_one_node_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = str(tmp_path / "digits.bpkg")
    # Windows that the host gathers cross in place of the image, which only code tells.
    target = ["--target", "vta{gather=false}"]
    assert main(["compile", MODEL, *SHAPE, *target, "-o", path]) == 0
    capsys.readouterr()
    told: list[str] = []
    for model in ([path], [MODEL, *SHAPE, *target]):
        assert main(["explain", *model, "--node", "/stem/conv/Conv", "--json"]) == 0
        told.append(capsys.readouterr().out)
    about = json.loads(told[0])
    assert about["node"]["op_type"] == "Conv"
    assert about["place"] == about["region"]["symbol"] == "vta_0"
    assert told[0] == told[1]
    assert main(["explain", path, "--levels", "graph"]) == 1
    assert "error[B114]" in capsys.readouterr().err


def test_a_package_is_not_compiled_again(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "digits.bpkg"
    assert main(["compile", small, "-o", str(path)]) == 0
    before = path.read_bytes()
    assert main(["compile", str(path)]) == 1
    assert "error[B102]: expected an ONNX model, found a package" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_timing_is_told_on_request(small: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", small]) == 0
    assert "simulated cycles" not in capsys.readouterr().out
    assert main(["run", small, "--timing"]) == 0
    assert "simulated cycles per run" in capsys.readouterr().out
    assert main(["run", small, "--timing", "--target", "json"]) == 0
    assert "no target tells what its code takes" in capsys.readouterr().out


def test_a_placement_file_wins_over_patterns(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (conv,) = (node.name for node in onnx.load(small).graph.node if node.op_type == "Conv")
    file = tmp_path / "placement.json"
    file.write_text(json.dumps({conv: "host"}))
    explain = ["explain", small, "--node", conv, "--placement", str(file)]
    assert main(explain) == 0
    assert "is placed on host" in capsys.readouterr().out
    for content in ("[]", "{", '{"a": 1}', "[" * 100_000):
        file.write_text(content)
        assert main(explain) == 1
        assert "error[B245]" in capsys.readouterr().err


def test_explain_of_a_model_makes_code_if_asked(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """It stopped at the hand-off: what making code adds was told of packages alone."""
    command = ["explain", small, "--json"]
    found = []
    for more in ([], ["--code"], ["--code", "--host", "c"]):
        assert main([*command, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [bool(report["device"]) for report in found] == [False, True, True]
    assert [report["host_runs_on"] for report in found] == ["reference", "reference", "c"]
    package = str(tmp_path / "digits.bpkg")
    assert main(["compile", small, "--host", "c", "-o", package]) == 0
    capsys.readouterr()
    assert main(["explain", package, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found[2]
    assert main([*command, "--host", "c"]) == 1
    assert "with explain as far as the hand-off" in capsys.readouterr().err


def test_explain_as_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", MODEL, *SHAPE, "--table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["op", "type", "vta", "host", "folded", "MACs", "offloaded"]
    assert lines[1].split()[:3] == ["Conv", "6", "0"]


def test_patterns_prints_what_a_target_takes(capsys: pytest.CaptureFixture[str]):
    assert main(["patterns", "vta"]) == 0
    page = capsys.readouterr().out
    assert "graph.conv(x: i8, %1, [constant b])" in page
    assert "- Groups of channels, several together if they are small, fill whole blocks." in page
    assert main(["patterns", "vtx"]) == 1

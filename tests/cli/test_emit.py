"""--emit: each stage as text, which tools take up again."""

import json

import pytest

from byocir.cli.main import main
from byocir.cli.opt import run_opt

STAGES = {
    "import": ("graph.quantize", "graph.requantize"),
    "graph": ("graph.requantize", "byoc.composite"),
    "partitioned": ("byoc.call @vta_0", "vta.gemm"),
    "tir": ("tir.block", "vta.gemm"),
    "fused": ("tir.block", "func.func @vta_0(%0"),
    "scf": ("scf.for", "tir."),
    "vta": ("vta.gemm", "vta.program"),
    "asm": ("\ngemm", "func.func"),
    "c": ("int model_run(", "func.func"),
    "h": ("struct model_inputs", "#include <math.h>"),
    "outline-regions:1": ("byoc.call @vta_0", "tir.block"),
    "qdq-to-integer": ("float_half_even", "fixed<"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_printed(stage, small, capsys):
    there, not_there = STAGES[stage]
    assert main(["compile", small, "--emit", stage]) == 0
    out = capsys.readouterr().out
    assert there in out
    assert not_there not in out


@pytest.mark.parametrize("stage", ["import", "graph", "outline-regions:1"])
def test_nothing_runs_after_a_stage_that_was_seen(stage, small, capsys, monkeypatch):
    monkeypatch.setattr("byocir.cli.emit.generate", None)
    assert main(["compile", small, "--emit", stage]) == 0
    assert STAGES[stage][0] in capsys.readouterr().out


def test_a_stage_goes_into_a_file_that_the_next_tool_reads(small, tmp_path, capsys):
    path = tmp_path / "graph.mlir"
    assert main(["compile", small, "--emit", "graph", "-o", str(path)]) == 0
    assert path.with_suffix(".safetensors").exists()
    assert capsys.readouterr().out == ""
    assert run_opt([str(path), "-p", "convert-graph-to-tir"]) == 0
    assert "tir.block" in capsys.readouterr().out


def test_a_run_stops_there(small, capsys):
    assert main(["run", small, "--emit", "import"]) == 0
    assert "logits: 1x10 float32" not in capsys.readouterr().out


def test_stages_that_there_are_not(small, tmp_path, capsys):
    assert main(["compile", small, "--emit", "fuze"]) == 1
    assert "B231" in capsys.readouterr().err
    for run in ("clean-up:99", "clean-up:last"):
        assert main(["compile", small, "--emit", run]) == 1
        assert "B231" in capsys.readouterr().err
    assert main(["compile", small, "--target", "json", "--emit", "vta"]) == 1
    assert "found 'vta'" in capsys.readouterr().err
    assert main(["run", str(tmp_path), "--emit", "c"]) == 1
    assert "B102" in capsys.readouterr().err


def test_programs_in_json_are_printed_and_written_with_their_arrays(small, tmp_path, capsys):
    path = tmp_path / "program.json"
    given = ["compile", small, "--target", "json", "--emit", "json"]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["functions"]
    assert main([*given, "-o", str(path)]) == 0
    assert path.read_text() == printed
    assert path.with_suffix(".safetensors").stat().st_size > 2304 + 640  # its weights
    assert main(["compile", small, "--emit", "json"]) == 1
    assert "error[B231]" in capsys.readouterr().err


def test_a_dash_is_standard_output(small, capsys):
    assert main(["compile", small, "--emit", "graph", "-o", "-"]) == 0
    assert "graph.requantize" in capsys.readouterr().out

"""Modules that are saved between the passes of a described machine go on from there, whichever tool
ran the passes.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest

from byocir.cli.main import main
from byocir.cli.opt import run_opt
from byocir.rewrites.machine import PASSES

TARGET = str(Path(__file__).parents[2] / "examples" / "tile_npu.py")
NET = """<ir_version: 9, opset_import: ["" : 17]>
net (float[4, 24] x, float[24, 12] w) => (float[4, 12] y) { [layer] y = MatMul (x, w) }"""


@pytest.fixture
def scheduled(tmp_path: Path) -> Path:
    """A module whose schedules are applied."""
    model, path = tmp_path / "net.onnx", tmp_path / "scheduled.mlir"
    onnx.save(onnx.parser.parse_model(NET), model)
    command = ["compile", str(model), "--target", TARGET, "--emit", "apply-schedules"]
    assert main([*command, "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("count", [1, 3, len(PASSES.split(","))])
def test_passes_that_byocir_opt_ran_are_not_run_again(count: int, scheduled: Path) -> None:
    passes, out = ",".join(PASSES.split(",")[:count]), str(scheduled.with_name("out.mlir"))
    assert run_opt([str(scheduled), "--load-target", TARGET, "-p", passes, "-o", out]) == 0
    found = [scheduled.with_name(f"{name}.npz") for name in ("found", "expected")]
    for module, path in zip((out, scheduled.with_name("net.onnx")), found, strict=True):
        assert main(["run", str(module), "--target", TARGET, "--output", str(path)]) == 0
    of_module, of_model = (np.load(path)["y"] for path in found)
    np.testing.assert_array_equal(of_module, of_model)


def test_loops_around_copies_are_refused(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_opt([str(scheduled), "--load-target", TARGET, "-p", "write-out-loops"]) == 1
    told = capsys.readouterr().err
    assert "B262" in told
    assert "run route-copies first" in told

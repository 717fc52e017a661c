"""What `byocir run --timing` prints about cycles, and `--trace` writes."""

import json
from importlib import resources
from pathlib import Path

import jsonschema

import byocir
from byocir.cli.profile import cycles_table
from byocir.cli.traces import write_traces
from byocir.dialects.text import parse_module
from byocir.targets.base import Profile

ENGINE = str(Path(__file__).parents[2] / "examples" / "counted_engine.py")
PRODUCT = """
func.func @main(%x: tensor<20x16xi8>, %w: tensor<16x16xi8>) -> tensor<20x16xi32> {
  %y = graph.matmul %x, %w : (tensor<20x16xi8>, tensor<16x16xi8>) -> tensor<20x16xi32>
  func.return %y : tensor<20x16xi32>
}
"""


def test_cycles_by_layer_by_cause_and_bounds() -> None:
    profile = Profile(
        "vta_0",
        1200,
        [("conv, y_QuantizeLinear", "gemm", 800), ("conv, y_QuantizeLinear", "load", 300)],
        {"load": {"busy": 300, "token": 900}, "compute": {"busy": 800, "token": 400}},
        {"load": 250, "gemm": 600},
    )
    assert cycles_table(profile).splitlines() == [
        "vta_0: 1,200 simulated cycles per run; busy cycles by unit:",
        f"  {'layer':<36}      gemm      load",
        f"  {'conv':<36}       800       300",
        f"  {'all':<36}       800       300",
        f"  {'all cycles of each unit':<36}      busy     token",
        f"  {'load':<36}       300       900",
        f"  {'compute':<36}       800       400",
        "  least cycles: gemm 600, load 250; the largest is 50.0 % of the total",
    ]


def test_a_target_that_knows_no_causes_prints_layers_only() -> None:
    lines = cycles_table(Profile("npu_0", 7, [("conv", "gemm", 7)])).splitlines()
    assert lines[-1].split() == ["all", "7"]


def test_a_described_machine_has_traces(tmp_path: Path) -> None:
    package = byocir.compile(parse_module(PRODUCT), targets=[ENGINE], levels=("tensor",))
    (profile,) = package.profile()
    (line,) = write_traces(package, tmp_path)
    assert line.endswith(f"{profile.cycles:,} cycles")
    trace = json.loads((tmp_path / f"{profile.symbol}.trace.json").read_text())
    schema = resources.files("byocir.vta_sim") / "trace.schema.json"
    jsonschema.validate(trace, json.loads(schema.read_text()))
    assert trace["otherData"]["cycles"] == profile.cycles
    called = sum(event.get("cat") == "instruction" for event in trace["traceEvents"])
    assert called == profile.details["instructions"]

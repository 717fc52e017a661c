"""What `byocir run --timing` prints about cycles."""

from byocir.cli.profile import cycles_table
from byocir.targets.base import Profile


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

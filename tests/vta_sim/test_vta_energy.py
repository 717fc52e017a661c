"""The energy estimate: counts by hand, figures as published, sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from test_vta_timing_random import streams

from byocir.vta_sim import EnergyModel, VTAError, assemble, decode, energy_of, simulate
from byocir.vta_sim.energy import Traffic, traffic

INSN = 16


def test_the_defaults_are_horowitzs_figures() -> None:
    model = EnergyModel()
    assert model.mac == pytest.approx(0.3)
    assert (model.alu_lane, model.alu_multiply_lane) == (0.1, 3.1)
    assert (model.scratchpad_byte * 8, model.dram_byte * 8) == (20, 1300)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("load.uop", Traffic(0, 0, 0, 0, 0)),
        ("load.acc y=2 x=3", Traffic(0, 0, 0, 6 * 64, 6 * 64)),
        ("load.acc_8bit y=2 x=3 pad=1,0,0,0", Traffic(0, 0, 0, 9 * 64, 6 * 16)),
        ("load.wgt y=1 x=2", Traffic(0, 0, 0, 512, 512)),
        ("store.out y=2 x=3", Traffic(0, 0, 0, 6 * 16, 6 * 16)),
        ("gemm uop=0,2 out=3 in=5", Traffic(30 * 256, 0, 0, 30 * (4 + 16 + 256 + 128), 0)),
        ("gemm.reset uop=0,2 out=3 in=5", Traffic(0, 0, 0, 30 * (4 + 64), 0)),
        ("alu.add uop=0,1 out=2 in=5", Traffic(0, 160, 0, 10 * (4 + 3 * 64), 0)),
        ("alu.mul.imm uop=0,1 out=2 in=5", Traffic(0, 0, 160, 10 * (4 + 2 * 64), 0)),
    ],
)
def test_one_instruction(line: str, expected: Traffic) -> None:
    found = traffic(decode(assemble(line)))
    assert found == Traffic(
        expected.macs,
        expected.alu_lanes,
        expected.alu_multiply_lanes,
        expected.scratchpad_bytes,
        expected.dram_bytes + INSN,
    )


@given(insns=streams())
def test_energy_adds_up_over_instructions_and_scales_with_the_model(insns: np.ndarray) -> None:
    whole = energy_of(decode(insns))
    parts = [energy_of(decode(insn[None])) for insn in insns]
    assert whole.total == pytest.approx(sum(part.total for part in parts))
    assert whole.total == pytest.approx(sum(whole.to_dict().values()))
    only_dram = EnergyModel(mac=0, alu_lane=0, alu_multiply_lane=0, scratchpad_byte=0)
    assert energy_of(decode(insns), only_dram).total == pytest.approx(whole.dram)


def test_results_carry_it_when_timed() -> None:
    insns, dram = assemble("load.uop y=1 x=4\nfinish"), np.zeros(64, np.uint8)
    assert simulate(insns, dram).energy is None
    assert simulate(insns, dram, timing=True).energy == energy_of(decode(insns))


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1"])
def test_bad_figures(value: float) -> None:
    with pytest.raises(VTAError, match=r"V009.*dram_byte to be a number >= 0"):
        EnergyModel(dram_byte=value)

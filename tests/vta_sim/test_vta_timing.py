"""The cycle model: hand-computed cases and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byocir.vta_sim import TimingModel, VTAError, assemble, estimate

FETCH = 2


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("load.uop", 2),
        ("gemm uop=0,8 out=14 in=14", 8 * 196 + 7),
        ("gemm.reset uop=0,8 out=14 in=14", 8 * 196 + 7),
        ("alu.min.imm uop=0,1 out=2 in=5", 10 + 7),
        ("alu.add uop=0,1 out=2 in=5", 20 + 7),
        ("load.acc y=2 x=3 stride=9", 24 + 2 * 3 * 8),
        ("load.acc_8bit y=2 x=3 stride=9", 24 + 2 * 3 * 2),
        ("load.uop y=1 x=5", 24 + 3),
        ("load.acc x=5 pad=3,0,0,0", 24 + 15),
    ],
)
def test_isolated_compute_instruction(line: str, cycles: int) -> None:
    times = estimate(assemble(f"{line}\nfinish"))
    assert (times.end - times.start).tolist() == [cycles, 2]
    assert times.start[0] == FETCH
    assert times.cycles == FETCH + cycles + 2


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("load.inp y=2 x=3 stride=9 {push_next}", 24 + 2 * 3 * 2),
        ("load.inp y=1 x=1 pad=2,2,2,2 {push_next}", 24 + 24),
        ("load.wgt y=1 x=4 {push_next}", 24 + 128),
    ],
)
def test_isolated_load(line: str, cycles: int) -> None:
    times = estimate(assemble(f"{line}\nfinish {{pop_prev}}"))
    assert times.end[0] - times.start[0] == cycles
    assert times.start[1] == times.end[0]
    assert times.busy["load"] == cycles


@pytest.mark.parametrize(
    ("line", "bursts", "elements"),
    [
        ("store.out y=1 x=8", 1, 8),
        ("store.out dram=0x4 y=1 x=8", 2, 8),
        ("store.out y=3 x=2 stride=8", 3, 6),
        ("store.out dram=0x7 y=2 x=2 stride=8", 4, 4),
    ],
)
def test_isolated_store(line: str, bursts: int, elements: int) -> None:
    times = estimate(assemble(f"{line} {{push_prev}}\nfinish {{pop_next}}"))
    assert times.busy["store"] == 7 * bursts + 3 * elements


def test_modules_overlap_and_share_the_read_channel() -> None:
    text = "load.wgt y=1 x=4 {push_next}\nload.acc y=1 x=8\nfinish {pop_prev}"
    times = estimate(assemble(text))
    assert times.end.tolist()[:2] == [2 + 24 + 128, 2 + 24 + 128 + 64]
    apart = estimate(
        assemble("load.wgt y=1 x=4 {push_next}\ngemm uop=0,1 out=9 in=9\nfinish {pop_prev}")
    )
    assert apart.end[1] == 4 + 81 + 7


def test_model_constants_are_used() -> None:
    insns = assemble("gemm uop=0,1 out=10 in=10\nfinish")
    model = TimingModel(fetch=5, gemm_interval=4, pipeline_fill=1, finish=3)
    assert estimate(insns, model=model).cycles == 5 + 401 + 3


def test_broken_streams_are_refused() -> None:
    with pytest.raises(VTAError, match="V301"):
        estimate(assemble("load.uop {pop_prev}\nfinish"))
    with pytest.raises(VTAError, match="V303"):
        estimate(assemble("load.uop"))


WORK = st.sampled_from(
    [
        "load.inp y=3 x=5 stride=7",
        "load.wgt y=1 x=9",
        "load.acc y=2 x=6 stride=6",
        "load.uop y=1 x=30",
        "gemm uop=0,9 out=5 in=7",
        "alu.add uop=0,2 out=5 in=7",
        "alu.min.imm uop=0,2 out=5 in=7",
        "store.out y=5 x=7 stride=9",
    ]
)


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(WORK, max_size=20))
def test_bounds(lines: list[str]) -> None:
    text = [*lines, "load.inp {push_next}", "store.uop {push_prev}", "finish {pop_prev,pop_next}"]
    insns = assemble("\n".join(text))
    times = estimate(insns)
    durations = times.end - times.start
    assert (durations > 0).all()
    assert times.cycles == times.end.max() <= durations.sum() + FETCH * len(insns)
    busy = times.busy
    assert times.cycles >= busy["load"]
    assert times.cycles >= busy["store"]
    assert times.cycles >= sum(busy[name] for name in busy if name not in ("load", "store"))
    assert sum(busy.values()) == durations.sum()
    assert (times.start >= FETCH * np.arange(1, len(insns) + 1)).all()

"""The cycle model: cases computed by hand, queues that fill up, and what a parameter does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from byocir.vta_sim import (
    Program,
    Timeline,
    TimingModel,
    VTAError,
    assemble,
    estimate,
    simulate,
)

DE10, PYNQ = TimingModel.de10(), TimingModel.pynq()
FETCH_TWO = 16 + 2 * 2  # latency, then two instructions of two beats


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("load.uop", 2),
        ("gemm uop=0,8 out=14 in=14", 8 * 196 + 7),
        ("gemm.reset uop=0,8 out=14 in=14", 8 * 196 + 7),
        ("gemm uop=0,8 out=14 in=0", 7),
        ("alu.min.imm uop=0,1 out=2 in=5", 10 + 7),
        ("alu.add uop=0,1 out=2 in=5", 20 + 7),
        ("load.acc y=2 x=3 stride=9", 8 + 16 + 2 * 3 * 8),
        ("load.acc_8bit y=2 x=3 stride=9", 8 + 16 + 2 * 3 * 2),
        ("load.uop y=1 x=5", 8 + 16 + 3),
        ("load.uop y=3 x=1", 8 + 16 + 3),
        ("load.acc y=1 x=5 pad=3,0,0,0", 8 + 16 + 40),
        ("load.acc y=1 x=5 pad=4,0,0,0", 8 + 20 + 40),
        ("load.acc y=0 x=5 pad=3,0,0,0", 8 + 15),
    ],
)
def test_isolated_compute_instruction(line: str, cycles: int) -> None:
    times = estimate(assemble(f"{line}\nfinish"))
    assert (times.end - times.start).tolist() == [cycles, 2]
    assert times.delivered.tolist() == [FETCH_TWO + 1, FETCH_TWO + 2]
    assert times.cycles == FETCH_TWO + 1 + cycles + 2


@pytest.mark.parametrize(
    ("line", "cycles", "busy"),
    [
        ("load.inp y=2 x=3 stride=9 {push_next}", 8 + 16 + 2 * 3 * 2, 8 + 12),
        ("load.inp y=1 x=1 pad=2,2,2,2 {push_next}", 8 + 24 + 2, 8 + 24 + 2),
        ("load.wgt y=1 x=4 {push_next}", 8 + 16 + 128, 8 + 128),
    ],
)
def test_isolated_load(line: str, cycles: int, busy: int) -> None:
    times = estimate(assemble(f"{line}\nfinish {{pop_prev}}"))
    assert times.end[0] - times.start[0] == cycles
    assert times.start[1] == times.end[0]
    assert times.busy["load"] == times.worked[0] == busy
    assert times.units["load"].dram == cycles - busy


@pytest.mark.parametrize(
    ("line", "bursts", "elements"),
    [
        ("store.out y=1 x=8", 1, 8),
        ("store.out dram=0x4 y=1 x=8", 2, 8),
        ("store.out y=3 x=2 stride=8", 3, 6),
        ("store.out dram=0x7 y=2 x=2 stride=8", 4, 4),
        ("store.out y=43 x=3 stride=3", 43 + 11, 129),
        ("store.out y=65535 x=1", 65535, 65535),
    ],
)
def test_isolated_store(line: str, bursts: int, elements: int) -> None:
    times = estimate(assemble(f"{line} {{push_prev}}\nfinish {{pop_next}}"))
    assert times.units["store"].busy == 3 * elements
    assert times.units["store"].dram == 7 * bursts
    assert times.bounds["store"] == 3 * elements


def test_fetch_reads_a_chunk_and_does_not_read_while_it_delivers() -> None:
    times = estimate(assemble("\n".join(["load.uop"] * 9 + ["finish"])))
    first = 16 + 8 * 2
    assert times.delivered.tolist() == [
        *range(first + 1, first + 9),
        first + 8 + 16 + 4 + 1,
        first + 8 + 16 + 4 + 2,
    ]
    fetch = times.units["fetch"]
    assert (fetch.busy, fetch.dram, fetch.queue) == (10 * 2 + 10, 2 * 16, 0)
    assert times.units["compute"].busy == 9 * 2 + 2
    assert times.units["compute"].fetch == times.cycles - times.units["compute"].busy


def test_loads_of_all_modules_share_the_read_channel() -> None:
    text = "load.wgt y=1 x=4 {push_next}\nload.acc y=1 x=8\nfinish {pop_prev}"
    times = estimate(assemble(text), model=replace(DE10, fetch_chunk=3))
    begin = 16 + 3 * 2 + 1
    assert times.start.tolist()[:2] == [begin, begin + 1]
    assert times.end.tolist()[:2] == [begin + 24 + 128, begin + 24 + 128 + 64]
    assert times.units["compute"].dram == 16 + 127
    channel = [[3, 16, 22], [0, begin + 24, begin + 152], [1, begin + 152, begin + 216]]
    assert times.read_channel.tolist() == channel


def test_micro_ops_go_before_a_running_transfer() -> None:
    text = "load.wgt y=1 x=4 {push_next}\nload.uop y=1 x=20\nfinish {pop_prev}"
    times = estimate(assemble(text), model=replace(DE10, fetch_chunk=3))
    first = 16 + 3 * 2 + 1 + 24
    assert times.read_channel.tolist() == [
        [3, 16, 22],
        [0, first, first + 1],
        [1, first + 1, first + 11],
        [0, first + 11, first + 138],
    ]
    assert times.waits["dram"].tolist() == [16 + 10, 16, 0]


ANOMALY = """
load.acc y=1 x=40 {{{push}}}
gemm uop=0,1 out=10 in=100
load.wgt y=1 x=16 {{{pop}push_next}}
finish {{pop_prev}}
"""


def test_on_the_shared_channel_a_token_can_save_time() -> None:
    """Without the token the load goes first on the channel and holds up what GEMM waits for."""
    apart = assemble(ANOMALY.format(push="push_prev", pop="pop_next,"))
    at_once = assemble(ANOMALY.format(push="", pop=""))
    assert estimate(apart).cycles < estimate(at_once).cycles
    unlimited = replace(DE10, bus_bytes=None)
    assert estimate(apart, model=unlimited).cycles >= estimate(at_once, model=unlimited).cycles


def test_a_full_command_queue_holds_up_fetch() -> None:
    insns = assemble(
        "load.inp {pop_next}\nload.inp\nload.inp {push_next}\n"
        "load.uop {push_prev}\nfinish {pop_prev}"
    )
    assert estimate(insns, model=replace(DE10, command_queue=3)).cycles > 0
    with pytest.raises(VTAError) as caught:
        estimate(insns, model=replace(DE10, command_queue=2))
    error = caught.value
    assert error.code == "V306"
    assert error.found == "a deadlock after 0 of 5 with queues of 2 commands, 255 tokens"
    assert error.where == (
        "fetch holds instruction 2 for a full command queue\n"
        "     load waits for a token at instruction 0"
    )


def test_a_full_token_queue_holds_up_the_pushing_unit() -> None:
    text = "load.inp {push_next}\n" * 3 + "gemm uop=0,1 out=9 in=9\n"
    insns = assemble(text + "load.uop {pop_prev}\n" * 2 + "finish {pop_prev}")
    assert estimate(insns).units["load"].queue == 0
    times = estimate(insns, model=replace(DE10, token_queue=1))
    assert times.units["load"].queue == times.waits["queue"].sum() > 81
    assert times.start[2] == times.start[4]


def test_full_token_queues_deadlock() -> None:
    """Load and compute each push a second token before they pop the other's first one."""
    insns = assemble(
        "load.inp {push_next}\nload.inp {push_next}\nload.inp {pop_next}\n"
        "load.uop {push_prev}\nload.uop {push_prev}\nload.uop {pop_prev}\n"
        "load.inp {pop_next,push_next}\nload.uop {pop_prev}\nfinish {pop_prev}"
    )
    assert estimate(insns, model=replace(DE10, token_queue=2)).cycles > 0
    with pytest.raises(VTAError) as caught:
        estimate(insns, model=replace(DE10, token_queue=1))
    assert caught.value.code == "V306"
    assert caught.value.where == (
        "load holds instruction 1 for a full token queue\n"
        "     compute holds instruction 4 for a full token queue"
    )


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"gemm_interval": 0}, "gemm_interval to be an integer >= 1, found 0"),
        ({"dram_latency": -1}, "dram_latency to be an integer >= 0, found -1"),
        ({"bus_bytes": 0}, "bus_bytes to be an integer >= 1, found 0"),
        ({"command_queue": 2.5}, "command_queue to be an integer >= 1, found 2.5"),
    ],
)
def test_bad_parameters(values: dict[str, int], found: str) -> None:
    with pytest.raises(VTAError) as caught:
        replace(DE10, **values)
    assert caught.value.code == "V009"
    assert found in str(caught.value)


def test_presets_by_name() -> None:
    assert TimingModel.named("de10") == TimingModel() == DE10
    assert TimingModel.named("pynq") == PYNQ
    with pytest.raises(VTAError, match=r"V009.*de10, pynq, found 'asic'"):
        TimingModel.named("asic")


def test_pynq_constants() -> None:
    text = "alu.max.imm uop=0,1 out=10 in=10\ngemm uop=0,1 out=10 in=10\nload.uop\nfinish"
    times = estimate(assemble(text), model=PYNQ)
    assert (times.end - times.start).tolist() == [210, 110, 1, 1]
    assert times.delivered.tolist() == [2, 4, 6, 8]
    text = "store.out y=2 x=3 stride=3 {push_prev}\nfinish {pop_next}"
    times = estimate(assemble(text), model=PYNQ)
    assert (times.end - times.start).tolist() == [32 + 2 * 3 * 2, 1]


def test_efficiency_is_the_best_bound_over_the_cycles() -> None:
    times = estimate(assemble("gemm uop=0,1 out=100 in=100\nfinish"))
    assert times.bounds == {"load": 4, "gemm": 10000, "alu": 0, "store": 0}
    assert times.efficiency == 10000 / times.cycles


def test_an_empty_timeline_is_refused_like_any_stream_without_finish() -> None:
    with pytest.raises(VTAError, match="V303"):
        estimate(assemble(""))


def test_broken_streams_are_refused() -> None:
    with pytest.raises(VTAError, match="V301"):
        estimate(assemble("load.uop {pop_prev}\nfinish"))
    with pytest.raises(VTAError, match="V303"):
        estimate(assemble("load.uop"))


def same(one: Timeline, other: Timeline) -> bool:
    return one.cycles == other.cycles and np.array_equal(one.end, other.end)


def test_results_carry_the_times_of_the_chosen_model() -> None:
    insns, dram = assemble("load.uop y=1 x=4\nfinish"), np.zeros(4096, np.uint8)
    for timing, model in ((True, DE10), (PYNQ, PYNQ)):
        result = simulate(insns, dram, timing=timing)
        assert result.timeline is not None
        assert same(result.timeline, estimate(insns, model=model))
        assert result.cycles == result.timeline.cycles
        assert result.timeline.model == model
    assert same(Program(insns).timeline, Program(insns).time(DE10))

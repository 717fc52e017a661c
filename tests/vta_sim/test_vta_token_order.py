"""Queues and tokens: legal interleavings, deadlocks, what is left over, FINISH."""

from __future__ import annotations

import re

import numpy as np
import pytest

from byocir.vta_sim import Program, VTAError, assemble, decode, encode_uops, run_in_order, simulate
from byocir.vta_sim.isa import Queue
from byocir.vta_sim.token_order import NEVER, NOT_WAITING, link, route

EPILOGUE = "finish {pop_next}"


def test_routing() -> None:
    text = "load.uop\nload.wgt\nload.inp\nload.acc\nload.acc_8bit\nstore.uop\ngemm\nalu.min\nfinish"
    load, compute, store = Queue
    assert route(decode(assemble(text))).tolist() == [
        compute, load, load, compute, compute, store, compute, compute, compute,
    ]  # fmt: skip


def test_pops_match_pushes_in_order() -> None:
    text = """
    load.inp {push_next}
    load.inp {push_next}
    gemm {pop_prev,push_next}
    gemm {pop_prev}
    store.uop {pop_prev,push_prev}
    load.uop {pop_prev,pop_next}
    """
    links = link(decode(assemble(text)))
    none = NOT_WAITING
    assert links.waits.tolist() == [
        [none, none], [none, none], [0, none], [1, none], [2, none], [NEVER, 4],
    ]  # fmt: skip


def double_buffered(blocks: int) -> str:
    """Blocked GEMM with two halves of each buffer in flight, as upstream's two virtual threads."""
    lines = ["load.uop dram=0x0 y=1 x=2"]
    for block in range(blocks):
        half, first = block % 2, block < 2
        wait = "" if first else "pop_next,"
        push = "push_prev," if block + 2 < blocks else ""
        lines += [
            f"load.wgt sram={half} dram={2 + block} y=1 x=1" + (" {pop_next}" if wait else ""),
            f"load.inp sram={half * 4} dram={256 + 4 * block} y=1 x=4 {{push_next}}",
            f"load.uop {{{'pop_next' if wait else ''}}}",
            f"gemm.reset uop={half},{half + 1} out=1 in=4 dst=0,1",
            f"gemm uop={half},{half + 1} out=1 in=4 dst=0,1 src=0,1 {{pop_prev,{push}push_next}}",
            f"store.out sram={half * 4} dram={1024 + 4 * block} y=1 x=4 {{pop_prev,push_prev}}",
        ]
    return "\n".join([*lines, "load.uop {pop_next}", EPILOGUE])


@pytest.mark.parametrize("blocks", [2, 5, 8])
def test_any_interleaving_of_a_correct_program_agrees(blocks: int) -> None:
    dram = np.random.default_rng(blocks).integers(0, 256, 1 << 15, dtype=np.uint8)
    dram[:8] = encode_uops([0, 4], [0, 4], [0, 1]).view(np.uint8)
    insns = assemble(double_buffered(blocks))
    expected = run_in_order(insns, dram)
    assert not np.array_equal(expected, dram)
    orders: set[tuple[int, ...]] = set()
    for seed in (None, *range(12)):
        program = Program(insns, seed=seed)
        orders.add(tuple(program.order))
        assert np.array_equal(program.run(dram, check=True).dram, expected)
    assert len(orders) > 6


def error(text: str) -> VTAError:
    with pytest.raises(VTAError) as caught:
        simulate(assemble(text), np.zeros(4096, np.uint8))
    return caught.value


def test_deadlock_reports_heads_counts_and_missing_tokens() -> None:
    report = error(
        "load.inp {push_next}\nload.inp {pop_next}\nload.uop {pop_prev}\n"
        "gemm uop=0,1 {pop_prev,pop_next}\nstore.uop {pop_prev}\nfinish"
    )
    assert report.code == "V301"
    assert str(report) == (
        "error[V301]: expected a queue that can run, found a deadlock after 2 of 6; tokens: "
        "load->compute 0, compute->load 0, compute->store 0, store->compute 0\n"
        "  at    load head, instruction 1: load.inp {pop_next} (missing compute->load)\n"
        "     compute head, instruction 3: gemm uop=0,1 {pop_prev,pop_next}"
        " (missing load->compute, store->compute)\n"
        "     store head, instruction 4: store.uop {pop_prev} (missing compute->store)\n"
        "  help  a popped token must be pushed by the neighbouring stage"
    )


def test_circular_wait_is_a_deadlock() -> None:
    report = error("load.inp {pop_next,push_next}\nload.uop {pop_prev,push_prev}\nfinish")
    assert report.code == "V301"
    assert "store queue is empty" in report.where


def test_pop_takes_all_tokens_or_none() -> None:
    report = error("load.inp {push_next}\nload.uop {pop_prev,pop_next}\nfinish")
    assert "load->compute 1" in report.found
    assert re.search(r"compute head.*\(missing store->compute\)", report.where)


@pytest.mark.parametrize(
    ("text", "code", "found"),
    [
        ("", "V303", "none in 0 instructions"),
        ("load.uop", "V303", "none in 1 instructions"),
        ("finish\nload.uop", "V304", "FINISH at 0 before it"),
        ("finish\nfinish", "V304", "FINISH at 0 before it"),
        ("load.inp {push_next}\nload.inp {push_next}\nfinish {pop_prev}", "V302",
         "1 in load->compute"),
        ("load.uop {push_prev,push_next}\nfinish", "V302",
         "1 in compute->load, 1 in compute->store"),
        ("load.inp\nfinish", "V305", "no push_next"),
        ("store.uop\nfinish", "V305", "no push_prev"),
        ("load.inp {push_next}\nload.inp\nfinish {pop_prev}", "V305", "no push_next"),
    ],
)  # fmt: skip
def test_endings(text: str, code: str, found: str) -> None:
    report = error(text)
    assert report.code == code
    assert report.found == found


def test_finish_may_come_early_in_the_stream_if_it_waits() -> None:
    insns = assemble("finish {pop_next}\nstore.uop {push_prev}")
    assert simulate(insns, np.zeros(0, np.uint8)).counters.instructions["STORE"] == 1

"""Traces: their form by schema; slices nest, time runs forward and arrows have two ends."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_vta_timing_random import MODELS, few, pairs_of, streams, timed

import byocir.vta_sim
from byocir.vta_sim import (
    DEFAULT_CONFIG,
    Memory,
    Program,
    TimingModel,
    VTAError,
    assemble,
    disassemble,
    trace_events,
    write_trace,
)

SCHEMA = json.loads((Path(byocir.vta_sim.__file__).parent / "trace.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
TWO_TILES = """
load.uop y=1 x=1
load.inp sram=0x0 y=1 x=4
load.wgt sram=0x0 y=1 x=2 {push_next}
gemm uop=0,1 out=1 in=4 dst=0,1 src=0,1 {pop_prev,push_prev,push_next}
store.out sram=0x0 y=1 x=4 {pop_prev}
load.inp sram=0x0 y=1 x=4 {pop_next,push_next}
gemm uop=0,1 out=1 in=4 dst=0,1 src=0,1 {pop_prev,push_next}
store.out sram=0x2 y=1 x=4 {pop_prev,push_prev}
finish {pop_next}
"""


def events(trace: dict[str, Any], phase: str, **wanted: object) -> list[dict[str, Any]]:
    found = [event for event in trace["traceEvents"] if event["ph"] == phase]
    return [e for e in found if all(e.get(key) == value for key, value in wanted.items())]


def levels(trace: dict[str, Any], name: str, series: str = "elements") -> list[tuple[int, int]]:
    return [(e["ts"], e["args"][series]) for e in events(trace, "C", name=name)]


def check(trace: dict[str, Any]) -> None:
    """What a viewer relies on and the schema cannot say."""
    VALIDATOR.validate(trace)
    timed_events = [event for event in trace["traceEvents"] if event["ph"] != "M"]
    assert all(first["ts"] <= second["ts"] for first, second in pairwise(timed_events))
    tracks = {event["tid"] for event in events(trace, "M", name="thread_name")}
    assert {event["tid"] for event in timed_events if event["ph"] != "C"} <= tracks
    for track in tracks:
        open_slices: list[int] = []
        for event in events(trace, "X", tid=track):
            end = event["ts"] + event["dur"]
            assert end <= trace["otherData"]["cycles"]
            while open_slices and open_slices[-1] <= event["ts"]:
                open_slices.pop()
            assert not open_slices or end <= open_slices[-1], "slices overlap without nesting"
            open_slices.append(end)
    check_flows(trace)


def check_flows(trace: dict[str, Any]) -> None:
    starts = {event["id"]: event for event in events(trace, "s")}
    ends = {event["id"]: event for event in events(trace, "f")}
    assert len(starts) == len(events(trace, "s"))
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        assert start["tid"] != ends[number]["tid"]
        assert start["name"] == ends[number]["name"]
        for event in (start, ends[number]):
            assert any(
                s["ts"] <= event["ts"] < s["ts"] + s["dur"]
                for s in events(trace, "X", tid=event["tid"], cat="instruction")
            )


@pytest.mark.parametrize("name", ["de10", "narrow", "tight unlimited"])
@few
@given(insns=streams(), data=st.data())
def test_any_trace_is_well_formed(name: str, insns: np.ndarray, data: st.DataObject) -> None:
    times = timed(insns, MODELS[name])
    if times is None:
        return
    names = st.lists(
        st.sampled_from(["", "conv", "pool"]), min_size=len(insns), max_size=len(insns)
    )
    locations = data.draw(st.none() | names)
    trace = trace_events(Program(insns), MODELS[name], locations)
    check(trace)
    slices = {event["args"]["index"]: event for event in events(trace, "X", cat="instruction")}
    assert [slices[i]["name"] for i in range(len(insns))] == disassemble(insns)
    assert [slices[i]["ts"] for i in range(len(insns))] == times.start.tolist()
    assert [slices[i]["dur"] for i in range(len(insns))] == (times.end - times.start).tolist()
    found = [slices[i]["args"].get("location", "") for i in range(len(insns))]
    assert found == (locations or [""] * len(insns))
    assert len(events(trace, "s")) == len(pairs_of(insns))
    check_counters(trace, insns, MODELS[name])


def check_counters(trace: dict[str, Any], insns: np.ndarray, model: TimingModel) -> None:
    for memory in (Memory.UOP, Memory.WGT, Memory.INP, Memory.ACC):
        found = levels(trace, f"{memory.name.lower()} elements")
        assert all(0 <= level <= DEFAULT_CONFIG.depth(memory) for _, level in found)
        assert not found or found[-1][1] == 0
    counters = Program(insns).counters
    written = levels(trace, "dram write (bytes per cycle)", "store")
    assert area(written) == pytest.approx(counters.out_store_nbytes, rel=0.01, abs=0.01)
    name = "dram read (bytes per cycle)"
    read = {client: area(levels(trace, name, client)) for client in ("fetch", "load", "compute")}
    if model.bus_bytes:
        assert read["fetch"] >= insns.nbytes
        assert read["load"] >= counters.inp_load_nbytes + counters.wgt_load_nbytes
    else:
        assert not any(read.values())


def area(found: list[tuple[int, int]]) -> float:
    """The integral of a counter over time."""
    return sum((late - early) * value for (early, value), (late, _) in pairwise(found))


def test_slices_of_one_location_are_nested_in_a_slice() -> None:
    names = ["", *["tile 0"] * 3, *["tile 0"], *["tile 1"] * 3, ""]
    insns = assemble(TWO_TILES)
    trace = trace_events(Program(insns), locations=names)
    times = Program(insns).timeline
    found = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events(trace, "X", cat="location")]
    start, end = times.start.tolist(), times.end.tolist()
    assert sorted(found, key=lambda slice_: slice_[1:]) == [
        ("tile 0", 2, start[1], end[2] - start[1]),
        ("tile 1", 2, start[5], end[5] - start[5]),
        ("tile 0", 3, start[3], end[3] - start[3]),
        ("tile 1", 3, start[6], end[6] - start[6]),
        ("tile 0", 4, start[4], end[4] - start[4]),
        ("tile 1", 4, start[7], end[7] - start[7]),
    ]


def test_scratchpads_fill_and_empty() -> None:
    insns = assemble(TWO_TILES)
    trace, times = trace_events(Program(insns)), Program(insns).timeline
    start, end = times.start.tolist(), times.end.tolist()
    assert levels(trace, "wgt elements") == [(0, 0), (start[2], 2), (end[6], 0)]
    assert start[5] == end[3], "one tile gives way to the next"
    assert levels(trace, "inp elements") == [(0, 0), (start[1], 4), (end[6], 0)]
    assert levels(trace, "uop elements") == [(0, 0), (start[0], 1), (end[6], 0)]
    assert levels(trace, "acc elements") == [
        (0, 0), (start[3], 6), (end[4], 2), (start[6], 4), (end[7], 0),
    ]  # fmt: skip


def test_waits_are_told_beside_the_slice() -> None:
    trace = trace_events(Program(assemble(TWO_TILES)))
    (gemm, _) = [e for e in events(trace, "X") if e["name"].startswith("gemm")]
    assert gemm["args"]["index"] == 3
    assert gemm["args"]["waited for token"] > 0


def test_written_traces_read_back(tmp_path: Path) -> None:
    trace = trace_events(Program(assemble(TWO_TILES)), TimingModel.pynq())
    write_trace(trace, tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == trace
    assert trace["otherData"]["model"] == "pynq"


def test_locations_must_fit() -> None:
    with pytest.raises(VTAError, match=r"V005.*expected 9 locations, found 1"):
        trace_events(Program(assemble(TWO_TILES)), locations=["tile"])


def test_the_check_finds_what_is_wrong() -> None:
    """The validator of these tests is worth something: each fault below is found."""
    good = trace_events(Program(assemble(TWO_TILES)))
    check(good)
    slices = events(good, "X", cat="instruction")
    faults: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (slices[0], {"dur": slices[0]["dur"] + 10_000}),
        (slices[1], {"ts": -1}),
        (events(good, "f")[0], {"id": 99}),
        (events(good, "s")[0], {"tid": 1}),
        (events(good, "C")[0], {"args": {"elements": -1}}),
        (events(good, "X", cat="fetch")[0], {"tid": 9}),
    ]
    for event, change in faults:
        bad = good | {"traceEvents": [e | change if e is event else e for e in good["traceEvents"]]}
        with pytest.raises((AssertionError, jsonschema.ValidationError)):
            check(bad)

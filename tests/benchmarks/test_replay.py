"""What `make replay` says of two records: nothing of equal ones, and each thing that differs."""

import json

import numpy as np
from replays.difference import differences, sums, table
from replays.record import recorded

from byocir.vta_sim import VTAConfig, assemble

LONG = ["load.inp dram=0x10 y=1 x=4 stride=4 {push_next}", "gemm uop=0,1 out=1 in=1 {pop_prev}"]
SHORT = ["load.inp dram=0x10 y=1 x=4 stride=4"]


def job(lines, cycles=7, source="int x;\n"):
    """The record of a package with one stream, as a compilation would give it."""
    report = {"device": {"vta_0": {"cycles": cycles}}, "memory": {"arena": 64}, "host": []}
    interface = {"config": VTAConfig().to_dict()}
    members = {
        "report.json": json.dumps(report).encode(),
        "blobs/vta/vta_0.insns": np.asarray(assemble("\n".join([*lines, "finish"]))).tobytes(),
        "blobs/vta/vta_0.json": json.dumps(interface).encode(),
    }
    return recorded(members, {"model.c": source})


def found(before, after):
    """Rows without the digests."""
    rows = differences({"net": before}, {"net": after})
    return {row.what: (row.before, row.after, row.change) for row in rows}


def test_equal_records_have_no_difference():
    assert found(job(LONG), job(LONG)) == {}
    assert sums({"net": job(LONG)}, {"net": job(LONG)}) == []


def test_a_changed_stream_is_told_by_kind_of_instruction():
    rows = found(job(LONG), job(SHORT, cycles=5))
    assert rows.pop("vta/vta_0.insns")[0] != ""
    assert rows["vta_0, gemm"] == ("1", "0", "-100.00 %")
    assert rows["vta_0, cycles"] == ("7", "5", "-28.57 %")
    assert rows.keys() == {"vta_0, gemm", "vta_0, cycles", "vta_0, profile"}


def test_a_stream_of_other_bytes_with_equal_counts_is_told():
    moved = [LONG[0].replace("0x10", "0x20"), LONG[1]]
    assert found(job(LONG), job(moved)).keys() == {"vta/vta_0.insns"}


def test_changed_c_is_told_with_its_lines():
    rows = found(job(LONG), job(LONG, source="int x;\nint y;\n"))
    assert rows.keys() == {"host, model.c", "host, lines of model.c"}
    assert rows["host, lines of model.c"] == ("1", "2", "+100.00 %")


def test_a_compilation_that_fails_now_is_a_difference():
    rows = found(job(LONG), {"error": "B321: no"})
    assert rows == {"result": ("compiles", "B321: no", "")}


def test_jobs_of_one_side_are_told():
    (row,) = differences({"net": job(LONG)}, {})
    assert (row.job, row.before, row.after) == ("net", "there", "none")


def test_the_table_names_a_job_once_and_adds_up():
    before, after = {"a": job(LONG), "b": job(LONG)}, {"a": job(SHORT, 5), "b": job(LONG, 9)}
    text = table([*differences(before, after), *sums(before, after)])
    assert [line.split("  ")[0] for line in text.splitlines()].count("a") == 1
    assert text.splitlines()[-1].split() == ["all", "jobs", "cycles", "14", "14", "+0.00", "%"]


def test_a_job_that_fails_on_both_sides_is_told():
    failed = {"error": "B246: expected another objective"}
    (row,) = differences({"net": failed}, {"net": failed})
    assert (row.what, row.before, row.after) == ("result", failed["error"], failed["error"])


def test_long_messages_do_not_widen_the_table():
    rows = differences({"net": job(LONG)}, {"net": {"error": "B321: " + "no " * 99}})
    assert max(map(len, table(rows).splitlines())) < 120

"""`byocir diff`: in what two compilations differ."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from byocir.cli.main import main
from byocir.dialects.decisions import Node, Taken
from byocir.runtime.report import Region, Report
from byocir.runtime.report_diff import compare

DIGITS = ["examples/digits/digits_int8.onnx", "--shape", "image=1,1,8,8"]
PAGE = Path("docs/command-line.md")


def report(**places: str) -> Report:
    """A report of nodes by place: "host", or the symbol of a region of npu, each with 8 bytes."""
    regions = [
        Region(symbol, "npu", "graph", [Taken("npu.op", "graph", nodes)], nodes, [], [], 8, [])
        for symbol in dict.fromkeys(places.values())
        if symbol != "host"
        for nodes in [[name for name, place in places.items() if place == symbol]]
    ]
    nodes = [Node(name, "Relu", 2) for name in places]
    host = [name for name, place in places.items() if place == "host"]
    return Report(nodes, ["npu"], regions, host, [], [])


def test_a_report_does_not_differ_from_itself():
    same = report(a="npu_0", b="host", c="npu_1")
    found = compare(same, same)
    assert [found.moved, found.regions, found.layers] == [[], [], []]
    assert all(change.before == change.after for change in found.totals)


def test_nodes_that_move_and_regions_that_only_one_has_are_told():
    found = compare(report(a="npu_0", b="host"), report(a="npu_0", b="npu_0", c="host"))
    assert found.moved == [("b", "host", "npu"), ("c", "", "host")]
    told = [(change.name, change.before, change.after) for change in found.regions]
    assert told == [("npu_0 nodes", 1, None), ("npu_0 nodes", None, 2)]
    totals = {change.name: change.difference for change in found.totals}
    assert totals["npu nodes"] == "+1 (+100.0 %)"
    assert totals["npu regions"] == ""


def test_cycles_are_those_of_all_turns():
    before, after = report(a="npu_0"), report(a="npu_0")
    before.device = {"npu_0": {"cycles": 10, "by_node": []}}
    after.device = {"npu_0": {"cycles": 10, "by_node": []}}
    after.regions = [replace(region, turns=3, bytes=9) for region in after.regions]
    told = [(change.name, change.before, change.after) for change in compare(before, after).regions]
    assert told == [("npu_0 bytes", 8, 9), ("npu_0 cycles", 10, 30)]


def test_packages_and_reports_are_compared_as_the_page_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plain, gathered, told = (str(tmp_path / name) for name in ("a.bpkg", "b.bpkg", "b.json"))
    assert main(["compile", *DIGITS, "--target", "vta{gather=false}", "-o", plain]) == 0
    assert main(["compile", *DIGITS, "-o", gathered, "--report", told]) == 0
    capsys.readouterr()
    assert main(["diff", plain, gathered]) == 0
    found = capsys.readouterr().out
    (shown,) = re.findall(r"<!-- output of diff -->\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found == shown
    assert main(["diff", plain, told, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [change["name"] for change in data["regions"]] == ["vta_0 bytes", "vta_0 cycles"]
    assert main(["diff", gathered, told]) == 0
    assert "regions: none" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{}", "[1", "\x80", "[" * 100_000, '{"nodes": 3}'])
def test_what_is_no_report_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("latin-1"))
    assert main(["diff", str(path), str(path)]) == 1
    assert "error[B101]: expected a package or a report" in capsys.readouterr().err
    assert main(["diff", str(tmp_path / "none"), str(path)]) == 1
    assert "found: No such file" in capsys.readouterr().err

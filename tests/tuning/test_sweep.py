"""`byocir sweep`: a model on many settings of a target, the same whoever compiles."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import byocir
from byocir.cli.main import main
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.tuning.sweep import SweepPoint, pareto, point, settings_of

ENGINE = str(Path(__file__).parents[2] / "examples" / "counted_engine.py")
VARY = {"log_block": [3, 5], "rounding": ["floor"]}


def test_ranges_are_read():
    found = settings_of(["log_block=3..5", "rounding=half_up,half_even", "acc_8bit=true,false"])
    assert found["log_block"] == [3, 4, 5]
    assert found["rounding"] == ["half_up", "half_even"]
    assert found["acc_8bit"] == [True, False]


@pytest.mark.parametrize(
    "texts", [["x"], ["=1"], ["x="], ["x=5..4"], ["x=1..y"], ["x=1,1"], ["x=1", "x=2"], ["x=,"]]
)
def test_what_is_no_range_is_refused(texts: list[str]):
    with pytest.raises(ByocirError) as error:
        settings_of(texts)
    assert error.value.code == "B267"


def test_a_sweep_has_an_end():
    with pytest.raises(ByocirError, match="at most 10,000 points"):
        settings_of(["x=1..200", "y=1..200"])


costs = st.integers(0, 3)


@given(st.lists(st.tuples(st.integers(1, 3), costs, costs), max_size=8), st.booleans())
def test_no_point_of_the_pareto_set_is_beaten(found: list[tuple[int, int, int]], refuse: bool):
    points = [SweepPoint({}, cycles, float(energy), memory) for cycles, energy, memory in found]
    points += [SweepPoint({}, refusal="no")] * refuse
    best = pareto(points)
    assert any(best) == bool(found)
    for each, is_best in zip(points, best, strict=True):
        beaten = any(
            all(a <= b for a, b in zip(other.costs, each.costs, strict=True))
            and other.costs != each.costs
            for other in points
            if not other.refusal
        )
        assert is_best == (not beaten and not each.refusal)


def test_each_point_is_what_compiling_for_it_gives(small: str):
    serial = byocir.sweep(small, VARY)
    refused, found = serial
    assert "to fit 64 bits" in refused.refusal
    target = byocir.Vta().varied({"log_block": 5})
    package = byocir.compile(small, targets=[target])
    programs = package.profile()
    assert found.cycles == sum(program.cycles for program in programs)
    assert found.energy == sum(program.details["energy_pj"] for program in programs)
    assert found.memory == 8 * (2**15 + 2**15 + 2**18 + 2**17)
    assert found.utilisation == package.report.macs["vta"] / (found.cycles * 32 * 32)
    with ThreadPoolExecutor(2) as executor:
        assert byocir.sweep(small, VARY, executor=executor) == serial


def test_a_setting_that_a_target_does_not_have_is_refused(small: str):
    with pytest.raises(ByocirError) as error:
        byocir.sweep(small, {"log_blok": [4]})
    assert (error.value.code, error.value.help) == ("B267", "did you mean 'log_block'?")


PRODUCT = """
func.func @main(%a: tensor<8x8xi8>, %b: tensor<8x8xi8>) -> tensor<8x8xi32> {
  %0 = graph.matmul %a, %b : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xi32>
  func.return %0 : tensor<8x8xi32>
}
"""


def test_memories_of_a_described_machine_are_counted():
    (point,) = byocir.sweep(parse_module(PRODUCT), {}, target=ENGINE)
    assert point.cycles > 0
    assert point.memory == 8 * 16 * 1024 + 32 * 16 * 256  # rows of near, and of sums
    assert (point.energy, point.utilisation) == (None, None)  # it does not tell


def test_an_interrupted_sweep_goes_on(small: str, tmp_path: Path, capsys, monkeypatch):
    table, part = tmp_path / "points.csv", tmp_path / "points.csv.part"
    vary = ["--vary", "log_block=3..4", "--vary", "rounding=floor,half_up"]
    command = ["sweep", small, *vary, "--csv", str(table)]
    done = []

    def interrupted(job):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(job[1])
        return point(job)

    monkeypatch.setattr("byocir.tuning.sweep.point", interrupted)
    assert main(command) == 130
    assert f"the same command goes on with what is in {part}" in capsys.readouterr().err
    assert not table.exists()
    part.write_text(part.read_text()[:-5] + "\n{}\n[1]\n")  # as where the power fails, and worse
    first, done[:] = done[:], []
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "goes on after 2 points that an earlier run compiled for" in err
    assert done == [first[2], {"log_block": 4, "rounding": "half_up"}]
    assert not part.exists()
    monkeypatch.undo()
    rows = table.read_text()
    assert main(command) == 0
    assert (table.read_text(), capsys.readouterr().out) == (rows, out)


def test_a_journal_of_another_job_is_not_used(tmp_path: Path):
    journal, told = tmp_path / "part", []
    row = {"settings": {}, "cycles": 1, "energy": None, "memory": 1, "utilisation": None}
    journal.write_text(json.dumps({"job": "0" * 64, **row, "refusal": ""}))
    module = parse_module(PRODUCT)
    (found,) = byocir.sweep(module, {}, target=ENGINE, journal=journal, tell=told.append)
    assert found.cycles > 1
    assert told[0] == "goes on after 1 point that an earlier run compiled for"
    assert not journal.exists()


def test_the_command_prints_a_table_and_writes_files(small: str, tmp_path: Path, capsys):
    table, page = tmp_path / "points.csv", tmp_path / "points.html"
    command = ["sweep", small, "--vary", "log_block=3..4"]
    assert main([*command, "--csv", str(table), "--html", str(page)]) == 0
    head, refused, best = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["log_block", "cycles"]
    assert refused.split()[0] == "3"
    assert "to fit 64 bits" in refused
    assert best.endswith("*")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["pareto"] for row in rows] == ["", "True"]
    assert int(rows[1]["cycles"]) > 0
    assert page.read_text().count("<circle") == 1
    assert "to fit 64 bits" in page.read_text()

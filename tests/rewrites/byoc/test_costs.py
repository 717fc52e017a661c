"""Measured costs: read, written, carried by modules, and used before what targets estimate."""

import json
import re
import time
from importlib import resources

import jsonschema
import pytest

import byocir
from byocir.cli.main import main
from byocir.dialects.text import parse_module, print_module
from byocir.errors import ByocirError
from byocir.rewrites.byoc.costs import SCHEMA_VERSION, CostTable, costs_of, read_costs
from byocir.runtime.time_regions import least_seconds

DIGITS = "examples/digits/digits_int8.onnx"
SHAPES = {"image": (1, 1, 8, 8)}
STEM = "/stem/conv/Conv"
SCHEMA = json.loads((resources.files("byocir.rewrites.byoc") / "costs.schema.json").read_text())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The text of a table that the command line measured."""
    path = tmp_path_factory.mktemp("costs") / "costs.json"
    model = [DIGITS, "--shape", "image=1,1,8,8"]
    assert main(["measure", *model, "--target", "vta", "--target", "ort", "-o", str(path)]) == 0
    return path.read_text()


def changed(table, composite, **costs):
    """The table with other costs for a composite."""
    data = json.loads(table)
    for row in data["costs"]:
        if row["composite"] == composite:
            row.update(costs)
    return read_costs(json.dumps(data))


def taken(costs=None, objective="latency"):
    """Who takes the first convolution, and what decided."""
    module = byocir.import_onnx(DIGITS, shapes=SHAPES)
    report = byocir.partition(
        module, ["vta", "ort"], levels=["graph"], objective=objective, costs=costs
    )
    decided = (d.reason for d in report.reasons[STEM] if d.taken)
    return report.places[STEM], next(decided), module


def test_what_is_measured_fits_the_schema_and_comes_back(table):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(table), SCHEMA)
    assert read_costs(table).to_json() == table
    composites = {row["composite"] for row in json.loads(table)["costs"]}
    assert {"vta.conv", "vta.dense", "ort.conv", "ort.requantize"} <= composites


def test_measured_costs_count_before_estimates(table):
    cheap = changed(table, "ort.conv", latency=1e-9)
    for name in ("ort.requantize", "ort.relu", "ort.clip"):
        cheap = changed(cheap.to_json(), name, latency=1e-9)
    place, why, _ = taken(cheap)
    assert place == "ort"
    assert re.fullmatch(r"latency 3e-09 measured on ort, \S+ measured on vta", why)
    dear = changed(table, "ort.conv", latency=1.0)
    place, why, _ = taken(dear)
    assert (place, "measured on vta, 1" in why) == ("vta", True)


def test_the_host_is_measured_on_what_targets_take(small, tmp_path):
    path = tmp_path / "costs.json"
    options = ["--levels", "graph", "--target", "ort", "--host", "c"]
    assert main(["measure", small, *options, "-o", str(path)]) == 0
    table = read_costs(path.read_text())
    assert {ops for name, ops in table.entries if name == "host"} == {
        ops for name, ops in table.entries if name != "host"
    }
    report = byocir.compile(
        small, targets=["ort"], host="c", objective="latency", costs=table
    ).report
    (conv,) = [node.name for node in report.nodes if node.op_type == "Conv"]
    told = [each.reason for each in report.reasons[conv] if "on host" in each.reason]
    assert any(re.search(r"measured on ort.*measured on host|measured on host", t) for t in told)


def test_who_waits_for_others_takes_what_passes():
    assert least_seconds(lambda: time.sleep(2e-3)) >= 2e-3
    assert least_seconds(lambda: sum(range(1000))) < 1e-3


def test_without_an_entry_the_estimate_counts(table):
    rows = [r for r in json.loads(table)["costs"] if r["composite"] != "vta.conv"]
    place, why, _ = taken(read_costs(json.dumps({"schema_version": SCHEMA_VERSION, "costs": rows})))
    assert re.fullmatch(r"latency \S+ on vta, \S+ measured on ort", why)
    assert taken()[1] == taken(CostTable())[1]
    assert place == "vta"


def test_another_objective_has_its_own_figures(table):
    assert "measured" not in taken(read_costs(table), objective="energy")[1]


def test_a_module_carries_its_table(table):
    *_, module = taken(read_costs(table))
    assert costs_of(parse_module(print_module(module))) == read_costs(table)


def test_a_table_without_an_objective_is_refused(table):
    with pytest.raises(ByocirError, match=r"B249.*expected an objective.*found none"):
        taken(read_costs(table), objective="")


ENTRY = {"composite": "a.b", "ops": ["graph.relu (f32) -> f32"], "latency": 1.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "expected JSON"),
        ("[]", "expected an object with schema_version and costs"),
        ({"costs": []}, "expected schema_version 2 in a table of costs, found null"),
        ({"schema_version": SCHEMA_VERSION}, "expected costs as a list"),
        ([3], r"costs\[0\]"),
        ([{**ENTRY, "composite": 3}], "expected composite as a string"),
        ([{**ENTRY, "ops": "relu"}], "expected ops as a list of strings"),
        ([{**ENTRY, "latency": "fast"}], 'expected latency as a number of at least 0.*"fast"'),
        ([{**ENTRY, "latency": -1}], "expected latency as a number of at least 0"),
        ([{**ENTRY, "latency": True}], "expected latency as a number of at least 0"),
        ([{**ENTRY, "speed": 1}], r'expected one or more of latency, energy, bytes.*"speed"'),
        ([{k: v for k, v in ENTRY.items() if k != "latency"}], "expected one or more of latency"),
        ([ENTRY, ENTRY], r"the same ops once(.|\n)*costs\[1\]"),
    ],
)
def test_tables_of_another_form(text, message, tmp_path):
    if isinstance(text, list):
        text = {"schema_version": SCHEMA_VERSION, "costs": text}
    path = tmp_path / "costs.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(ByocirError, match=rf"B249(.|\n)*{message}") as caught:
        taken(path)
    assert str(path) in caught.value.where
    if not isinstance(text, str) and text.get("costs") != [ENTRY, ENTRY]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(text, SCHEMA)


def test_the_command_line_refuses_what_has_no_meaning(tmp_path, capsys):
    out = str(tmp_path / "costs.json")
    for more, code in (
        (["--objective", "latency"], "B114"),
        (["--target", "vtx"], "B210"),
    ):
        assert main(["measure", DIGITS, "--shape", "image=1,1,8,8", "-o", out, *more]) == 1
        assert code in capsys.readouterr().err
    command = ["explain", DIGITS, "--objective", "latency", "--costs", out]
    assert main(command) == 1
    assert "B101" in capsys.readouterr().err

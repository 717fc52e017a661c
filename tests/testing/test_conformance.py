"""`conform` finds what is wrong with targets, and nothing where nothing is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from byocir.cli.main import main
from byocir.testing import conform

EXAMPLES = Path(__file__).parents[2] / "examples"
TOY = EXAMPLES / "toy_npu.py"


def broken(folder: Path, old: str, new: str, example: Path = TOY) -> str:
    """A copy of an example with a bug, as a target."""
    text = example.read_text()
    assert text.count(old) == 1, f"{text.count(old)} of {old}"
    path = folder / example.name
    path.write_text(text.replace(old, new))
    return str(path)


@pytest.mark.parametrize("name", ["toy_npu", "tile_npu"])
def test_the_examples_conform(name, conforms):
    score = conforms(str(EXAMPLES / f"{name}.py"), rounds=3)
    assert score.never == []


def test_a_problem_is_made_small_and_shown_again(tmp_path, capsys):
    target = broken(tmp_path, "np.maximum(result, 0) if len(step.steps) > 1 else result", "result")
    folder = tmp_path / "found"
    assert main(["conform", target, "--rounds", "2", "-o", str(folder)]) == 3
    told = capsys.readouterr().out
    assert told.startswith("error[B380]: expected res0 as the evaluator computes it, ")
    assert "\n  at    npu.conv, in a " in told
    assert "npu: patterns 3/3, rules 2/2, " in told
    (program,) = folder.glob("*.mlir")
    ops = re.findall(r" = graph\.(\w+)", program.read_text())
    assert [op for op in ops if op != "constant"] == ["conv", "relu"]
    again = f"again byocir conform {target}:Npu --case {program}\n"
    assert again in told
    assert main(["conform", target, "--case", str(program)]) == 3
    assert "error[B380]" in capsys.readouterr().out
    assert main(["conform", str(TOY), "--case", str(program)]) == 0
    assert capsys.readouterr().out == "ok\n"


def test_the_same_seed_gives_the_same_score(capsys):
    scores = [conform(str(TOY), rounds=2, seed=seed).to_dict() for seed in (3, 3, 4)]
    assert scores[0] == scores[1]
    assert scores[0]["wrong"] == 0
    assert main(["conform", str(TOY), "--rounds", "2", "--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores[0]


def test_a_pattern_that_there_is_not(capsys):
    assert main(["conform", str(TOY), "--pattern", "npu.con"]) == 1
    assert "error[B388]: expected a pattern of target 'npu', found 'npu.con'" in (
        capsys.readouterr().err
    )

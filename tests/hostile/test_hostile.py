"""Hostile inputs of all kinds: each ends with one message of at most 1,024 printable characters, in
at most 10 seconds and 1 GB, or is found to be fine.

`messages.txt` has how each ends: exit code, code, and what was expected. `HOSTILE_WRITE=1 pytest
-n 0 -m slow tests/hostile` writes it anew; look at what changed. Some cases run with the other
tests, all with `make fuzz`.
"""

import os
from pathlib import Path

import pytest
from hostile_cases import Case, bounded, ending, problems
from hostile_families import FAMILIES

from byocir.cli.main import main
from byocir.cli.opt import run_opt
from byocir.memory import VARIABLE

MESSAGES = Path(__file__).with_name("messages.txt")
WRITE = bool(os.environ.get("HOSTILE_WRITE"))
CASES = [case for family in FAMILIES for case in family()]
KNOWN = dict(line.rsplit(" -> ", 1) for line in MESSAGES.read_text(encoding="utf-8").splitlines())
SAMPLE = 3
"""Of so many cases one runs with the other tests."""


def test_each_has_its_message():
    assert len({case.name for case in CASES}) == len(CASES) >= 500
    assert WRITE or {case.name for case in CASES if not case.code} == KNOWN.keys()


@pytest.fixture(scope="module")
def endings():
    """How cases ended, written down if that is asked for."""
    seen: dict[str, str] = {}
    yield seen
    if WRITE and len(seen) > len(CASES) / 2:
        lines = [f"{name} -> {seen[name]}\n" for name in seen]
        MESSAGES.write_text("".join(lines), encoding="utf-8")


def one_message(case: Case, folder: Path, monkeypatch, capsysbinary, endings: dict[str, str]):
    monkeypatch.setenv(VARIABLE, "256M")
    monkeypatch.chdir(folder)
    tool, *arguments = case.write(folder)
    run = {"byocir": main, "byocir-opt": run_opt}[tool]
    with bounded():
        try:
            code = run(arguments)
        except SystemExit as exit_:
            code = exit_.code
    out, err = (stream.decode() for stream in capsysbinary.readouterr())
    told = f"{case.name}\n{err[:3000]}"
    assert not problems(case, code, out, err), told
    if not case.code:
        endings[case.name] = ending(code, err.replace(str(folder), "@"))
        assert WRITE or endings[case.name] == KNOWN[case.name], told


@pytest.mark.parametrize("case", CASES[::SAMPLE], ids=lambda case: case.name[:60])
def test_some(case, tmp_path, monkeypatch, capsysbinary, endings):
    one_message(case, tmp_path, monkeypatch, capsysbinary, endings)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name[:60])
def test_all(case, tmp_path, monkeypatch, capsysbinary, endings):
    one_message(case, tmp_path, monkeypatch, capsysbinary, endings)

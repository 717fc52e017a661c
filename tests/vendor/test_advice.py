"""Mistakes in a user's file: each is told with its line, and with the name or parameters that were
meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from byocir.errors import ByocirError
from byocir.vendor.user_code import import_file

FILE = """from byocir import Target
from byocir.machine import Counted, Machine, Transfer, up_to
from byocir.patterns import composite

npu = Machine("npu")
{}
"""

MISTAKES = [
    ("npu.units('pool')", "'list' object is not callable", "did you mean 'unit'?"),
    ("found = [\n    npu.channels(\n    'port')]", "not callable", "did you mean 'channel'?"),
    ("npu.mem('near')", "'Machine' object has no attribute 'mem'", "did you mean 'memory'?"),
    ("npu.order(Count())", "name 'Count' is not defined", "did you mean 'Counted'?"),
    ("from byocir.machine import Machines", "cannot import name", "did you mean 'Machine'?"),
    ("Transfer(1, delay=4)", "argument 'delay'", "Transfer takes channel, lead=0, rank=0"),
    ("npu.unit('far', depth=2)", "argument 'depth'", "unit takes name, queue=1"),
    ("up_to()", "missing 1 required", "up_to takes most"),
    ("Machine()", "missing 1", "Machine takes name, units, memories, channels, instructions"),
    (
        "from dataclasses import dataclass\n@dataclass\nclass Npu(Target): name = 'npu'",
        "TypeError: cannot inherit non-frozen",
        "write @dataclass(frozen=True)",
    ),
    (
        "@composite('npu.a')\ndef a(): return npu.memori()",
        "pattern npu.a failed",
        "did you mean 'm",
    ),
    ("x = (1", "found SyntaxError: '(' was never closed", ""),
    ("1 / 0", "ZeroDivisionError", ""),
    ("qqq", "name 'qqq' is not defined", ""),
    ("{'near': 1, 'far': 2}['nera']", "KeyError: 'nera'", ""),
    ("held = {'near': 1}; held['nera']", "KeyError: 'nera'", "did you mean 'near'?"),
    ("held = {'w': {1: 2}, 'x': 3}; held['y'][0]", "KeyError: 'y'", "choose from w, x"),
    ("3()", "'int' object is not callable", ""),
    ("(lambda: 1)(2)", "takes 0 positional arguments", ""),
]


@pytest.mark.parametrize(("line", "told", "help"), MISTAKES, ids=lambda each: "")
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_mistake_is_told_with_its_line(tmp_path: Path, line: str, told: str, help: str) -> None:
    path = tmp_path / "npu.py"
    path.write_text(FILE.format(line))
    with pytest.raises(ByocirError) as caught:
        import_file(path, "B217")
    assert told in caught.value.message
    assert caught.value.help.startswith(help) == bool(help or not caught.value.help)
    first = FILE[: FILE.index("{")].count("\n") + 1
    assert int(caught.value.where.removeprefix(f"{path}:")) in range(first, first + 4)


def test_an_error_of_a_description_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "npu.py"
    path.write_text('from byocir.machine import MAIN\nMAIN["m k"]\n')
    with pytest.raises(ByocirError, match="expected a name for what lies in main memory") as caught:
        import_file(path, "B217")
    assert caught.value.where == f"{path}:2"


def test_a_mistake_in_another_file_is_told_with_the_line_there(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("x = 1\ny = (\n")
    (tmp_path / "npu.py").write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\ntry:\n    import parts\n"
        "finally:\n    sys.path.pop(0)\n"
    )
    with pytest.raises(ByocirError) as caught:
        import_file(tmp_path / "npu.py", "B217")
    assert caught.value.where == f"{tmp_path / 'parts.py'}:2"

"""Every op of our dialects is printed, read back and refused by a filecheck test."""

import re
from pathlib import Path

import pytest
from xdsl.ir import Operation

from byocir.dialects.context import OWN_DIALECTS

FOLDER = Path(__file__).parents[1] / "filecheck" / "dialects"
OPS = [op for make in OWN_DIALECTS.values() for op in make().operations]


def text_of(dialect: str, *, invalid: bool) -> str:
    files = [f for f in (FOLDER / dialect).glob("*.mlir") if ("invalid" in f.name) == invalid]
    return "".join(file.read_text() for file in files)


@pytest.mark.parametrize("op", OPS)
def test_each_op_has_a_round_trip(op: type[Operation]):
    dialect = op.name.partition(".")[0]
    text = text_of(dialect, invalid=False)
    assert re.search(rf"CHECK.*(?<![\w.]){re.escape(op.name)}(?![.\w])", text), (
        f"no CHECK line of a file in {FOLDER / dialect} has {op.name}"
    )


@pytest.mark.parametrize("op", [op for op in OPS if not op.name.startswith("graph.")])
def test_each_op_has_an_invalid_example(op: type[Operation]):
    """Those of the graph level are all held against wrong results, in test_wrong_results."""
    text = text_of(op.name.partition(".")[0], invalid=True)
    assert re.search(rf"^[^/\n]*{re.escape(op.name)}(?![.\w])", text, re.MULTILINE)

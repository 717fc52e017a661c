"""Rewrites as passes: in Python, and from a file of the user's."""

from pathlib import Path

import numpy as np
import pytest
from rewrite_nets import Net, op_names, run_passes

from byocir.cli.opt import run_opt
from byocir.dialects.context import load_context
from byocir.dialects.graph import ReluOp
from byocir.errors import ByocirError
from byocir.rewrites import pipeline
from byocir.rewrites.rewrite_pass import passes_in

PASS = '''
from byocir.patterns import op, wildcard
from byocir.rewrites import RewritePass, rewrites

@rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"))
def drop_second_relu(inner):
    """A relu behind a relu does nothing."""
    return inner

class DropRelus(RewritePass):
    """Drops relu ops that do nothing."""

    name = "drop-relus"
    rewrites = (drop_second_relu,)
'''
TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = graph.relu %x : (tensor<2xf32>) -> tensor<2xf32>
  %b = graph.relu %a : (tensor<2xf32>) -> tensor<2xf32>
  func.return %b : tensor<2xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "relus.py"
    path.write_text(PASS)
    return path


def test_a_pass_of_rewrites_runs_as_any_other(file: Path):
    net = Net(np.zeros(2, np.float32))
    module = net.returning(net.add(ReluOp.make(net.add(ReluOp.make(net.arguments[0])))))
    (kind,) = (load() for load in passes_in(file).values())
    assert op_names(run_passes(module, kind())) == ["relu"]


def test_byocir_opt_runs_passes_of_a_file(file: Path, capsys: pytest.CaptureFixture[str]):
    source = file.with_suffix(".mlir")
    source.write_text(TEXT)
    assert run_opt([str(source), "--load-passes", str(file), "-p", "drop-relus"]) == 0
    assert capsys.readouterr().out.count("graph.relu") == 1


def test_the_reproducer_of_a_pass_names_its_file(file: Path, monkeypatch: pytest.MonkeyPatch):
    (kind,) = (load() for load in passes_in(file).values())
    monkeypatch.setattr(kind, "apply", lambda self, ctx, op: 1 / 0)
    module = Net(np.zeros(2, np.float32))
    with pytest.raises(pipeline.ByocirInternalError) as raised:
        pipeline.run_passes(module.returning(module.arguments[0]), load_context(), [kind()])
    assert f"--load-passes {file}" in raised.value.reproducer.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [("x = 1", "expected passes, found none"), ("x = (", "expected a file that imports")],
)
def test_files_without_passes_are_refused(tmp_path: Path, text: str, said: str):
    path = tmp_path / "none.py"
    path.write_text(text)
    with pytest.raises(ByocirError, match=said) as raised:
        passes_in(path)
    assert raised.value.code == "B294"

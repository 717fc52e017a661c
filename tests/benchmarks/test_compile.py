"""`benchmarks/compile.py` times what takes no net, on small sizes."""

import pytest
from compile import calls, chain


def test_it_times_the_pipeline_and_calls(capsys: pytest.CaptureFixture[str]) -> None:
    chain(8)
    calls(4)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("chain of 8 nodes, whole pipeline: ")
    assert second.startswith("call on 16 bytes: ")

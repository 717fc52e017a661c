"""Defines the pytest plugin: a fixture that asserts that a target is right.

```python
def test_npu_conforms(conforms):
    conforms(Npu())
```

`--conform-seconds` says how long each target is tried, `--conform-seed` with which numbers. It is
installed with byocir; nothing of byocir is imported before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from byocir.testing.conformance import Score

SECONDS = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("byocir")
    group.addoption(
        "--conform-seconds",
        type=float,
        default=SECONDS,
        help=f"how long `conforms` tries each target (default: {SECONDS:.0f})",
    )
    group.addoption(
        "--conform-seed", type=int, default=0, help="of what `conforms` draws (default: 0)"
    )


@pytest.fixture
def conforms(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Score]:
    """Tests a target by `byocir.testing.conform`, and fails where something is wrong; programs that
    show it are in the test's folder.
    """
    config = request.config

    def check(target: Any, **more: Any) -> Score:
        from byocir.testing.conformance import conform

        given: dict[str, Any] = {
            "seconds": config.getoption("conform_seconds"),
            "seed": config.getoption("conform_seed"),
            "folder": tmp_path,
        }
        score = conform(target, **{**given, **more})
        if score.wrong:
            pytest.fail(score.text(), pytrace=False)
        return score

    return check

"""The options of a target shape its machine: each gives the integers of the default, also from
packages and modules that were saved, and is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_machines import product_module
from sized_npu import Sized

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds

FILE = Path(__file__).parents[1] / "programs" / "sized_npu.py"
OPTIONS = ("", "{dim=4}", "{dim=8}", "{dim=32}", "{dim=8 rows=24}", "{rows=1024 waits=true}")


def test_each_configuration_computes_what_the_default_does(tmp_path: Path) -> None:
    """Machines of other sizes take other times; a package remembers which one it is for."""
    module = product_module(13, 20, 35, relu=False)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)["res0"]
    cycles: list[int | None] = []
    for number, options in enumerate(OPTIONS):
        package = byocir.compile(module.clone(), targets=[f"{FILE}:Sized{options}"])
        package.save(tmp_path / f"{number}.pkg")
        loaded = byocir.load(tmp_path / f"{number}.pkg", targets=[f"{FILE}:Sized"])
        for each in (package, loaded):
            np.testing.assert_array_equal(each.run(feeds, check=True)["res0"], expected)
        (profile,), (again,) = package.profile(), loaded.profile()
        assert profile.cycles == again.cycles
        cycles.append(profile.cycles)
    assert len(set(cycles)) == len(OPTIONS)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"dim": 0}, "row[0] of sized.near of at least 1, found 0"), ({"rows": 0}, "rows of sized.")],
)
def test_a_wrong_configuration_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ByocirError) as caught:
        byocir.compile(product_module(4, 4, 4, relu=False), targets=[Sized(**options)])
    assert caught.value.code == "B270"
    assert told in caught.value.message

"""Descriptions that change behind a package or a class are asked as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_machines import Drawn, conv_module, gemm, machine_by, product_module

import byocir
from byocir.compiler import partition
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.machine import Machine
from byocir.patterns import Match
from byocir.patterns.target_classes import register

ROOMY = {"size": 8, "own weights": True, "near rows": 512, "weights rows": 512, "sums rows": 256}
JOINED = {**ROOMY, "copy rows": 16, "lanes": 8, "near interleaved": True}
"""One load brings all lines of an image."""


def drawn() -> Drawn:
    return machine_by(lambda options: options[0], JOINED)


@pytest.mark.parametrize("name", ["random.near", "random.product"])
def test_a_package_names_the_rule_that_its_calls_break(name: str, tmp_path: Path) -> None:
    """A load of all lines broke the limit of another load, too, if lines are not joined."""
    module, changed = conv_module((8, 8, 8), ((1, 1, 1, 0, 0),) * 2, 8), drawn()
    package = byocir.compile(module.clone(), targets=[drawn().register()()], levels=("tensor",))
    package.save(tmp_path / "net.bpkg")

    @changed.machine.called(name).rule
    def stands_still(m: Match) -> tuple[bool, object]:
        """Nothing is done on Sundays."""
        return False, "Sunday"

    changed.register()
    with pytest.raises(ByocirError, match=f"{name} does.*: Nothing is done on Sundays, found Sun"):
        byocir.load(tmp_path / "net.bpkg").run(random_feeds(module))


def test_a_machine_that_a_class_gets_later_is_asked() -> None:
    class Late(byocir.Target):
        name, patterns = "random", (gemm,)

    Late.machine = Machine("late")
    register("random", Late)
    with pytest.raises(ByocirError, match="B270"):  # it is checked, too: it has no instructions
        partition(product_module(8, 8, 8, relu=False), targets=[Late()], levels=("tensor",))
    Late.machine = drawn().machine
    report = partition(product_module(8, 8, 8, relu=False), targets=[Late()], levels=("tensor",))
    assert [each.taken for each in report.decisions] == [True]

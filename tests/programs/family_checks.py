"""What tests do with each family of random ops."""

from __future__ import annotations

import pytest
from graph_families import FAMILIES
from hypothesis import HealthCheck, assume, given, settings
from pass_checks import run_on

from byocir.evaluate.module import evaluate_function

each_family = pytest.mark.parametrize("cases", FAMILIES, ids=lambda cases: cases.__name__)
"""Gives a test the families one by one, as `cases`."""


def lowered(case):
    """A case as blocks; those that stay graph ops are not drawn."""
    module = run_on(case.module(), "convert-graph-to-tir")
    assume(not any(op.name.startswith("graph.") for op in module.walk()))
    return module


def check_few(cases, check):
    """Runs `check` on a few programs of a family: blocks, inputs, and what they compute."""

    @settings(
        max_examples=max(2, settings.default.max_examples // 20),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def run(case):
        module = lowered(case)
        check(module, case.arrays, evaluate_function(module, "main", case.arrays))

    run()

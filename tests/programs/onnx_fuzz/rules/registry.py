"""The table of rules that draw operators."""

from __future__ import annotations

from collections.abc import Callable

from onnx_fuzz.draft import Draft

Rule = Callable[[Draft], None]

RULES: dict[str, Rule] = {}
"""By operator; outside ONNX's default domain it is `domain.operator`."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Makes a function the rule of operators."""

    def keep(function: Rule) -> Rule:
        for operator in operators:
            assert operator not in RULES, operator
            RULES[operator] = function
        return function

    return keep

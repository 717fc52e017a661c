"""Defines a row of the table of differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from byocir.frontend.onnx.differences.conditions import Condition

Reference = Literal["onnxruntime", "reference"]
"""References to compare with: ONNX Runtime without graph optimisations, onnx's reference
evaluator."""

SILENT = "the standard is silent"


@dataclass(frozen=True)
class Difference:
    """Describes a row of the table: where byocir and others give different results, what each
    gives, and who is right. `onnxruntime` or `reference` is empty where that one agrees with
    byocir. Where `steps` is given, results are quantised and differ by at most that many steps.
    """

    name: str
    operators: tuple[str, ...]
    when: str
    holds: Condition
    byocir: str
    why: str
    onnxruntime: str = ""
    reference: str = ""
    steps: int = 0

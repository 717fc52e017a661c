"""Lists where byocir, ONNX Runtime and onnx's reference evaluator are known to differ.

All that compare use this one table: the page `docs/differences.md`, `byocir run --verify`, `byocir
bisect` and the differential fuzzer. A difference that no row explains is a bug, and a row is no
excuse for a bug of ours: the standard says what byocir gives, or says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from byocir.frontend.onnx.differences.call import OperatorCall
from byocir.frontend.onnx.differences.movement import MOVEMENT
from byocir.frontend.onnx.differences.numbers import NUMBERS
from byocir.frontend.onnx.differences.row import Difference, Reference
from byocir.frontend.onnx.differences.windows import WINDOWS

__all__ = ["TABLE", "Difference", "Reference", "differences", "named"]

TABLE = (*WINDOWS, *MOVEMENT, *NUMBERS)
"""The known differences, by operator. A test shows each of these rows."""


def differences(
    node: onnx.NodeProto, inputs: Sequence[Any], opset: int, against: Reference
) -> list[Difference]:
    """Lists the rows that allow a node's results to differ from those of `against`, for these
    inputs (in the node's order, None for absent ones) and its domain's opset.
    """
    call, name = OperatorCall(node, inputs, opset), named(node)
    return [
        row for row in TABLE if name in row.operators and getattr(row, against) and row.holds(call)
    ]


def named(node: onnx.NodeProto) -> str:
    """Names a node's operator as rows have it: with its domain outside of ONNX's own."""
    default = node.domain in ("", "ai.onnx")
    return node.op_type if default else f"{node.domain}.{node.op_type}"

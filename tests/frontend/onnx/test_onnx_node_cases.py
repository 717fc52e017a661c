"""onnx's own node cases, for every operator of the table: the right result or a clear refusal.

A third of each operator's run with the other tests, all with `make slow`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx_cases import node_cases
from onnx_models import run_byocir

from byocir.errors import ByocirError
from byocir.frontend.onnx import import_onnx
from byocir.frontend.onnx.opset import OPSET
from byocir.frontend.onnx.table import READERS

Value = np.ndarray | list[np.ndarray]
LEAST_RIGHT = 1000
"""How many of all cases run right; more is welcome, fewer is a step back."""
ROUNDED_EACH_TIME = re.compile(r"test_attention_[34]d_\w*(bf16|fp16)_expanded")
"""Cases that ask for less than a step of 16 bits, though what they expect was rounded to 16 bits
after each step of its softmax; ours is computed as f32 and rounded once. They are at most 1.4 steps
apart."""


def known_cases() -> list[Any]:
    """The cases whose nodes the table knows."""
    return [
        case
        for case in node_cases()
        if all(node.op_type in READERS and not node.domain for node in case.model.graph.node)
    ]


def one_in(step: int, cases: list[Any]) -> list[Any]:
    """One in `step` of the cases of each operator, the first among them, and of those of several
    nodes."""
    found, seen = [], Counter[str]()
    for case in cases:
        nodes = case.model.graph.node
        kind = nodes[0].op_type if len(nodes) == 1 else ""
        if seen[kind] % step == 0:
            found.append(case)
        seen[kind] += 1
    return found


def at_working_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model said to be of the working opset, if it is newer (most operators are the same, and
    a result that differs would show) or its operators have not changed since."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for opset in copy.opset_import:
        if not opset.domain and (opset.version > OPSET or _is_current(model, opset.version)):
            opset.version = OPSET
    return copy


def _is_current(model: onnx.ModelProto, version: int) -> bool:
    def since(operator: str, opset: int) -> int:
        return onnx.defs.get_schema(operator, opset).since_version

    return all(since(n.op_type, version) == since(n.op_type, OPSET) for n in model.graph.node)


def with_constants(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> onnx.ModelProto:
    """The model with all inputs but the first as constants: axes, shapes and sizes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value, array in list(zip(model.graph.input, arrays, strict=True))[1:]:
        copy.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        copy.graph.input.remove(value)
    return copy


def as_array(value: Any) -> np.ndarray:
    is_proto = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_proto else np.asarray(value)


def as_value(value: Any) -> Value:
    """An array, or the arrays of a sequence."""
    return [as_array(each) for each in value] if isinstance(value, list) else as_array(value)


def outcome(case: Any) -> str:
    """'right', the reason of a refusal (ByocirError), or 'WRONG' and how."""
    model = at_working_opset(case.model)
    try:
        feeds, module = [], import_onnx(model)
    except ByocirError as refusal:
        if "to be a constant" not in refusal.message:
            return refusal.message
        feeds = [as_array(value) for value in case.data_sets[0][0]]
        try:
            module = import_onnx(with_constants(model, feeds))
        except ByocirError as refusal:
            return refusal.message
    for inputs, outputs in case.data_sets:
        values = [as_value(value) for value in inputs][: 1 if feeds else None]
        found = run_byocir(module, {str(i): value for i, value in enumerate(values)})
        for ours, theirs in zip(found, map(as_value, outputs), strict=True):
            if wrong := difference(ours, theirs, case):
                return f"WRONG: {wrong}"
    return "right"


def difference(ours: Value, theirs: Value, case: Any) -> str:
    """How a result differs from the expected one; empty if it is as close as the case asks."""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return next(filter(None, (difference(*pair, case) for pair in pairs)), "")
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
        return "a sequence of another length, or none"
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return f"{ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
    wide = [x if x.dtype.kind in "iub" else x.astype(np.float64) for x in (ours, theirs)]
    rtol = case.rtol
    if ROUNDED_EACH_TIME.fullmatch(case.name):
        rtol = 1.5 * float(ml_dtypes.finfo(ours.dtype).eps)
    is_close = np.allclose(*wide, rtol=rtol, atol=case.atol, equal_nan=True)
    return "" if is_close else "other values"


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_node_cases(step: int, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {case.name: outcome(case) for case in one_in(step, known_cases())}
    wrong = {n: o for n, o in outcomes.items() if o.startswith("WRONG")}
    right = Counter(outcomes.values())["right"]
    with capsys.disabled():
        print(f"onnx node cases: {right} right, {len(outcomes) - right} refused", end=" ")
    assert wrong == {}
    assert right >= LEAST_RIGHT // step

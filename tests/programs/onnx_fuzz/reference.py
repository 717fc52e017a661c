"""Computes a node by others: by ONNX Runtime without optimisations, else onnx's own reference.

With each value comes how far another right computation may be from it. Where an operator only
moves numbers, or rounds its result once, that is nothing. Elsewhere it is measured: inputs are
moved by what they may be off themselves and by a step of the element type, relative to the largest
of them (sums cancel), and what that moves in the result is what others may be off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
from onnx import helper
from processor import HAS_VNNI

from byocir.frontend.onnx.differences import Reference as Against
from byocir.frontend.onnx.differences import differences
from byocir.frontend.onnx.reference import Reference
from byocir.targets.ort_session import Session
from byocir.vendor.engine import NotComputed
from onnx_fuzz.cases import (
    Case,
    Data,
    Value,
    model_of,
    names_read,
    version_of,
)
from onnx_fuzz.draws import Unfit
from onnx_fuzz.kinds import CURVES, EXACT, LOOSE, STASHED, STEPS, UNMOVED

MOVED = 6.0
"""The weight of a measured change: moves of several inputs may add up."""
ROUNDS = 3
AGAIN = "."
"""Stands in the name of a value behind that of the same one in an input before."""

REFERENCES: Sequence[Against] = ("onnxruntime", "reference")
SATURATED = {
    "ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearConv",
    "QLinearMatMul",
}  # fmt: skip
"""Operators that ONNX Runtime computes exactly only where the processor multiplies bytes."""

Runner = Callable[[Mapping[str, Data]], list[Any]]


def epsilon(dtype: np.dtype) -> float:
    """Gives the step above 1 of a dtype of floats."""
    return float(_finfo(dtype).eps)


def _finfo(dtype: np.dtype) -> Any:
    return cast(Any, ml_dtypes.finfo)(dtype)


def largest(dtype: np.dtype) -> float:
    """Gives the largest finite number of a dtype of floats."""
    return float(_finfo(dtype).max)


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def compute(case: Case, node: onnx.NodeProto) -> list[Value]:
    """Gives the outputs of a node of a case. Raises Unfit if no reference runs it."""
    known = case.values
    operands = {name: known[name] for name in names_read(node)}
    given = [known[name].data if name else None for name in node.input]
    version = case.opset if not node.domain else version_of(node.domain)
    apart, operands = _apart(node, operands)
    for against in REFERENCES:
        rows = differences(node, given, version, against)
        if not all(row.steps for row in rows):
            break  # the table of differences has it
        runner = _runner(case, apart, operands, against)
        if runner is not None:
            steps = max((row.steps for row in rows), default=0)
            return _values(case, node, apart, operands, runner, steps)
    raise Unfit


def _apart(
    node: onnx.NodeProto, operands: Mapping[str, Value]
) -> tuple[onnx.NodeProto, Mapping[str, Value]]:
    """Gives a node that reads no value twice, with its values by name: each input is moved alone,
    as what moves a scale and a bias by the same may cancel."""
    made, given = onnx.NodeProto(), dict(operands)
    made.CopyFrom(node)
    for i, name in enumerate(node.input):
        if name and name in node.input[:i]:
            made.input[i] = f"{name}{AGAIN}{i}"
            given[made.input[i]] = operands[name]
    return made, given


def _values(
    case: Case,
    node: onnx.NodeProto,
    apart: onnx.NodeProto,
    operands: Mapping[str, Value],
    runner: Runner,
    steps: int,
) -> list[Value]:
    data = runner({name: operand.data for name, operand in operands.items()})
    data = [_as_said(each, case, node, i) for i, each in enumerate(data)]
    dtypes = [_dtype_of(each, case, node, i) for i, each in enumerate(data)]
    slacks = _slacks(apart, operands, runner, data, dtypes, steps)
    return [Value(d, t, s) for d, t, s in zip(data, dtypes, slacks, strict=True)]


def _as_said(data: Data, case: Case, node: onnx.NodeProto, index: int) -> Data:
    """Gives floats of 8 bits as what they are: ONNX Runtime gives their bytes."""
    array: Any = data
    if not isinstance(data, np.ndarray) or array.dtype != np.uint8:
        return array
    element = _inferred(case, node)[index].type.tensor_type.elem_type
    dtype = helper.tensor_dtype_to_np_dtype(element) if element else np.dtype(np.uint8)
    return array.view(dtype) if "float8" in dtype.name else array


def _dtype_of(data: Data, case: Case, node: onnx.NodeProto, index: int) -> np.dtype:
    if isinstance(data, list):
        parts = cast(list[Any], data)
        if any(not isinstance(part, np.ndarray) for part in parts):
            raise Unfit
        return parts[0].dtype if parts else _inferred_dtype(case, node, index)
    if not isinstance(data, np.ndarray):
        raise Unfit
    return cast(np.ndarray, data).dtype


def _inferred_dtype(case: Case, node: onnx.NodeProto, index: int) -> np.dtype:
    """Gives the elements of an empty sequence."""
    element = _inferred(case, node)[index].type.sequence_type.elem_type.tensor_type.elem_type
    if element == onnx.TensorProto.STRING:
        return np.dtype(object)
    if not element:
        raise Unfit
    return helper.tensor_dtype_to_np_dtype(element)


def _runner(
    case: Case, node: onnx.NodeProto, operands: Mapping[str, Value], against: str
) -> Runner | None:
    """Gives a reference that is ready to run a node, if it takes it."""
    if against == "onnxruntime" and node.op_type in SATURATED and not HAS_VNNI:
        return None
    # What moves must be given, so every float is.
    constant = {n for n in operands if n.partition(AGAIN)[0] in case.constants}
    held = {n: v for n, v in operands.items() if n in constant and not is_float(v.dtype)}
    given = {name: value for name, value in operands.items() if name not in held}
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    model = model_of([node], given, held, outputs, case.opset)
    try:
        prepared = Session(model) if against == "onnxruntime" else Reference(model)
        prepared.run({name: value.data for name, value in given.items()})
    except NotComputed:
        return None
    return lambda changed: prepared.run({name: changed[name] for name in given})


def _inferred(case: Case, node: onnx.NodeProto) -> list[onnx.ValueInfoProto]:
    """Gives the outputs of a node with the types that onnx infers."""
    operands = {name: case.values[name] for name in names_read(node)}
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    constants = {name: operands[name] for name in operands if name in case.constants}
    given = {name: value for name, value in operands.items() if name not in constants}
    model = model_of([node], given, constants, outputs, case.opset)
    try:
        return list(onnx.shape_inference.infer_shapes(model).graph.output)
    except Exception as error:
        raise Unfit from error


def _slacks(
    node: onnx.NodeProto,
    operands: Mapping[str, Value],
    runner: Runner,
    data: Sequence[Data],
    dtypes: Sequence[np.dtype],
    steps: int,
) -> list[np.ndarray | None]:
    exact = node.op_type in EXACT
    if exact and all(value.is_exact for value in operands.values()):
        return [None] * len(data)
    if any(isinstance(each, list) for each in data):
        if exact:
            raise Unfit  # sequences are exact or not made
        return [None if not is_float(t) else _raise() for t in dtypes]
    changes = [np.zeros(np.shape(each)) for each in data]
    rng = np.random.default_rng(0)
    for name in _movable(node, operands, exact):
        for _ in range(ROUNDS):
            moved = {key: value.data for key, value in operands.items()}
            moved[name] = _moved(operands[name], rng, _unit(node, operands[name], exact))
            _widen(changes, data, _run(runner, moved))
    return [
        _slack(each, change, dtype, node.op_type, exact, steps)
        for each, change, dtype in zip(data, changes, dtypes, strict=True)
    ]


def _raise() -> np.ndarray:
    raise Unfit


def _run(runner: Runner, moved: Mapping[str, Data]) -> list[Any] | None:
    try:
        return runner(moved)
    except NotComputed:
        return None


def _movable(node: onnx.NodeProto, operands: Mapping[str, Value], exact: bool) -> list[str]:
    fixed = {node.input[i] for i in UNMOVED.get(node.op_type, ()) if i < len(node.input)}
    return [
        name
        for name, value in operands.items()
        if is_float(value.dtype)
        and name not in fixed
        and not value.is_sequence
        and (not exact or not value.is_exact)
    ]


def _unit(node: onnx.NodeProto, value: Value, exact: bool) -> float:
    """Gives the part of its largest input that an operator may be off by."""
    if exact:
        return 0.0
    stash = [a.i for a in node.attribute if a.name in ("stash_type", "softmax_precision")]
    stash += [onnx.TensorProto.FLOAT] if node.op_type in STASHED else []
    dtypes = [value.dtype, *(helper.tensor_dtype_to_np_dtype(kind) for kind in stash if kind)]
    return LOOSE.get(node.op_type, 1) * max(epsilon(dtype) for dtype in dtypes)


def _moved(value: Value, rng: np.random.Generator, unit: float) -> np.ndarray:
    """Gives a value as it might be elsewhere."""
    array = np.asarray(value.data, np.float64)
    distance = np.zeros(array.shape) if value.slack is None else value.slack
    finite = np.abs(array[np.isfinite(array)])
    distance = distance + unit * float(finite.max(initial=0))
    signs = rng.choice([-1.0, 1.0], array.shape)
    with np.errstate(all="ignore"):
        moved = array + signs * np.where(np.isfinite(distance), distance, 0)
    return np.asarray(moved, value.dtype)  # of scalars numpy makes what no runtime takes


def _widen(changes: list[np.ndarray], data: Sequence[Data], found: list[Any] | None) -> None:
    """Adds what a move changed. Raises Unfit where it changed more than numbers."""
    if found is None:
        raise Unfit
    for change, before, after in zip(changes, data, found, strict=True):
        if np.shape(after) != np.shape(before):
            raise Unfit
        if before.dtype != object:
            change += _distance(after, before) / ROUNDS


def _distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Measures how far numbers are apart: 0 where they are the same, infinite where one is none."""
    a, b = (
        np.asarray(each, np.complex128 if each.dtype.kind == "c" else np.float64)
        for each in (left, right)
    )
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _slack(
    data: Data, change: np.ndarray, dtype: np.dtype, operator: str, exact: bool, steps: int
) -> np.ndarray | None:
    if not is_float(dtype) and dtype.kind != "c":
        if steps and change.max(initial=0) <= steps:
            return np.full(np.shape(data), float(steps))
        if change.any():
            raise Unfit  # a step was crossed
        return None
    with np.errstate(all="ignore"):
        size = np.abs(np.asarray(data, np.complex128 if dtype.kind == "c" else np.float64))
    slack = MOVED * change + float(
        change[np.isfinite(change)].mean() if np.isfinite(change).any() else 0
    )
    if not exact:
        unit = np.finfo(dtype).eps if dtype.kind == "c" else epsilon(dtype)
        unit = max(unit, float(np.finfo(np.float32).eps)) if operator in STASHED else unit
        near = np.where(np.isfinite(size), size, 0.0)
        slack = (
            slack + STEPS * unit * (near + (0.5 if operator in CURVES else 0)) + _smallest(dtype)
        )
    return slack


def _smallest(dtype: np.dtype) -> float:
    """Gives the least normal number: some references flush smaller ones to zero."""
    if dtype.kind == "c":
        return float(np.finfo(dtype).tiny)
    return float(_finfo(dtype).smallest_normal)

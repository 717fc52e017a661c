"""Evaluates foreign ops: ONNX's reference runs a model with that one node.

What runs such a model is an engine; onnx's reference evaluator unless the interpreter was given
another. Where that refuses what ONNX allows, or is wrong, the op has a rule in numpy here: onnx's
reference wants indices of GatherElements as large as the array but for the axis and the numbers of
NonMaxSuppression as vectors, takes unsorted values of Unique along the first dimension whatever the
axis, and gives the statistics of LayerNormalization in the type of its input. Raises ByocirError

| code | what is wrong |
| --- | --- |
| B312 | nothing runs the operator, or it does not take these values |
| B313 | the operator gave another type than was inferred for it |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, UnrankedTensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from byocir.dialects.graph import ForeignOp, GraphOp, YieldOp
from byocir.dialects.graph.values import StringType, UnknownType
from byocir.dialects.locations import place
from byocir.dialects.types import (
    dtype_of,
    element_of,
    has_dtype,
    is_float,
    static_shape,
)
from byocir.dialects.uses import set_operand
from byocir.errors import ByocirError
from byocir.evaluate.control_flow import may_outgrow, run_control_flow
from byocir.evaluate.interpreter import Interpreter, ModelRunner, Value, Values
from byocir.evaluate.memory_needs import ask_for_outputs, kind_of, memory_key
from byocir.evaluate.mismatch import mismatch
from byocir.evaluate.suppression import non_max_suppression
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.reference import Reference
from byocir.memory import refused
from byocir.vendor.engine import NotComputed

ForeignRule = Callable[[ForeignOp, Sequence[np.ndarray | None]], Sequence[np.ndarray]]
"""Computes all outputs of an operator, also those that nobody wants. Raises ValueError for inputs
that it does not take."""


def _number(op: ForeignOp, name: str, default: float) -> float:
    found = op.attrs.data.get(name)
    if not isinstance(found, IntegerAttr | FloatAttr):
        return default
    return cast("IntegerAttr[Any]", found).value.data


def _integer(op: ForeignOp, name: str, default: int) -> int:
    return int(_number(op, name, default))


def _gather_elements(op: ForeignOp, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    """Reads elements at the positions of the indices, but along the axis at the index: the indices
    may be fewer than the elements of any dimension."""
    x, indices = cast("Sequence[np.ndarray]", inputs)
    axis = _integer(op, "axis", 0)
    if x.ndim != indices.ndim or not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of {x.ndim} dimensions, indices of {indices.ndim}")
    at: list[np.ndarray] = [*np.indices(indices.shape, sparse=True)]
    at[axis] = indices
    for positions, size in zip(at, x.shape, strict=True):
        if positions.size and not -size <= positions.min() <= positions.max() < size:
            raise ValueError(f"an index outside of {size} elements")
    return [x[tuple(at)]]


def _non_max_suppression(
    op: ForeignOp, inputs: Sequence[np.ndarray | None]
) -> Sequence[np.ndarray]:
    boxes, scores = cast("Sequence[np.ndarray]", inputs[:2])
    if scores.ndim != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        raise ValueError(f"boxes of {boxes.shape} for scores of {scores.shape}")
    zero = np.zeros((), np.float32)
    numbers = [zero if value is None else value for value in [*inputs[2:], None, None, None][:3]]
    has_least = len(inputs) > 4 and inputs[4] is not None
    is_center = bool(_integer(op, "center_point_box", 0))
    return non_max_suppression([boxes, scores, *numbers], is_center, has_least)[:1]


def _unique(op: ForeignOp, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    """Computes Unique: the distinct elements, or slices along an axis, sorted or in the order in
    which they come first.
    """
    (x,) = cast("Sequence[np.ndarray]", inputs)
    is_flat = "axis" not in op.attrs.data
    axis = 0 if is_flat else _integer(op, "axis", 0)
    if not is_flat and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of {x.ndim} dimensions")
    given = x.ravel() if is_flat else x
    text = given.astype(np.str_) if x.dtype == object else given  # numpy sorts no rows of objects
    _, first, places, counts = np.unique(
        text, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not _integer(op, "sorted", 1):
        order = np.argsort(first)
        first, counts, places = first[order], counts[order], np.argsort(order)[places]
    made = np.take(given, first, axis)
    return [made, *(np.asarray(each, np.int64).ravel() for each in (first, places, counts))]


def _layer_norm(op: ForeignOp, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    """Computes LayerNormalization: the result, then the mean and the inverse deviation in the type
    of `stash_type`.
    """
    x, scale = cast("Sequence[np.ndarray]", inputs[:2])
    bias = inputs[2] if len(inputs) > 2 else None
    stash = _integer(op, "stash_type", onnx.TensorProto.FLOAT)
    stashed = onnx.helper.tensor_dtype_to_np_dtype(stash)
    wide = x.astype(np.promote_types(x.dtype, np.promote_types(stashed, np.float32)))
    axis = _integer(op, "axis", -1)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of {x.ndim} dimensions")
    axes = tuple(range(axis % x.ndim, x.ndim))
    count = wide.dtype.type(np.prod([x.shape[each] for each in axes]))
    apart = wide - wide.sum(axes, keepdims=True) / count
    variance = (apart * apart).sum(axes, keepdims=True) / count
    inverse = 1 / np.sqrt(
        variance + wide.dtype.type(_number(op, "epsilon", float(np.float32(1e-5))))
    )
    made = (apart * inverse).astype(x.dtype) * scale
    made = made if bias is None else made + bias
    mean = wide.sum(axes, keepdims=True) / count
    return [made.astype(x.dtype), mean.astype(stashed), inverse.astype(stashed)]


FOREIGN_RULES: Mapping[str, ForeignRule] = {
    "GatherElements": _gather_elements,
    "LayerNormalization": _layer_norm,
    "NonMaxSuppression": _non_max_suppression,
    "Unique": _unique,
}
"""The rule of each operator."""


def evaluate_foreign(interpreter: Interpreter, op: ForeignOp, arguments: Values) -> list[Value]:
    """Computes the results of a foreign op. Control flow is run op by op, unless an engine takes it
    whole.
    """
    if op.is_control_flow and (
        interpreter.engine is None or _is_mixed(interpreter, op) or may_outgrow(op, arguments)
    ):
        outputs = run_control_flow(interpreter, op, arguments)
    elif interpreter.engine is None and not op.domain.data and op.op_type.data in FOREIGN_RULES:
        outputs = _by_rule(op, arguments)
    else:
        outputs = _by_engine(interpreter, op, arguments)
    outputs = [_in_type(v, r.type) for v, r in zip(outputs, op.results, strict=True)]
    for value, result in zip(outputs, op.results, strict=True):
        found = mismatch(value, result.type)
        if found and not (_is_only_returned(result) and _has_element_type(value, result.type)):
            raise ByocirError(
                "B313", f"expected {result.type}, found {found}", where=place(op.location)
            )
    return outputs


def _by_engine(interpreter: Interpreter, op: ForeignOp, arguments: Values) -> list[Value]:
    """Computes a foreign op as a model. Control flow that is refused as a whole is run op by op: an
    engine may take each op inside, and else the error names the one that it does not take."""
    captures = op.captures()
    values = [*arguments, *(interpreter.value(value) for value in captures)]
    try:
        return run_as_model(interpreter, op, values, captures)
    except ByocirError as error:
        if error.code != "B312" or not op.is_control_flow:
            raise
    interpreter.plans[op] = run_control_flow
    return run_control_flow(interpreter, op, arguments)


def _is_only_returned(value: SSAValue) -> bool:
    """Tells if nothing but the function's return uses a value: then its sizes may differ from those
    that the model states.
    """
    return all(isinstance(use.operation, ReturnOp) for use in value.uses)


def _has_element_type(value: Value, type_: Attribute) -> bool:
    return isinstance(type_, TensorType) and not mismatch(
        value, UnrankedTensorType(cast("TensorType", type_).element_type)
    )


def _in_type(value: Value, type_: Attribute) -> Value:
    """Gives a value with floats of the width that its type says: onnx's reference widens some."""
    if not isinstance(value, np.ndarray) or not isinstance(type_, TensorType | UnrankedTensorType):
        return cast(Value, value)
    array, element = cast(np.ndarray, value), cast("TensorType", type_).element_type
    is_wide = is_float(element) and array.dtype.kind == "f" and array.dtype != dtype_of(element)
    return array.astype(dtype_of(element)) if is_wide else array


def _by_rule(op: ForeignOp, arguments: Values) -> list[Value]:
    given = iter(arguments)
    inputs = [None if value is None else next(given) for value in op.optional_inputs()]
    try:
        made = FOREIGN_RULES[op.op_type.data](op, cast("Sequence[np.ndarray | None]", inputs))
    except ValueError as error:  # numpy raises this for shapes that do not fit
        raise _not_run(op, error) from error
    return [value for value, there in zip(made, op.present_outputs(), strict=False) if there]


def _is_mixed(interpreter: Interpreter, op: ForeignOp) -> bool:
    """Tells if the graphs of an op contain something without an ONNX form, such as a call of a
    region.
    """
    if op not in interpreter.plans and not all(_has_onnx_form(inner) for inner in op.walk()):
        interpreter.plans[op] = run_control_flow
    return interpreter.plans.get(op) is run_control_flow


def _has_onnx_form(op: Operation) -> bool:
    return isinstance(op, GraphOp | ForeignOp | YieldOp)


def run_as_model(
    interpreter: Interpreter,
    op: Operation,
    values: Values,
    captures: Sequence[SSAValue] = (),
) -> list[Value]:
    """Computes the results of an op by the interpreter's engine, which runs it as a model of its
    own. `values` are those of its operands and then of its captures.
    """
    plan: _Plan | None = interpreter.plans.get(op)
    try:
        if plan is None:
            model = model_of(op, values, captures)
            plan = interpreter.plans[op] = _Plan((interpreter.engine or Reference)(model), model)
        return plan.run(op, values)
    except NotComputed as error:
        raise _not_run(op, error) from error


class _Plan:
    """Keeps an op as a model that is ready to run."""

    def __init__(self, runner: ModelRunner, model: onnx.ModelProto) -> None:
        self._runner, self._model = runner, model
        self._asked: set[Hashable] = set()
        """Remembers for which shapes and small integers an op has asked for memory."""

    def run(self, op: Operation, values: Values) -> list[Value]:
        feeds = dict(zip(self._runner.inputs, values, strict=True))
        is_open = any(static_shape(result.type) is None for result in op.results)
        if isinstance(op, FuncOp) or (is_open and not op.regions):
            key = tuple(map(memory_key, values))
            if key not in self._asked:
                ask_for_outputs(op, self._model, feeds)
                self._asked.add(key)
        with refused(f"room for {kind_of(op)}", place(op.location)):
            return list(self._runner.run(feeds))


def _not_run(op: Operation, error: Exception) -> ByocirError:
    return ByocirError(
        "B312",
        f"expected an operator that can be run on these values, found {kind_of(op)}: {error}",
        where=place(op.location),
    )


def run_whole(interpreter: Interpreter, function: FuncOp, arguments: Values) -> list[Value]:
    """Computes the results of a function of foreign ops as one model. Where nothing runs that
    model, or there is no room for it, the ops are run one by one, so that an error names an
    operator.
    """
    plan: _Plan | None = interpreter.plans.get(function)
    if interpreter.whole is None or (plan is None and function in interpreter.plans):
        return interpreter.call(function, arguments)
    try:
        if plan is None:
            interpreter.plans[function] = None
            model = _model_of_function(function, arguments)
            plan = interpreter.plans[function] = _Plan(interpreter.whole(model), model)
        made = plan.run(function, arguments)
    except (NotComputed, ByocirError):
        return interpreter.call(function, arguments)
    types = function.function_type.outputs.data
    if any(mismatch(value, type_) for value, type_ in zip(made, types, strict=True)):
        return interpreter.call(function, arguments)
    return made


def _model_of_function(function: FuncOp, arguments: Values) -> onnx.ModelProto:
    """Makes an ONNX model of a function. Inputs of unknown type get that of the value."""
    made = function.clone()
    for argument, value in zip(made.body.block.args, arguments, strict=True):
        if isinstance(argument.type, UnknownType):
            Rewriter.replace_value_with_new_type(argument, _type_of_value(value))
    made.update_function_type()
    return export_onnx(made)


def model_of(op: Operation, values: Values, captures: Sequence[SSAValue] = ()) -> onnx.ModelProto:
    """Makes an ONNX model of one op. Inputs of unknown type get that of the value."""
    operands = [*op.operands, *captures]
    types = [
        _type_of_value(value) if isinstance(operand.type, UnknownType) else operand.type
        for operand, value in zip(operands, values, strict=True)
    ]
    block = Block(arg_types=types)
    mapping = dict(zip(captures, block.args[len(op.operands) :], strict=True))
    inner = op.clone(value_mapper=dict[SSAValue, SSAValue](mapping))
    for index in range(len(op.operands)):
        set_operand(inner, index, block.args[index])
    block.add_ops([inner, ReturnOp(*inner.results)])
    results = [result.type for result in op.results]
    return export_onnx(FuncOp("op", (types, results), Region(block)))


def _type_of_value(value: Value) -> Attribute:
    if not isinstance(value, np.ndarray):
        return UnknownType()
    array = cast("np.ndarray[Any, Any]", value)
    if array.dtype.kind in "OUS":
        return TensorType(StringType(), array.shape)
    return (
        TensorType(element_of(array.dtype), array.shape)
        if has_dtype(array.dtype)
        else (UnknownType())
    )

"""Evaluates the ops that hold programs together: functions, calls, composites, index arithmetic,
and graph ops, which have an evaluator of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation

from byocir.dialects import byoc
from byocir.dialects.graph import ConstantOp, ForeignOp, Graph, GraphOp
from byocir.dialects.tir import ConstantOp as TirConstantOp
from byocir.dialects.tir import ExternOp
from byocir.dialects.types import DYNAMIC, dtype_of, element_type_of, shape_of, tensor
from byocir.evaluate.foreign import evaluate_foreign, run_as_model, run_whole
from byocir.evaluate.graph_ops import evaluate_graph_op
from byocir.evaluate.interpreter import External, Interpreter, Values, evaluates, rule_of
from byocir.evaluate.mismatch import mismatch
from byocir.evaluate.numpy_rules import NUMPY_RULES
from byocir.evaluate.ports import INPUTS
from byocir.evaluate.region_results import unexpected_results
from byocir.evaluate.routines import routine_of
from byocir.evaluate.scalar import BINARY, CONVERSIONS, OTHERS, UNARY, function_of
from byocir.toolchain.calling import read_only


def evaluate_graph(interpreter: Interpreter, op: GraphOp, arguments: Values) -> Values:
    """Runs a graph op. An exact op without a numpy rule is run by the interpreter's engine, which
    gives the same bits; others are not, so that a float which is rounded to an integer next gives
    the same integer on all hosts.
    """
    if interpreter.engine is not None and type(op) not in NUMPY_RULES and op.is_exact():
        return run_as_model(interpreter, op, arguments)
    return evaluate_graph_op(op, list(arguments))


evaluates(*(kind for kind in Graph.operations if issubclass(kind, GraphOp)))(evaluate_graph)


@evaluates(ForeignOp)
def _foreign(interpreter: Interpreter, op: ForeignOp, arguments: Values) -> Values:
    return evaluate_foreign(interpreter, op, arguments)


@evaluates(ConstantOp, TirConstantOp)
def _constant(_: Interpreter, op: ConstantOp | TirConstantOp, arguments: Values) -> Values:
    return (op.value.data.values(),)


@evaluates(*BINARY, *UNARY, *CONVERSIONS, *OTHERS)
def _scalar(interpreter: Interpreter, op: Operation, arguments: Values) -> Values:
    """Runs a scalar op on numbers; index values become Python's integers, with which addresses are
    computed more quickly.
    """
    function = interpreter.plans.get(op)
    if function is None:
        function = interpreter.plans[op] = function_of(op)
    value = function(*(np.int64(v) if isinstance(v, int) else v for v in arguments))
    return (int(value) if isinstance(op.results[0].type, IndexType) else value,)


@evaluates(func.CallOp)
def _call(interpreter: Interpreter, op: func.CallOp, arguments: Values) -> Values:
    name = op.callee.string_value()
    declared = interpreter.declaration(name)
    function = None if declared is not None else interpreter.function(name)
    if function is not None and byoc.WHOLE in function.attributes:
        return run_whole(interpreter, function, arguments)
    if declared is None or "routine" not in declared.attributes:
        return interpreter.call(interpreter.function(name), arguments)
    inputs = cast(IntegerAttr, declared.attributes["inputs"]).value.data
    for target, array in zip(
        arguments[inputs:], _routine(declared, arguments[:inputs]), strict=True
    ):
        target[...] = array
    return ()


def _routine(declared: func.FuncOp, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Runs a declared routine, whose attributes are those of `tir.extern`."""
    op = ExternOp.create(
        properties={name: declared.attributes[name] for name in ("routine", "numbers")}
    )
    routine = routine_of(op)
    return routine.evaluate(list(arrays), *routine.values(op))


@evaluates(byoc.CallOp)
def _call_region(interpreter: Interpreter, op: byoc.CallOp, arguments: Values) -> Values:
    symbol = op.callee.string_value()
    external = interpreter.externals.get(symbol)
    if external is not None and op.outputs:
        return _checked(external(arguments), op.result_types, symbol)
    if external is not None:
        return _call_in_memory(interpreter, op, external, arguments)
    program = interpreter.program(symbol)
    if program is not None:
        return rule_of(program)(interpreter, program, arguments)
    return call_on_tensors(interpreter, interpreter.function(symbol), arguments)


def _call_in_memory(
    interpreter: Interpreter, op: byoc.CallOp, code: External, arguments: Values
) -> Values:
    """Runs a target's code of a region in memory: the code takes its inputs and, behind them, the
    old contents of the arrays that it writes, and gives their new contents.
    """
    symbol = op.callee.string_value()
    declared = interpreter.declaration(symbol)
    assert declared is not None
    count = cast(IntegerAttr, declared.attributes[INPUTS]).value.data
    types = [tensor(element_type_of(v.type), shape_of(v.type)) for v in op.inputs[count:]]
    made = _checked(code(arguments), types, symbol)
    for target, array in zip(arguments[count:], made, strict=True):
        target[...] = array
    return ()


def _checked(results: object, types: Sequence[Attribute], symbol: str) -> Values:
    """Checks that the arrays a target's code returned are of the types that a call promises."""
    arrays: list[Any] = [*cast(Any, results)] if isinstance(results, (list, tuple)) else [results]
    if len(arrays) != len(types) or any(map(mismatch, arrays, types)):
        wanted = [(_sizes(t), dtype_of(cast(TensorType, t).element_type)) for t in types]
        raise unexpected_results(symbol, wanted, arrays)
    return arrays


def _sizes(type_: Attribute) -> Sequence[int | str]:
    if isinstance(type_, UnrankedTensorType):
        return ["*"]
    return ["?" if size == DYNAMIC else size for size in shape_of(type_)]


def call_on_tensors(
    interpreter: Interpreter, function: func.FuncOp, arguments: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Computes the results of a function, be it on tensors or on memrefs: the latter takes inputs,
    which it must not change, and then outputs, which it fills.
    """
    types = list(function.function_type.inputs)
    if function.function_type.outputs or len(types) <= len(arguments):
        return interpreter.call(function, arguments)
    outputs = [_buffer(type_) for type_ in types[len(arguments) :]]
    interpreter.call(function, [*(read_only(array) for array in arguments), *outputs])
    return outputs


def _buffer(type_: Attribute) -> np.ndarray:
    return np.zeros(shape_of(type_), dtype_of(element_type_of(type_)))


@evaluates(byoc.CompositeOp, byoc.RegionOp)
def _enclosing(
    interpreter: Interpreter, op: byoc.CompositeOp | byoc.RegionOp, arguments: Values
) -> Values:
    return interpreter.run_isolated(op.body.block, arguments)


@evaluates(byoc.BeginOp, byoc.EndOp)
def _marker(_: Interpreter, op: Operation, arguments: Values) -> Values:
    return arguments


@evaluates(byoc.SourceOp, byoc.TrailOp)
def _nothing(_: Interpreter, op: Operation, arguments: Values) -> Values:
    return ()

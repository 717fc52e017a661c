"""Evaluation rules of what holds programs together: functions, calls, composites, index arithmetic
and the graph level, whose ops have an evaluator of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation

from byocir.dialects import byoc
from byocir.dialects.graph import ConstantOp, Graph, GraphOp
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.evaluate.graph import evaluate_graph_op
from byocir.evaluate.interpreter import Interpreter, Value, evaluates
from byocir.evaluate.scalar import BINARY, function_of


@evaluates(*cast("list[type[GraphOp]]", list(Graph.operations)))
def _graph(_: Interpreter, op: GraphOp, arguments: Sequence[Value]) -> Sequence[Value]:
    return evaluate_graph_op(op, list(arguments))


@evaluates(ConstantOp)
def _constant(_: Interpreter, op: ConstantOp, arguments: Sequence[Value]) -> Sequence[Value]:
    return (op.value.data.values(),)


@evaluates(*BINARY, arith.ConstantOp, arith.CmpiOp, arith.IndexCastOp, arith.SelectOp)
def _scalar(interpreter: Interpreter, op: Operation, arguments: Sequence[Value]) -> Sequence[Value]:
    """Index values are Python's integers: they are quicker to compute addresses with."""
    function = interpreter.plans.get(op)
    if function is None:
        function = interpreter.plans[op] = function_of(op)
    value = function(*(np.int64(v) if isinstance(v, int) else v for v in arguments))
    return (int(value) if isinstance(op.results[0].type, IndexType) else value,)


@evaluates(func.CallOp)
def _call(interpreter: Interpreter, op: func.CallOp, arguments: Sequence[Value]) -> Sequence[Value]:
    return interpreter.call(interpreter.function(op.callee.string_value()), arguments)


@evaluates(byoc.CallOp)
def _call_region(
    interpreter: Interpreter, op: byoc.CallOp, arguments: Sequence[Value]
) -> Sequence[Value]:
    external = interpreter.externals.get(op.callee.string_value())
    if external is not None:
        return external(arguments)
    function = interpreter.function(op.callee.string_value())
    return call_on_tensors(interpreter, function, arguments)


def call_on_tensors(
    interpreter: Interpreter, function: func.FuncOp, arguments: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The results of a function, be it on tensors or on memrefs: inputs, which it must not change,
    and then outputs, which it fills."""
    types = list(function.function_type.inputs)
    if function.function_type.outputs or len(types) <= len(arguments):
        return interpreter.call(function, arguments)
    outputs = [_buffer(type_) for type_ in types[len(arguments) :]]
    interpreter.call(function, [*(_constant_view(array) for array in arguments), *outputs])
    return outputs


def _buffer(type_: Attribute) -> np.ndarray:
    return np.zeros(shape_of(type_), dtype_of(element_type_of(type_)))


def _constant_view(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


@evaluates(byoc.CompositeOp, byoc.RegionOp)
def _enclosing(
    interpreter: Interpreter, op: byoc.CompositeOp | byoc.RegionOp, arguments: Sequence[Value]
) -> Sequence[Value]:
    return interpreter.run_isolated(op.body.block, arguments)


@evaluates(byoc.SourceOp, byoc.TrailOp)
def _nothing(_: Interpreter, op: Operation, arguments: Sequence[Value]) -> Sequence[Value]:
    return ()

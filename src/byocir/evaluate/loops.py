"""Evaluates scf, affine and memref: programs that others wrote as loops, and those that
`convert-tir-to-scf` makes of ours. Shapes and steps are static; memrefs are arrays that change.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from xdsl.dialects import affine, memref, scf
from xdsl.dialects.builtin import AffineMapAttr, DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Operation

from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter, Values, evaluates
from byocir.evaluate.scalar import unknown
from byocir.evaluate.tir_access import expect_writable


@evaluates(scf.ForOp)
def _for(interpreter: Interpreter, op: scf.ForOp, arguments: Values) -> Values:
    low, high, step, *carried = arguments
    for index in range(low, high, step):
        carried = interpreter.run(op.body.block, [index, *carried])
    return carried


@evaluates(scf.ParallelOp)
def _parallel(interpreter: Interpreter, op: scf.ParallelOp, arguments: Values) -> Values:
    """Runs the iterations of a parallel loop in order. Loops with reductions are refused: byocir
    writes none.
    """
    if op.results:
        raise unknown(op)
    count = len(op.lowerBound)
    lows, highs, steps = (arguments[i * count : (i + 1) * count] for i in range(3))
    ranges = [range(*bounds) for bounds in zip(lows, highs, steps, strict=True)]
    for indices in product(*ranges):
        interpreter.run(op.body.block, indices)
    return ()


@evaluates(affine.ForOp)
def _affine_for(interpreter: Interpreter, op: affine.ForOp, arguments: Values) -> Values:
    count = len(op.lowerBoundOperands)
    last = count + len(op.upperBoundOperands)
    low = max(_indices(op.lowerBoundMap, arguments[:count]))
    high = min(_indices(op.upperBoundMap, arguments[count:last]))
    carried = list(arguments[last:])
    for index in range(low, high, op.step.value.data):
        carried = interpreter.run(op.body.block, [index, *carried])
    return carried


@evaluates(scf.IfOp)
def _if(interpreter: Interpreter, op: scf.IfOp, arguments: Values) -> Values:
    region = op.true_region if arguments[0] else op.false_region
    return interpreter.run(region.block, []) if region.blocks else ()


@evaluates(affine.ApplyOp)
def _apply(_: Interpreter, op: affine.ApplyOp, arguments: Values) -> Values:
    return _indices(op.map, arguments)


@evaluates(affine.MinOp)
def _min(_: Interpreter, op: affine.MinOp, arguments: Values) -> Values:
    return (min(_indices(op.map, arguments)),)


@evaluates(memref.LoadOp)
def _load(_: Interpreter, op: memref.LoadOp, arguments: Values) -> Values:
    array, *indices = arguments
    return (array[_inside(op, array, indices)],)


@evaluates(affine.LoadOp)
def _affine_load(_: Interpreter, op: affine.LoadOp, arguments: Values) -> Values:
    array, *operands = arguments
    return (array[_inside(op, array, _indices(op.map, operands))],)


@evaluates(memref.StoreOp)
def _store(_: Interpreter, op: memref.StoreOp, arguments: Values) -> Values:
    value, array, *indices = arguments
    expect_writable(array)
    array[_inside(op, array, indices)] = value
    return ()


@evaluates(affine.StoreOp)
def _affine_store(_: Interpreter, op: affine.StoreOp, arguments: Values) -> Values:
    value, array, *operands = arguments
    expect_writable(array)
    array[_inside(op, array, _indices(op.map, operands))] = value
    return ()


@evaluates(memref.AllocOp, memref.AllocaOp)
def _alloc(_: Interpreter, op: memref.AllocOp | memref.AllocaOp, arguments: Values) -> Values:
    type_ = op.memref.type
    return (np.zeros(shape_of(type_), dtype_of(element_type_of(type_))),)


@evaluates(memref.DeallocOp)
def _dealloc(_: Interpreter, op: memref.DeallocOp, arguments: Values) -> Values:
    return ()


@evaluates(memref.CopyOp)
def _copy(_: Interpreter, op: memref.CopyOp, arguments: Values) -> Values:
    source, destination = arguments
    expect_writable(destination)
    destination[...] = source
    return ()


@evaluates(memref.GetGlobalOp)
def _get_global(interpreter: Interpreter, op: memref.GetGlobalOp, arguments: Values) -> Values:
    found = interpreter.program(op.name_.string_value())
    if not isinstance(found, memref.GlobalOp):
        raise ByocirError("B302", f"expected a global {op.name_}, found none")
    array = interpreter.plans.get(found)
    if array is None:
        array = interpreter.plans[found] = _global(found)
    return (array,)


def _global(op: memref.GlobalOp) -> np.ndarray:
    shape, dtype = shape_of(op.type), dtype_of(element_type_of(op.type))
    if not isinstance(op.initial_value, DenseIntOrFPElementsAttr):
        return np.zeros(shape, dtype)
    values = array_of(op.initial_value)
    return values if op.constant is not None else values.copy()


def array_of(dense: DenseIntOrFPElementsAttr) -> np.ndarray:
    """Reads a dense attribute as an array, read-only; a single element stands for all."""
    type_ = dense.type
    assert isinstance(type_, TensorType)
    values = np.frombuffer(dense.data.data, dtype_of(element_type_of(type_)))
    shape = shape_of(type_)
    return np.broadcast_to(values[0], shape) if len(values) == 1 else values.reshape(shape)


def _indices(map_: AffineMapAttr, operands: Values) -> tuple[int, ...]:
    count = map_.data.num_dims
    dims, symbols = [int(v) for v in operands[:count]], [int(v) for v in operands[count:]]
    return tuple(expr.eval(dims, symbols) for expr in map_.data.results)


def _inside(op: Operation, array: np.ndarray, indices: Values) -> tuple[int, ...]:
    """Gives the indices of one element, none of them negative: numpy would count those from the
    end.
    """
    place = tuple(int(index) for index in indices)
    if any(not 0 <= i < size for i, size in zip(place, array.shape, strict=True)):
        raise ByocirError(
            "B303",
            f"expected {op.name} inside shape {list(array.shape)}, found {list(place)}",
        )
    return place

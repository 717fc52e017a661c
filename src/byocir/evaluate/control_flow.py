"""Evaluates If, Loop and Scan: their graphs are run op by op.

So ops inside can be handed over: a call of a region function runs where its target runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, SSAValue

from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.values import StringType
from byocir.dialects.locations import place
from byocir.dialects.types import DYNAMIC, dtype_of, static_shape
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter, Value, Values
from byocir.evaluate.memory_needs import nbytes_of
from byocir.memory import MOST, expect_memory, max_bytes


def run_control_flow(interpreter: Interpreter, op: ForeignOp, arguments: Values) -> list[Value]:
    """Gives the results of an If, Loop or Scan; what its graphs use from outside must be known to
    the interpreter. Raises ByocirError B312 for values that it does not take."""
    run = _RULES[op.op_type.data]
    given = iter(arguments)
    inputs = [None if value is None else next(given) for value in op.optional_inputs()]
    try:
        made = run(interpreter, op, inputs)
    # Numpy raises these for shapes that do not fit.
    except (ValueError, IndexError, TypeError) as error:
        raise ByocirError(
            "B312", f"expected values that {op.kind} can be run on, found: {error}"
        ) from error
    return [value for value, there in zip(made, op.present_outputs(), strict=False) if there]


def may_outgrow(op: ForeignOp, inputs: Values) -> bool:
    """Tells if the stacked outputs of a Loop may take more memory than the limit, for the number of
    iterations it is given. Where iterations run one by one, memory is asked for as they grow.
    """
    if op.op_type.data != "Loop":
        return False
    block, given = op.named_graphs()[0][1].block, op.optional_inputs()
    left = _yielded(block)[len(given) - 1 :]
    turns = int(_scalar(inputs[0])) if given[0] is not None else MOST
    return bool(left) and turns * sum(max(nbytes_of(v.type), 1) for v in left) > max_bytes()


def _run_if(interpreter: Interpreter, op: ForeignOp, inputs: Values) -> list[Value]:
    graphs = dict(op.named_graphs())
    branch = graphs["then_branch" if _scalar(inputs[0]) else "else_branch"]
    return interpreter.run(branch.block, [])


def _run_loop(interpreter: Interpreter, op: ForeignOp, inputs: Values) -> list[Value]:
    (_, graph), (most, condition, *carried) = op.named_graphs()[0], inputs
    block = graph.block
    limit = None if most is None else int(_scalar(most))
    go, count = condition is None or bool(_scalar(condition)), 0
    scanned: list[list[np.ndarray]] = [[] for _ in _yielded(block)[1 + len(carried) :]]
    nbytes = 0
    while go and (limit is None or count < limit):
        control = _as_inputs(block, (np.array(count, np.int64), np.array(go)))
        condition, *made = interpreter.run(block, [*control, *carried])
        go, carried = bool(_scalar(condition)), made[: len(carried)]
        for elements, element in zip(scanned, made[len(carried) :], strict=True):
            elements.append(element)
            nbytes += element.nbytes
        expect_memory(
            nbytes + interpreter.held.total, "what the turns of Loop leave", place(op.location)
        )
        count += 1
    types = [value.type for value in _yielded(block)[1 + len(carried) :]]
    return [*carried, *(_stacked(e, t, 0) for e, t in zip(scanned, types, strict=True))]


def _as_inputs(block: Block, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Reshapes the counter and the condition of a loop to one element where its graph takes arrays
    of one.
    """
    shapes = [static_shape(argument.type) for argument in block.args]
    return [v.reshape(s) if s else v for v, s in zip(values, shapes, strict=False)]


def _run_scan(interpreter: Interpreter, op: ForeignOp, inputs: Values) -> list[Value]:
    (_, graph), count = op.named_graphs()[0], _integer(op, "num_scan_inputs")
    block, states = graph.block, list(inputs[: len(inputs) - count])
    sources = inputs[len(states) :]
    axes = _integers(op, "scan_input_axes", count)
    backwards = _integers(op, "scan_input_directions", count)
    slices = [np.moveaxis(v, axis, 0) for v, axis in zip(sources, axes, strict=True)]
    slices = [v[::-1] if back else v for v, back in zip(slices, backwards, strict=True)]
    yielded = _yielded(block)[len(states) :]
    scanned: list[list[np.ndarray]] = [[] for _ in yielded]
    for elements in zip(*slices, strict=True):
        made = interpreter.run(block, [*states, *map(np.asarray, elements)])
        states = made[: len(states)]
        for found, element in zip(scanned, made[len(states) :], strict=True):
            found.append(element)
    axes = _integers(op, "scan_output_axes", len(yielded))
    backwards = _integers(op, "scan_output_directions", len(yielded))
    outputs = [
        _stacked(found[::-1] if back else found, value.type, axis)
        for found, value, axis, back in zip(scanned, yielded, axes, backwards, strict=True)
    ]
    return [*states, *outputs]


_RULES: dict[str, Callable[[Interpreter, ForeignOp, Values], list[Value]]] = {
    "If": _run_if,
    "Loop": _run_loop,
    "Scan": _run_scan,
}


def _yielded(block: Block) -> Sequence[SSAValue]:
    assert block.last_op is not None
    return block.last_op.operands


def _scalar(value: Value) -> Any:
    """Gives the one element of a tensor; raises ValueError if there are others."""
    return cast(np.ndarray, value).item()


def _stacked(elements: Sequence[np.ndarray], type_: Attribute, axis: int) -> np.ndarray:
    """Stacks the arrays of all iterations along a new axis: n arrays of [a, b] → [n, a, b]. Without
    iterations the result has no elements, and its open sizes are 0."""
    if elements:
        return np.ascontiguousarray(np.stack(elements, axis))
    if not isinstance(type_, TensorType):
        return np.zeros((0,), np.float32)
    tensor = cast("TensorType", type_)
    shape = [0 if size == DYNAMIC else size for size in tensor.get_shape()]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    element = tensor.element_type
    return np.zeros(shape, object if isinstance(element, StringType) else dtype_of(element))


def _integer(op: ForeignOp, name: str) -> int:
    found = op.attrs.data[name]
    assert isinstance(found, IntegerAttr)
    return cast("IntegerAttr", found).value.data


def _integers(op: ForeignOp, name: str, count: int) -> Sequence[int]:
    """Gives an attribute with a number for each input or output, else as many zeros."""
    found = op.attrs.data.get(name)
    if not isinstance(found, DenseArrayBase):
        return [0] * count
    return cast("DenseArrayBase[Any]", found).get_values()

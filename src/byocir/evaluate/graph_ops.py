"""Evaluates graph ops on numpy arrays: by a numpy rule where there is one, else by the blocks of
the op's definition. No library beside numpy is used: results must not depend on what is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from byocir.dialects.graph import GraphOp
from byocir.dialects.locations import place
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.numpy_rules import NUMPY_RULES
from byocir.memory import refused


def evaluate_graph_op(op: Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Computes the results of a graph op for these operands, whose shapes and dtypes are the op's
    own. Integers wrap around. Raises ByocirError B107 for a constant whose values are absent, B305
    for an op without a definition, B312 for values that it does not take, such as an index out of
    range.
    """
    rule = NUMPY_RULES.get(type(op), _by_definition)
    try:
        with refused(f"room for {op.name}", place(op.location)):
            made = rule(op, operands)
    except IndexError as error:
        raise ByocirError(
            "B312",
            f"expected an operator that can be run on these values, found {op.name}: {error}",
            where=place(op.location),
        ) from error
    arrays = list(map(np.asarray, made if isinstance(made, (list, tuple)) else [made]))
    for array, result in zip(arrays, op.results, strict=True):
        type_ = result.type
        assert array.shape == shape_of(type_), (op.name, array.shape, type_)
        assert array.dtype == dtype_of(element_type_of(type_)), (op.name, array.dtype, type_)
    return arrays


# -- by their definitions


def _by_definition(op: Operation, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    defined = _defined(
        cast(type[GraphOp], type(op)),
        tuple(value.type for value in op.operands),
        tuple(op.properties.items()),
        tuple(result.type for result in op.results),
    )
    try:
        return defined.again().call(defined.function("op"), operands)
    except ByocirError as error:
        if error.code != "B303":
            raise
        raise IndexError(error.message) from error


@lru_cache(maxsize=1024)
def _defined(
    op: type[GraphOp],
    operands: tuple[Attribute, ...],
    properties: tuple[tuple[str, Attribute], ...],
    results: tuple[Attribute, ...],
) -> Interpreter:
    """Makes the definition of an op, as the function `op`, once for all ops with these types and
    properties.
    """
    block, emitter = Block(arg_types=operands), Emitter(UnknownLoc())
    only = op.create(operands=block.args, result_types=results, properties=dict(properties))
    made = only.define(emitter)
    only.erase()
    block.add_ops([*emitter.ops, ReturnOp(*([made] if isinstance(made, SSAValue) else made))])
    return Interpreter(ModuleOp([FuncOp("op", (operands, results), Region(block))]))

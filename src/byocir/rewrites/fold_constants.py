"""fold-constants: replaces ops whose operands are all constants by constants.

Does: evaluates such ops with byocir's own numpy rules, and a target's own operators by their
definitions, where they say that they are exact. What has no elements is a constant, too,
whatever it is made from: no target needs to think of it.

Requires: nothing. Constants whose values were not supplied, and ops that read them, stay.

Guarantees: no bit changes, here or on another machine. So ops whose result depends on the order of
float additions or on a library's exponential are never folded (conv, matmul, mean, average pools
and softmax on floats), and neither is dequantize: integer weights, those that the model quantises
itself among them, and their scales must stay visible to what matches them. Constants grow by at
most `max_growth` bytes for each op folded. Locations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import known_values
from byocir.dialects.context import dialects_of_targets
from byocir.dialects.graph import ConstantOp, Graph, GraphOp
from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import dtype_of, element_type_of, nbytes, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.graph_ops import evaluate_graph_op
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluates ops whose operands are all constants, where the result is the same everywhere."""

    name = "fold-constants"

    max_growth: int = 2**16
    """The bytes that a folded constant may be larger than the constants it is made from."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [EvaluateConstantOp(self.max_growth), ReplaceEmptyOp()])


class OfOperators(Pattern):
    """Rewrites operators of any kind, those in dialects of targets among them."""

    @property
    def root_names(self) -> frozenset[str]:
        kinds = [op for each in (Graph, *dialects_of_targets()) for op in each.operations]
        operators = (op for op in kinds if issubclass(op, GraphOp) and op is not ConstantOp)
        return frozenset(op.name for op in operators)


@dataclass(frozen=True)
class EvaluateConstantOp(OfOperators):
    """Replaces an op on constants by its value."""

    max_growth: int

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        if not all(map(is_constant_value, op.operands)) or not op.is_exact():
            return None
        known = [known_values(value) for value in op.operands]
        operands = [values for values in known if values is not None]
        if len(operands) < len(known):
            return None
        made = sum(nbytes(result.type) for result in op.results)
        if made - sum(value.nbytes for value in operands) > self.max_growth:
            return None
        try:
            with np.errstate(all="ignore"):  # dividing by a constant 0 is no reason to warn users
                results = evaluate_graph_op(op, operands)
        except ByocirError:  # an index out of range, say: the program says so when it runs
            return None
        return [new.constant(value) for value in results]


class ReplaceEmptyOp(OfOperators):
    """Replaces an op whose results have no elements by arrays without elements."""

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        types = [result.type for result in op.results]
        if not all(0 in shape_of(type_) for type_ in types):
            return None
        return [
            new.constant(np.zeros(shape_of(type_), dtype_of(element_type_of(type_))))
            for type_ in types
        ]

"""Lowers operators on arrays of open shape that have a bound, so that they leave the evaluator
(convert-bounded-to-tir).

Does: replaces foreign ops whose results have a shape that only a run tells, but no more elements
than is known before, as NonZero has, and foreign ops on what these give: by calls of routines that
make and take arrays of open shape (`calls`), or by graph ops on the largest shape (`max_shape`).
Calls of `pack` and `unpack` lead from one to the other. A Loop or Scan of static shapes becomes a
`tir.for` (`loops`), and the graphs of an If in it functions, as `outline-branches` has it.

Requires: nothing. What has no bound, or one of more than `MOST_BYTES`, stays as it is, and so do
the graphs of foreign ops; a Loop or Scan of whose ops less than half are graph ops does, too.

Guarantees: the same results, but for the order of float additions; locations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET
from byocir.dialects.graph import ForeignOp, GraphOp
from byocir.dialects.tir import ConstantOp, ExternOp
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.uses import erase, replace_uses
from byocir.lowering.graph_to_tir.bounded.bounds import Arrays, Bounded
from byocir.lowering.graph_to_tir.bounded.calls import call_of
from byocir.lowering.graph_to_tir.bounded.loops import loop_of
from byocir.lowering.graph_to_tir.bounded.max_shape import on_max_shape
from byocir.rewrites.host.outline_branches import OutlineBranchesPass

__all__ = ["ConvertBoundedToTirPass"]


@dataclass(frozen=True)
class ConvertBoundedToTirPass(ModulePass):
    """Replaces operators whose results have a bound by calls of routines and graph ops."""

    name = "convert-bounded-to-tir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        seen: set[Operation] = set()
        while rest := [f for f in op.body.block.ops if isinstance(f, FuncOp) and f not in seen]:
            for function in rest:
                seen.add(function)
                if TARGET not in function.attributes:
                    for block in function.body.blocks:
                        _Conversion().convert(block)
            OutlineBranchesPass().apply(ctx, op)  # for an If that was inside a loop


class _Conversion:
    """Converts one function. An operator that was converted stays until all are, for it marks the
    place of ops that are made for it later.
    """

    def __init__(self) -> None:
        self.arrays = Arrays()
        self.converted: list[ForeignOp] = []

    def convert(self, block: Block) -> None:
        """Converts the ops of a function."""
        before = set(block.walk())
        self._block(block)
        for op in reversed(self.converted):
            for result in op.results:
                array = self.arrays.of(result)
                if array is not None and result.first_use is not None:
                    replace_uses(result, array.packed())
            erase(op)
        _erase_unused([op for op in block.walk() if op not in before])

    def _block(self, block: Block) -> None:
        for op in [op for op in block.ops if isinstance(op, ForeignOp)]:
            found = self._loop(op) if op.graphs else _results(op, self.arrays)
            if found is not None:
                self.converted.append(op)
                for result, array in zip(op.results, found, strict=True):
                    self.arrays.add(result, array)

    def _loop(self, op: ForeignOp) -> Sequence[Bounded] | None:
        """Replaces control flow by a loop, and converts what is in it."""
        emit = Emitter(op.location)
        built = loop_of(emit, op)
        if built is None or op.parent is None:
            return None
        loop, results = built
        op.parent.insert_ops_before(emit.ops, op)
        self._block(loop.body.block)
        return results


def _results(op: ForeignOp, arrays: Arrays) -> Sequence[Bounded] | None:
    """Emits the arrays that replace an op's results; None where the op stays as it is."""
    known = arrays.all_of(op.inputs)
    if known is None:
        return None
    rest = iter(known)
    given = [None if value is None else next(rest) for value in op.optional_inputs()]
    call = call_of(op)
    ways = [on_max_shape] if call is None else [call, on_max_shape]
    if not all(array.is_packed for array in known):
        ways.reverse()
    for way in ways:
        emit = Emitter(op.location)
        results = way(emit, op, given)
        if results is not None and op.parent is not None:
            op.parent.insert_ops_before(emit.ops, op)
            return results
    return None


def _erase_unused(ops: Sequence[Operation]) -> None:
    """Erases ops that were made and then not needed."""
    for op in reversed(ops):
        if isinstance(op, ConstantOp | ExternOp | GraphOp) and not any(
            result.first_use for result in op.results
        ):
            erase(op)

"""outline-branches: makes functions of the graphs of an If, which are lowered like all others.

Does: each graph of an If moves into a private function that takes what the graph uses from outside,
and a call of that function takes its place. Constants from outside are copied into it. So do the
graphs of an If inside such a function. A graph that no run gets through becomes a call of the
routine `never`, which ends the run.

Requires: an If on one boolean, at least half of whose ops are graph ops: what only the evaluator
runs is better left to it in one piece.

Guarantees: the same results. Names of nodes are kept. A function is called once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i1
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET
from byocir.dialects.graph import ForeignOp, GraphOp, YieldOp
from byocir.dialects.graph.foreign import FAILS
from byocir.dialects.open_values import is_open
from byocir.dialects.tir import ExternOp
from byocir.dialects.traits import is_constant, is_constant_value
from byocir.dialects.types import element_type_of
from byocir.dialects.uses import erase, moved_into_body, replace_op
from byocir.dialects.walk import enclosing


@dataclass(frozen=True)
class OutlineBranchesPass(ModulePass):
    """Moves the graphs of If into functions."""

    name = "outline-branches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        taken = {f.sym_name.data for f in op.body.block.ops if isinstance(f, FuncOp)}
        names = (name for i in range(2**31) if (name := f"branch_{i}") not in taken)
        rest = [f for f in op.body.block.ops if isinstance(f, FuncOp)]
        while rest:
            function = rest.pop(0)
            if TARGET in function.attributes or function.is_declaration:
                continue
            for flow in [op for op in function.walk() if _has_held_results(op)]:
                _cut(flow)
            for branch in [inner for inner in _outermost(function) if _is_worth_it(inner)]:
                made = [_outlined(graph, next(names)) for graph in branch.graphs]
                op.body.block.add_ops(made)
                rest += made


def _outermost(function: FuncOp) -> Iterator[ForeignOp]:
    """Yields the control flow that lies in no other."""
    for op in function.walk():
        if isinstance(op, ForeignOp) and op.is_control_flow and not enclosing(op, ForeignOp):
            yield op


def _is_worth_it(op: ForeignOp) -> bool:
    condition = op.inputs[0].type if op.op_type.data == "If" else None
    if condition is None or is_open(condition) or element_type_of(condition) != i1:
        return False
    inner = [each for each in op.walk() if each is not op and not _is_passive(each)]
    lowered = [each for each in inner if isinstance(each, GraphOp)]
    return bool(lowered) and 2 * len(lowered) >= len(inner)


def _is_passive(op: Operation) -> bool:
    return isinstance(op, YieldOp | ExternOp) or is_constant(op)


def _has_held_results(op: Operation) -> TypeGuard[ForeignOp]:
    """Tells if an op is an If whose results C can hold."""
    if not isinstance(op, ForeignOp) or op.op_type.data != "If" or not op.is_control_flow:
        return False
    return not any(is_open(result.type) for result in op.results) and not is_open(op.inputs[0].type)


def _cut(op: ForeignOp) -> None:
    """Replaces the ops of a graph that contains an op which fails by one that ends the run."""
    for graph in op.graphs:
        block, last = graph.block, graph.block.last_op
        failing = [each for each in block.ops if FAILS in each.attributes]
        if not failing or last is None or not all(op.present_outputs()):
            continue
        types = cast("list[TensorType]", [result.type for result in op.results])
        never = ExternOp.of("never", [op.inputs[0]], types, {}, failing[0].location)
        last.operands = never.results
        block.insert_op_before(never, last)
        for each in reversed(list(block.ops)):
            if each not in (never, last):
                erase(each)


def _outlined(graph: Region, name: str) -> FuncOp:
    """Makes a function of the ops of a graph, which calls it from now on."""
    old, around = graph.block, graph.parent
    assert around is not None
    used = _from_outside(graph)
    copied = [v for v in used if is_constant_value(v)]
    passed = [value for value in used if value not in copied]
    copies = {value: value.owner.clone() for value in copied if isinstance(value.owner, Operation)}
    body = moved_into_body(list(old.ops), passed, copies)
    last = body.last_op
    assert isinstance(last, YieldOp)
    results = [value.type for value in last.operands]
    replace_op(last, ReturnOp(*last.operands))
    call = CallOp(name, passed, results)
    call.location = around.location
    old.add_ops([call, YieldOp.create(operands=call.results)])
    types = [value.type for value in passed]
    return FuncOp(name, (types, results), Region(body), visibility="private")


def _from_outside(graph: Region) -> list[SSAValue]:
    """Lists the values that a graph uses and does not make, each once, in order."""
    op = graph.parent
    assert op is not None
    found: dict[SSAValue, None] = {}
    for inner in graph.walk():
        found.update((v, None) for v in inner.operands if not op.is_ancestor(v.owner))
    return list(found)

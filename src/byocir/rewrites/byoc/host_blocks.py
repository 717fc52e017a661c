"""Finds the host's work: in the functions that no target has taken, in graphs of their control
flow, and in their loops."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from byocir.dialects.byoc import TARGET
from byocir.dialects.graph import ForeignOp
from byocir.dialects.tir import ForOp
from byocir.dialects.walk import ops_in


def host_functions(module: ModuleOp) -> Iterator[FuncOp]:
    """Lists the functions that no target has taken."""
    for function in list(module.body.block.ops):
        if isinstance(function, FuncOp) and TARGET not in function.attributes:
            yield function


def host_blocks(module: ModuleOp) -> Iterator[Block]:
    """Yields the blocks of the ops that the host runs, outer ones first."""
    for function in host_functions(module):
        yield from blocks_in(function)


def blocks_in(op: Operation) -> Iterator[Block]:
    """Yields the blocks of an op, and those of control flow and loops on tensors inside, outer ones
    first. Ops that a target has taken are not looked into, nor are graphs of operators that are no
    control flow, as these run whole. Loops in memory are left alone, too: they are scheduled.
    """
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in ops_in(block):
                if inner.regions and _runs_blocks(inner):
                    yield from blocks_in(inner)


def _runs_blocks(op: Operation) -> bool:
    """Tells if an op runs blocks whose ops may be handed over one by one."""
    if type(op) is ForOp:
        return bool(op.initial)
    return type(op) is ForeignOp and op.is_control_flow

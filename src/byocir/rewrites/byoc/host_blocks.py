"""Where the host's work is: in the functions that no target has taken, and in graphs of their
control flow."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from byocir.dialects.byoc import TARGET
from byocir.dialects.graph import ForeignOp


def host_functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions that no target has taken."""
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and TARGET not in function.attributes:
            yield function


def host_blocks(module: ModuleOp) -> Iterator[Block]:
    """The blocks of what the host runs, outer ones first."""
    for function in host_functions(module):
        yield from blocks_in(function)


def blocks_in(op: Operation) -> Iterator[Block]:
    """The blocks of an op, and those of control flow inside, outer ones first. What a target has
    taken is not looked into, nor are graphs of operators that are no control flow: these run whole.
    """
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                if isinstance(inner, ForeignOp) and inner.is_control_flow:
                    yield from blocks_in(inner)
